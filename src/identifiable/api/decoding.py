"""Decoder geometry: a decoder and points in, `Distortion` out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from identifiable import bounds
from identifiable._checks import DataError
from identifiable.api.decoders import Decoder, decoder_of
from identifiable.api.opening import open_sources
from identifiable.diameter import Diameter, diameter
from identifiable.intake import NonFinite, as_representation, blocks_of, default_provenance, inputs_of
from identifiable.jacobians import (
    EXACT_UP_TO,
    LANCZOS_STEPS,
    MEMORY,
    Product,
    Products,
    Spectra,
    Values,
    random_directions,
    spectra,
    supremum,
)
from identifiable.moments import Array
from identifiable.options import BilipschitzOptions, takes
from identifiable.representation import Representation
from identifiable.results import (
    Alert,
    Distortion,
    Provenance,
    RandomDirections,
    Summary,
    SupremumEstimate,
    WorstCase,
)
from identifiable.run import Run, Stage

ACTIVATIONS = 8  # numbers a decoder holds inside for each one it gives: a guess that keeps chunks small
UNSURE = 0.01  # relative error of a singular value from which on an alert says so
SETTLED = ("float32", "float64")  # dtypes in which points are passed on as they are

UNIVERSAL = "Theorem 1, universal constant"
BY_SHAPE = "Theorem 1, by the shape of the points"


@takes(BilipschitzOptions)
def bilipschitz(decoder: Any, points: Any, /, *, options: BilipschitzOptions) -> Distortion:
    r"""How much a decoder stretches and shrinks at each point, and what that bounds.

    Implements Definition A.5 of Nelson et al. (2026) with exact singular values in place of the random directions of
    A.7.1, which stand beside them: 1 + L = max(sigma_max, 1 / sigma_min) of the Jacobian. Ours: the condition number, the
    best scale, the extrapolated supremum. Theorem 1 follows as a bound on how far two representations can be apart, at worst.

    Parameters
    ----------
    decoder
        A torch module in eval mode; the path of an exported program (``.pt2``); a `jacobians.Products`; an object with a
        method ``jvp(z, v)``, and perhaps ``vjp(z, u)``; or a function, told by how many arguments it needs: one, and it is
        g(z) and gets torch tensors; two, and it is jvp(z, v) and gets arrays, rows J(z_i) v_i out. No other function is taken.
    points
        Latents at which to look, (n, latents): an array, a `Representation`, `Blocks` or a path. For what is said of the
        supremum, draws of the law the decoder is meant for.

    >>> def double(z, v):
    ...     return 2 * v
    >>> found = bilipschitz(double, np.random.default_rng(0).standard_normal((300, 2)))
    >>> found.largest, found.best_scale, found.best_constant
    (2.0, 0.5, 1.0)
    """
    directions, seed = options.directions, options.seed
    shape = None if options.shape is None else tuple(options.shape)
    table = as_representation(open_sources([points], options.ids)[0], alone=True)
    known = decoder_of(decoder, shape=shape, latents=table.d, name=options.name)
    Z = _rows(table)
    n, d = Z.shape
    space, run = options.memory or MEMORY, Run.of(options)
    probe = known.told(lambda rows: None)
    outputs = probe.outputs(Z)
    precision = np.asarray(probe.jvp(Z[:1], np.zeros_like(Z[:1]))).dtype

    every = d if d <= EXACT_UP_TO or known.products.vjp is None else min(LANCZOS_STEPS, d)
    found = spectra(known.told(_rows_done(run, "decoder Jacobians", n, every)), Z, memory=space)
    at_random, at_the_end = np.random.default_rng(seed).spawn(2)
    estimate = None
    if directions:
        told = known.told(_rows_done(run, "random directions", n, directions))
        lengths = _lengths(told, max(space // (8 * ACTIVATIONS * max(outputs, 1)), 1))
        estimate = random_directions(lengths, Z, directions=directions, rng=at_random)
    span = diameter(Z) if n > 1 else None

    defined = found.defined
    condition = np.where(found.deficient, math.inf, found.condition)
    pointwise = {
        "sigma_min": found.smallest,
        "sigma_max": found.largest,
        "constant": found.constant,
        "condition": condition,
    }
    return Distortion(
        inputs=inputs_of([table]),
        settings={
            "decoder": known.name,
            "decoder_sha256": known.sha256,
            "precision": precision.name,
            "shape": list(shape) if shape else None,
            "directions": directions,
            "seed": seed,
        },
        alerts=_alerts(found, condition, precision),
        provenance=_provenance(default_provenance(seed, options.command or "identifiable.bilipschitz(...)"), known),
        decoder=known.name,
        n=n,
        latents=d,
        outputs=outputs,
        method=found.method,
        undefined=int((~defined).sum()),
        deficient=int(found.deficient.sum()),
        best_scale=found.best_scale,
        best_constant=found.best_constant,
        diameter=span.value if span else 0.0,
        summary={key: Summary(**summarised(v[defined])) for key, v in pointwise.items()} if defined.any() else {},
        supremum=_supremum(found.constant[defined], at_the_end),
        random_directions=_beside(estimate, found, directions),
        bounds=_bounds(found, Z, span),
        sigma_min=tuple(found.smallest.tolist()),
        sigma_max=tuple(found.largest.tolist()),
        constant=tuple(found.constant.tolist()),
        condition=tuple(condition.tolist()),
        log_volume=tuple(found.log_volume.tolist()),
        sigma_min_error=tuple(found.smallest_error.tolist()) if found.method == "lanczos" else (),
        sigma_max_error=tuple(found.largest_error.tolist()) if found.method == "lanczos" else (),
    )


def _rows(table: Representation) -> Values:
    """All points, in double precision unless they are stored in single."""
    values = blocks_of(table)[: table.n]
    bad = NonFinite()
    bad.add(0, [values])
    if bad.count:
        shown = ", ".join(map(str, bad.rows[:5]))
        raise DataError(
            f"{table.name}: expected finite latents, got {bad.count} NaN or infinite values in {len(bad.rows)} rows "
            f"(first rows, from 0: {shown}); remove those points."
        )
    return np.ascontiguousarray(values, values.dtype.name if values.dtype.name in SETTLED else np.float64)


def _rows_done(run: Run, stage: str, n: int, each: int) -> Callable[[int], None]:
    """A count of products, told as the rows that are done when every row takes `each` of them."""
    made = 0

    def add(rows: int) -> None:
        nonlocal made
        made += rows
        run.say(Stage(stage), min(made // each, n), n)

    return add


def _lengths(known: Products, rows: int) -> Product:
    """|J v| in place of J v, `rows` at a time: all that an estimate from random directions needs, in a column."""

    def jvp(z: Values, v: Values) -> Values:
        parts = [known.jvp(z[a : a + rows], v[a : a + rows]) for a in range(0, len(z), rows)]
        return np.concatenate(
            [np.linalg.norm(np.asarray(p, np.float64).reshape(len(p), -1), axis=1, keepdims=True) for p in parts]
        )

    return jvp


def summarised(values: Array) -> Mapping[str, float]:
    """Quantiles are values of points: between two of them an infinite one would give NaN."""
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95), method="nearest").tolist()
    figures = {"mean": values.mean(), "min": values.min(), "max": values.max()}
    return {**{key: float(v) for key, v in figures.items()}, "q05": low, "median": median, "q95": high}


def _beside(estimate: Array | None, found: Spectra, directions: int) -> RandomDirections | None:
    if estimate is None or not found.defined.any():
        return None
    finite = np.isfinite(found.constant)
    share = float(np.median(estimate[finite] / found.constant[finite])) if finite.any() else None
    return RandomDirections(**summarised(estimate[found.defined]), directions=directions, share=share)


def _supremum(constants: Array, rng: np.random.Generator) -> SupremumEstimate | None:
    found = supremum(constants, rng=rng) if len(constants) else None
    if found is None:
        return None
    shape = found.shape if math.isfinite(found.shape) else None
    return SupremumEstimate(found.estimate, (found.low, found.high), shape, found.n_tail)


def _bounds(found: Spectra, Z: Values, span: Diameter | None) -> tuple[WorstCase, ...]:
    """Theorem 1 for two decoders with the largest constant seen, as they are and after the best scale; none if it is infinite."""
    if span is None or span.value == 0 or not found.defined.any() or found.deficient.any():
        return ()
    d = Z.shape[1]
    widths = bounds.heights(Z, span.rows)
    seen = f"the largest constant at {int(found.defined.sum())} points is that of the whole support"
    result = []
    for constant, scaled in ((float(found.constant[found.defined].max()), ""), (found.best_constant, ", rescaled")):
        common = (
            "reconstructions are identifiable; both decoders are injective and smooth; "
            f"{'multiplied by the best scale, ' if scaled else ''}each is locally bi-Lipschitz with this constant; {seen}"
        )
        if d <= bounds.LARGEST_D:
            epsilon = bounds.theorem_1(constant, d, span.value)
            assumes = f"{common}; the support is convex, with the diameter of the points"
            result.append(WorstCase(UNIVERSAL + scaled, constant, epsilon, epsilon / span.value, assumes))
        epsilon = bounds.theorem_1_by_shape(constant, widths, span.value)
        assumes = f"{common}; the support is the convex hull of the points"
        result.append(WorstCase(BY_SHAPE + scaled, constant, epsilon, epsilon / span.value, assumes))
    return tuple(result)


def _alerts(found: Spectra, condition: Array, precision: np.dtype[Any]) -> tuple[Alert, ...]:
    n, defined = len(found.largest), found.defined
    alerts = []
    if not defined.all():
        alerts.append(
            Alert("no_derivative", {"points": int((~defined).sum()), "of": n, "first": int(np.argmin(defined))})
        )
    if defined.any() and not found.largest[defined].any():
        alerts.append(Alert("zero_derivative"))
    if found.deficient.any():
        alerts.append(
            Alert(
                "rank_deficient",
                {"points": int(found.deficient.sum()), "of": n, "first": int(np.argmax(found.deficient))},
            )
        )
    sure = defined & ~found.deficient
    worst = float(condition[sure].max()) * float(np.finfo(precision).eps) if sure.any() else 0.0
    if worst > UNSURE:
        alerts.append(Alert("rounding", {"dtype": precision.name, "share": worst}))
    with np.errstate(invalid="ignore"):
        unsettled = sure & (
            (found.smallest_error > UNSURE * found.smallest) | (found.largest_error > UNSURE * found.largest)
        )
    if unsettled.any():
        alerts.append(Alert("not_settled", {"points": int(unsettled.sum()), "of": n}))
    return tuple(alerts)


def _provenance(provenance: Provenance, known: Decoder) -> Provenance:
    if not known.torch:
        return provenance
    from importlib.metadata import version

    return replace(provenance, libraries={**provenance.libraries, "torch": version("torch")})
