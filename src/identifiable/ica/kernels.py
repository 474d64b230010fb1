"""The loops of a pass that numpy walks several times: the slope of log cosh, and the sums that tell the shape of a component.

Between two matrix products a piece of rows is in the cache, and each of numpy's steps over it costs as much as it would
compiled altogether: 2.0 to 3.3 ns a number for the slope and its squares, 0.5 ns here (two cores of a Zen 3). That is a
tenth of a pass over 384 columns, and a quarter of one over 160.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._compiling import compiled, in_registers
from identifiable.run import Run

ROUNDER = np.float32(1.5 * 2.0**23)  # a number plus this is rounded, and its whole part stands in the last bits
BITS_BELOW_EXPONENT = 23
MINUS_TWO_OVER_LN2 = np.float32(-2 / math.log(2))
HALF_LN2_HIGH = np.float32(0.34657287597656250)  # half of ln 2 in two parts: k ln 2 without rounding
HALF_LN2_LOW = np.float32(math.log(2) / 2 - 0.34657287597656250)
# exp(-2 f) for |f| <= ln(2) / 4
E1, E2, E3, E4, E5, E6 = (np.float32((-2) ** k / math.factorial(k)) for k in range(1, 7))
ONE, ZERO = np.float32(1), np.float32(0)
FARTHEST = np.float32(20)  # from where on tanh is 1, and the exponent still has room


@in_registers
def times_power_of_two(typing_context: Any, value: Any, power: Any) -> Any:
    """`value` times two to the whole number that stands in the last bits of `power`."""

    from llvmlite import ir
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(32)
        bits, exponent = (builder.bitcast(argument, whole) for argument in arguments)
        moved = builder.shl(exponent, ir.Constant(whole, BITS_BELOW_EXPONENT))
        return builder.bitcast(builder.add(bits, moved), ir.FloatType())

    return types.float32(types.float32, types.float32), code


@compiled
def tanh_and_squares(y: NDArray[np.float32], tanh: NDArray[np.float32], squares: NDArray[np.float32]) -> None:
    """tanh of every number, and to `squares` the sum over rows of its squares added.

    As (1 - e) / (1 + e) with e = exp(-2 |y|), which lies between 0 and 1; right to 2e-7.
    """
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            value = y[i, j]
            size = -value if value < ZERO else value
            size = FARTHEST if size > FARTHEST else size
            power = size * MINUS_TWO_OVER_LN2 + ROUNDER
            whole = power - ROUNDER
            rest = size + whole * HALF_LN2_HIGH
            rest += whole * HALF_LN2_LOW
            series = ((((E6 * rest + E5) * rest + E4) * rest + E3) * rest + E2) * rest + E1
            e = times_power_of_two(series * rest + ONE, power)
            slope = (ONE - e) / (ONE + e)
            slope = -slope if value < ZERO else slope
            tanh[i, j] = slope
            squares[j] += slope * slope


@compiled
def add_powers(
    y: NDArray[Any],
    first: NDArray[Any],
    second: NDArray[Any],
    third: NDArray[Any],
    fourth: NDArray[Any],
    fifth: NDArray[Any],
    sixth: NDArray[Any],
    seventh: NDArray[Any],
    eighth: NDArray[Any],
) -> None:
    """Sums over rows of y to y^8; in two loops, since no processor keeps more arrays than these in hand."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            u = y[i, j]
            square = u * u
            first[j] += u
            second[j] += square
            third[j] += square * u
            fourth[j] += square * square
        for j in range(y.shape[1]):
            u = y[i, j]
            square = u * u
            cube = square * u
            fifth[j] += cube * square
            sixth[j] += cube * cube
            seventh[j] += square * square * cube
            eighth[j] += square * square * square * square


@compiled
def add_values(
    y: NDArray[Any],
    value: NDArray[Any],
    alone: NDArray[Any],
    squared: NDArray[Any],
    with_first: NDArray[Any],
    with_square: NDArray[Any],
) -> None:
    """Sums over rows of G, G^2, G y and G y^2."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            u, g = y[i, j], value[i, j]
            alone[j] += g
            squared[j] += g * g
            with_first[j] += g * u
            with_square[j] += g * u * u


@compiled
def add_slopes(
    y: NDArray[Any], slope: NDArray[Any], alone: NDArray[Any], own: NDArray[Any], largest: NDArray[Any]
) -> None:
    """Sums over rows of G' and G' y, and the largest |y|."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            u, s = y[i, j], slope[i, j]
            size = -u if u < 0 else u
            alone[j] += s
            own[j] += s * u
            largest[j] = size if size > largest[j] else largest[j]


@compiled
def add_shapes(
    y: NDArray[Any],
    slope: NDArray[Any],
    value: NDArray[Any],
    powers: NDArray[Any],
    sums: NDArray[Any],
    largest: NDArray[Any],
) -> None:
    """All sums of a survey: powers 0 to 8; G, G^2, G y, G y^2, G', G' y; the largest |y|.

    One function, because each takes a tenth of a second to load in a new process.
    """
    for j in range(y.shape[1]):  # `powers[0] += ...` compiles for two seconds: the text of an error that cannot be
        powers[0, j] += y.shape[0]
    add_powers(y, powers[1], powers[2], powers[3], powers[4], powers[5], powers[6], powers[7], powers[8])
    add_values(y, value, sums[0], sums[1], sums[2], sums[3])
    add_slopes(y, slope, sums[4], sums[5], largest)


def prepare(run: Run, dtype: np.dtype[Any]) -> None:
    """What passes over rows in this precision will call."""
    rows, sums = np.empty((1, 1), dtype), np.empty((1, 1))
    if dtype == np.float32:
        run.prepare(tanh_and_squares, rows, rows, rows[0])
    run.prepare(add_shapes, rows, rows, rows, sums, sums, sums[0])
