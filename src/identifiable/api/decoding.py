"""Decoder geometry: a decoder and points in, `Distortion` out."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from identifiable import bounds
from identifiable._checks import DataError, UsageError, check_magnitude, counted, failing
from identifiable.api.opening import is_path, open_sources
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
    Z = latents_of(table)
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
        provenance=with_torch(default_provenance(seed, options.command or "identifiable.bilipschitz(...)"), known),
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


def latents_of(table: Representation) -> Values:
    """All points, in double precision unless they are stored in single."""
    values = blocks_of(table)[: table.n]
    bad = NonFinite()
    bad.add(0, [values])
    if bad.count:
        shown = ", ".join(map(str, bad.rows[:5]))
        raise DataError(
            f"{table.name}: expected finite latents, got {counted(bad.count, 'NaN or infinite value')} in "
            f"{counted(len(bad.rows), 'row')} (first rows, from 0: {shown}); remove those points."
        )
    check_magnitude(float(np.abs(values).max()), table.name)
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


def with_torch(provenance: Provenance, known: Decoder) -> Provenance:
    if not known.torch:
        return provenance
    from importlib.metadata import version

    return replace(provenance, libraries={**provenance.libraries, "torch": version("torch")})


# -- What counts as a decoder: torch modules and functions, exported programs, anything with products of its Jacobian.

PROGRAM = ".pt2"
ACCEPTED = f"a torch.nn.Module, a {PROGRAM} program, an object with a jvp, g(z) for torch or jvp(z, v)"


@dataclass(frozen=True, eq=False)
class Decoder:
    """A decoder that can be differentiated. `hint` says what to check when it fails; `sha256` is of its file."""

    name: str
    products: Products
    torch: bool
    hint: str
    sha256: str | None = None

    def told(self, made: Callable[[int], None]) -> Products:
        """Its products, with errors of its own as one of ours, and `made(rows)` called for every product of that many rows."""
        known = self.products
        whole = known.all_directions

        def jvp(z: Values, v: Values) -> Values:
            result = self._call(known.jvp, z, v)
            made(len(z))
            return result

        def all_directions(z: Values) -> Values:
            assert whole is not None
            result = self._call(whole, z)
            made(z.size)  # one product of every row for each latent
            return result

        def vjp(z: Values, u: Values) -> Values:
            assert known.vjp is not None
            return self._call(known.vjp, z, u)

        return Products(jvp, None if known.vjp is None else vjp, None if whole is None else all_directions)

    def _call(self, function: Callable[..., Values], *rows: Values) -> Values:
        with failing(
            lambda words: DataError(
                f"{self.name}: the decoder failed at {len(rows[0])} points of {rows[0].shape[1]} latents "
                f"({words}); {self.hint}"
            )
        ):
            return function(*rows)


def decoder_of(source: Any, *, shape: tuple[int, ...] | None, latents: int, name: str | None = None) -> Decoder:
    """`source` as a `Decoder` of points with so many latents.

    A function of one argument without default is g(z) and gets torch tensors; one of two is jvp(z, v) and gets arrays.
    Any other could be either and is refused. Torch is loaded only for a decoder of torch.
    """
    if shape is not None and (any(s < 1 for s in shape) or math.prod(shape) != latents):
        raise UsageError(
            f"shape {'x'.join(map(str, shape))}: expected positive numbers whose product is {latents}, the latents of a point."
        )
    if is_path(source):
        return _program(source, shape, name)
    said = name or _name_of(source)
    if isinstance(source, type):
        raise UsageError(f"{said}: expected {ACCEPTED}, got a class; make an instance of it first.")
    if _is_torch_module(source) or (not _has_products(source) and _takes(source, said) == 1):
        hint = "pass --shape (shape=) if it takes latents of another shape, and to a function points in the precision it takes"
        if not _is_torch_module(source):
            hint += "; a function of one argument gets torch tensors: for another framework pass jvp(z, v)"
        return Decoder(said, _torch_products(source, shape), True, f"{hint}.")
    if shape is not None:
        raise UsageError(f"{said}: shape is for torch decoders; this jvp gets rows of {latents} latents.")
    if isinstance(source, Products):
        known = source
    else:
        known = Products(source.jvp, getattr(source, "vjp", None)) if _has_products(source) else Products(source)
    return Decoder(said, known, False, "a jvp(z, v) gets points and directions, both (n, latents).")


def _program(path: str | os.PathLike[str], shape: tuple[int, ...] | None, name: str | None) -> Decoder:
    file = Path(path)
    if file.suffix.lower() != PROGRAM:
        raise UsageError(
            f"decoder {path}: expected the path of an exported program ({PROGRAM}), or {ACCEPTED}; "
            "module:attribute is for the command line."
        )
    if not file.is_file():
        raise DataError(f"{path}: there is no such file; expected a program written by torch.export.save.")
    from identifiable.nn import load_program

    module = load_program(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    hint = "export it with dynamic_shapes for the rows, and pass --shape (shape=) if it takes latents of another shape."
    return Decoder(name or file.name, _torch_products(module, shape), True, hint, digest)


def _torch_products(decoder: Any, shape: tuple[int, ...] | None) -> Products:
    from identifiable.nn import products

    return products(decoder, shape=shape)


def _is_torch_module(source: Any) -> bool:
    torch = sys.modules.get("torch")  # no module of torch exists before torch is loaded
    return torch is not None and isinstance(source, torch.nn.Module)


def _has_products(source: Any) -> bool:
    return isinstance(source, Products) or callable(getattr(source, "jvp", None))


def _takes(source: Any, name: str) -> int:
    """How many arguments a function needs, 1 or 2; anything else is refused."""
    if not callable(source):
        raise UsageError(f"{name}: expected {ACCEPTED}, got {type(source).__name__}.")
    wrap = "wrap it: lambda z: f(z) for torch, lambda z, v: f(z, v) for a jvp"
    try:
        parameters = list(inspect.signature(source).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"{name}: expected {ACCEPTED}, cannot see which arguments this one takes; {wrap}.") from None
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    plain = [p for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(plain) == len(needed) in (1, 2):
        return len(plain)
    if not needed:
        raise UsageError(f"{name}: expected {ACCEPTED}, got a function without arguments; pass what it returns.")
    listed = ", ".join(str(p) for p in needed)
    raise UsageError(f"{name}: expected {ACCEPTED}, got a function of ({listed}), which could be either; {wrap}.")


def _name_of(source: Any) -> str:
    return str(getattr(source, "__name__", type(source).__name__))
