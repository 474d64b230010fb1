"""Results with known numbers, built without running anything."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from identifiable.results import (
    Alert,
    Comparison,
    Component,
    ComponentMatch,
    Consensus,
    ConsensusDistance,
    Distortion,
    Efficiency,
    ErrorMatrix,
    Errors,
    Input,
    JointResolution,
    Null,
    PairResult,
    Provenance,
    RandomDirections,
    Reason,
    Resolution,
    Rung,
    Scale,
    Similarity,
    Solver,
    Spectrum,
    Start,
    Step,
    Summary,
    SupremumEstimate,
    Tie,
    UnresolvedPair,
    Verdict,
    Whitening,
    WorstCase,
    WorstRow,
)

ALL_GROUPS = ("signed_permutation", "rigid", "similarity", "linear", "ica")
# Held-out means, as if two runs agreed up to a rigid motion.
LADDER = {"signed_permutation": 0.62, "rigid": 0.042, "similarity": 0.0415, "linear": 0.039, "ica": 0.27}
SCALE = Scale(diameter=41.2, rms=11.3)


def make_errors(mean: float, *, ci95: tuple[float, float] | None = None, quantiles: bool = True) -> Errors:
    """Errors whose quantile curve rises from half the mean to three times it."""
    curve = tuple(mean * (0.5 + 0.9 * (i / 100) + 1.6 * (i / 100) ** 12) for i in range(101))
    return Errors(
        mean=mean,
        q50=curve[50],
        q95=curve[95],
        q99=curve[99],
        max=curve[100],
        mean_over_diameter=mean * SCALE.rms / SCALE.diameter,
        quantiles=curve if quantiles else (),
        ci95=ci95,
    )


def make_rung(group: str, mean: float, *, nulls: bool = True, bootstrap: int = 200, quantiles: bool = True) -> Rung:
    """One rung: in-sample a little better than held-out, nulls far away."""
    null: dict[str, Null | None] = {}
    if nulls:
        null["shuffle"] = Null(mean=0.97 if group != "linear" else 0.74, p=1 / 101, observed=mean, draws=100, rows=2000)
        turned = group in ("signed_permutation", "ica")
        null["rotation"] = Null(mean=0.81, p=0.3, observed=mean, draws=100, rows=2000) if turned else None
    ci95 = (mean * 0.97, mean * 1.03) if bootstrap else None
    return Rung(
        group, make_errors(mean * 0.94, quantiles=quantiles), make_errors(mean, ci95=ci95, quantiles=quantiles), null
    )


def make_pair(
    source: str = "run1",
    target: str = "run2",
    *,
    ladder: Mapping[str, float] = LADDER,
    nulls: bool = True,
    bootstrap: int = 200,
    quantiles: bool = True,
    epsilon: float = 0.1,
    protocol: str = "default",
    text: str = "",
    n: int = 5000,
    width: int = 32,
    kept: tuple[float, float] = (1.0, 1.0),
    worst: Sequence[WorstRow] = (WorstRow("cell-0042", 0.31), WorstRow("cell-1207", 0.29)),
) -> PairResult:
    """An ordered pair whose verdict follows from `ladder` as `compare` would draw it."""
    made = {g: make_rung(g, m, nulls=nulls, bootstrap=bootstrap, quantiles=quantiles) for g, m in ladder.items()}
    groups = [g for g in ALL_GROUPS[:4] if g in made]
    judged = {g: made[g].in_sample.mean_over_diameter if protocol == "paper" else made[g].held_out.q95 for g in groups}
    smallest = next((g for g in groups if judged[g] < epsilon), None)
    efficiency = None
    if {"signed_permutation", "rigid", "ica"} <= set(ladder):
        way = ladder["signed_permutation"] - ladder["rigid"]
        share = (ladder["signed_permutation"] - ladder["ica"]) / way if way else None
        bounds = (share - 0.04, share + 0.04) if bootstrap and share is not None else None
        efficiency = Efficiency(share, share, bounds)
    chance = {
        key: Null(mean=mean, p=1 / 101, observed=0.9, draws=100, rows=2000)
        for key, mean in (("cca", 0.061), ("cka", 0.0123))
    }
    return PairResult(
        source=source,
        target=target,
        n=n,
        dropped=12,
        width=width,
        kept_source=kept[0],
        kept_target=kept[1],
        scale=SCALE,
        rungs=tuple(made.values()),
        ica_efficiency=efficiency,
        similarity=Similarity(0.983, {"16": 0.991}, 0.9712, 0.9703, chance if nulls else {}),
        verdict=Verdict(smallest, epsilon, text),
        solver=Solver(31.5, 28.9, width, width, False, "float64"),
        worst=tuple(worst),
    )


def make_comparison(
    n_models: int = 2,
    *,
    names: Sequence[str] | None = None,
    protocol: str = "default",
    alerts: Sequence[Alert] = (),
    ladder: Mapping[str, float] = LADDER,
    nulls: bool = True,
    bootstrap: int = 200,
    quantiles: bool = True,
    width: int = 32,
    spectrum: int = 32,
    text: str = "",
    settings: Mapping[str, Any] | None = None,
    command: str = "identifiable compare run1.npy run2.npy --report out.html",
) -> Comparison:
    """A comparison of `n_models`, in which even and odd models form two families that agree within themselves."""
    names = tuple(names or (f"run{i + 1}" for i in range(n_models)))

    def stretched(i: int, j: int) -> dict[str, float]:
        across = 1.0 if (i - j) % 2 == 0 or len(names) == 2 else 5.0
        return {
            g: m if g == "signed_permutation" else min(m * across * (1 + 0.02 * i + 0.013 * j), 0.95)
            for g, m in ladder.items()
        }

    ordered = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    pairs = tuple(
        make_pair(
            names[i],
            names[j],
            ladder=stretched(i, j),
            nulls=nulls,
            bootstrap=bootstrap,
            quantiles=quantiles,
            protocol=protocol,
            text=text,
            width=width,
        )
        for i, j in ordered
    )
    matrices: tuple[ErrorMatrix, ...] = ()
    consensus = None
    if len(names) > 2:
        held_out = {(p.source, p.target, r.group): r.held_out.mean for p in pairs for r in p.rungs}
        matrices = tuple(
            ErrorMatrix(g, names, tuple(tuple(held_out.get((a, b, g), 0.0) for b in names) for a in names))
            for g in ladder
        )
        consensus = Consensus(
            width,
            7,
            True,
            tuple(
                ConsensusDistance(name, v := 0.05 + 0.11 * (i % 2) + 0.004 * i, v * 0.9, v * 1.7, v * 3.1)
                for i, name in enumerate(names)
            ),
        )
    chosen = {
        "groups": list(ladder),
        "folds": 5,
        "group_by": None,
        "bootstrap": bootstrap,
        "nulls": ["shuffle", "rotation"] if nulls else [],
        "epsilon": 0.1,
        "protocol": protocol,
        **(settings or {}),
    }
    return Comparison(
        inputs=tuple(Input(name, 5012, width, "float32", f"{i:064x}") for i, name in enumerate(names)),
        settings=chosen,
        alerts=tuple(alerts),
        provenance=Provenance("0.1.0", {"numpy": "2.3.0", "scipy": "1.16.0"}, 0, command, "2026-09-01T12:00:00+00:00"),
        pairs=pairs,
        spectra=tuple(
            Spectrum(
                name,
                tuple(math.exp(-6 * k / spectrum * (1 + 0.1 * i)) for k in range(spectrum)),
                spectrum,
                spectrum / (2 + 0.1 * i),
            )
            for i, name in enumerate(names)
        ),
        matrices=matrices,
        consensus=consensus,
    )


DENSITY_EDGES = tuple(-5 + 10 * k / 60 for k in range(61))
MADE_BY = Provenance(
    "0.1.0",
    {"numpy": "2.3.0", "scipy": "1.16.0"},
    0,
    "identifiable resolve cells.npy -o basis.safetensors",
    "2026-09-01T12:00:00+00:00",
)


def make_density(peaked: float) -> tuple[float, ...]:
    """A histogram of unit variance: a Gaussian at 0, a Laplace density at 1, an even one at -1, mixtures between."""
    other = (lambda x: math.exp(-math.sqrt(2) * abs(x)) / math.sqrt(2)) if peaked > 0 else _even
    centres = [(a + b) / 2 for a, b in pairwise(DENSITY_EDGES)]
    gauss = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in centres]
    return tuple((1 - abs(peaked)) * g + abs(peaked) * other(x) for x, g in zip(centres, gauss, strict=True))


def _even(x: float) -> float:
    return 1 / math.sqrt(12) if abs(x) < math.sqrt(3) else 0.0


LIMITS = {"gaussian_level": 1e-4, "angle_se": 0.3, "stability": 0.93, "stability_min": 0.85}
LIMITS |= {"residual": 0.05, "variance_in_one_row": 0.2}


def make_component(index: int, of: int, *, refits: bool = True, good: bool | None = None) -> Component:
    """Component `index` of `of`: the later, the closer to a Gaussian; the last quarter is not reproducible."""
    far = 1 - index / of
    reproducible = index < of - of // 4 if good is None else good
    stability = (0.9995 - 0.02 * (1 - far) if reproducible else 0.4 + 0.3 * far) if refits else None
    reason = Reason("turns_into", {"component": (index + 1) % of})
    if reproducible:
        reason = Reason("reproducible", {"correlation": stability or 0, "refits": 4})
    return Component(
        index=index,
        variance=2 * (index + 0.5) / of**2,
        negentropy=0.05 * far**3,
        negentropy_se=0.0004 + 0.0002 * far,
        skew=0.81 * far,
        skew_se=0.021,
        kurtosis=(-1.1 if index % 5 == 4 else 2.7) * far,
        kurtosis_se=0.11,
        gaussian_p=1e-9 if reproducible else 0.217,
        curvature=0.14 * far if reproducible else 0.0013 * far,
        hardest=(index + 1) % of if of > 1 else None,
        angle_se=0.0042 / far if reproducible else 0.31,
        residual=2.3e-5,
        sign="skew" if far > 0.4 else "loading",
        identifiable=reproducible,
        reason=reason,
        density=make_density((-0.8 if index % 5 == 4 else 0.95) * far),
        stability=stability,
        stability_min=None if stability is None else stability - 0.037,
        sign_kept=reproducible if refits else None,
        places=(max(0, index - 1), index),
    )


def make_resolution(
    d: int = 12,
    *,
    name: str = "cells",
    refits: bool = True,
    converged: bool = True,
    starts: int = 3,
    heavy_tailed: Collection[int] = (),
    alerts: Sequence[Alert] = (),
    settings: Mapping[str, Any] | None = None,
    command: str = MADE_BY.command,
) -> Resolution:
    """A resolution of `d` components out of `d` + 2 columns; neighbours in the last quarter cannot be told apart.

    The moments of the `heavy_tailed` components are not finite.
    """
    components = tuple(
        replace(c, kurtosis=math.inf, kurtosis_se=math.nan, angle_se=math.inf) if c.index in heavy_tailed else c
        for c in (make_component(i, d, refits=refits) for i in range(d))
    )
    poor = [c.index for c in components if not c.identifiable]
    columns = d + 2
    spectrum = tuple(10 ** (-3 * k / d) if k < d else 1e-9 * (columns - k) for k in range(columns))
    search = tuple(Step(1.0 + k, "search", max(1, d - k * d // 16), 0.9 * 0.6**k) for k in range(12))
    polish = tuple(Step(13.0 + k, "polish", d, 0.001 * 0.2**k) for k in range(6))
    return Resolution(
        inputs=(Input(name, 5012, columns, "float32", f"{7:064x}"),),
        settings={"rank": "auto", "restarts": starts, "stability": 8 if refits else 0, "contrast": "logcosh"}
        | {"order": "negentropy", "limits": LIMITS, **(settings or {})},
        alerts=tuple(alerts),
        provenance=Provenance(MADE_BY.version, MADE_BY.libraries, MADE_BY.seed, command, MADE_BY.time),
        rank=d,
        converged=converged,
        passes=19.25,
        contrast=14.46713,
        components=components,
        whitening=Whitening(d, 2, 1, 812.5, 1.5e-6, spectrum, max(1.0, 0.613 * d), "auto", "single"),
        starts=tuple(Start(k, 14.46713 - 0.41 * k, 18.5 + k, True, k) for k in range(starts)),
        steps=search + polish,
        unresolved=tuple(UnresolvedPair(i, j, 0.00113, 0.317) for i, j in pairwise(poor) if converged),
        unresolved_pairs=len(poor) - 1 if converged and poor else 0,
        ties=(Tie(0, 1, 0.62),) if d > 1 else (),
        density_edges=DENSITY_EDGES,
    )


def make_joint_resolution(
    n_models: int = 3,
    d: int = 12,
    *,
    names: Sequence[str] | None = None,
    alerts: Sequence[Alert] = (),
    refits: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> JointResolution:
    """Models whose components agree but for the last quarter, which the last model has not."""
    names = tuple(names or (f"run{i + 1}" for i in range(n_models)))
    models = tuple(make_resolution(d, name=name, refits=refits) for name in names)

    def match(i: int) -> ComponentMatch:
        good = models[0].components[i].identifiable
        partners: list[int | None] = [(i + k) % d for k in range(n_models)]
        if not good:
            partners[-1] = None
        signs: tuple[int | None, ...] = tuple(None if p is None else (-1) ** (i * k) for k, p in enumerate(partners))
        return ComponentMatch(tuple(partners), signs, 0.99 - 0.01 * i / d if good else 0.23, 1 / 201, good, good)

    return JointResolution(
        inputs=tuple(model.inputs[0] for model in models),
        settings={"joint": True, "shared_above": 0.8, **(settings or {})},
        alerts=tuple(alerts),
        provenance=MADE_BY,
        models=models,
        matches=tuple(map(match, range(d))),
        shared_counts=tuple(tuple(d if i == j else d // 2 for j in range(n_models)) for i in range(n_models)),
        n=4988,
    )


def make_distortion(
    n: int = 400,
    *,
    decoder: str = "model:decoder",
    lost: Collection[int] = (),
    undefined: Collection[int] = (),
    lanczos: bool = False,
    directions: int = 10,
    supremum: bool = True,
    alerts: Sequence[Alert] = (),
    settings: Mapping[str, Any] | None = None,
) -> Distortion:
    """A decoder whose largest constant is 1.6 and, after the best scale, 1.414; it loses a direction at the points `lost`.

    At `undefined` points it has no derivative.
    """

    def spread(low: float, high: float) -> list[float]:
        return [low + (high - low) * i / max(n - 1, 1) for i in range(n)]

    smallest = [0.0 if i in lost else v for i, v in enumerate(spread(0.625, 0.9))]
    largest = spread(1.25, 1.0)
    for i in undefined:
        smallest[i] = largest[i] = math.nan
    known = [i for i in range(n) if i not in undefined]
    finite = [i for i in known if i not in lost]
    constant = [max(b, 1 / a) if a else math.inf for a, b in zip(smallest, largest, strict=True)]
    condition = [b / a if a else math.inf for a, b in zip(smallest, largest, strict=True)]
    constant = [math.nan if i in undefined else v for i, v in enumerate(constant)]

    def summarised(values: Sequence[float]) -> Summary:
        ordered = sorted(values[i] for i in known)
        at = [ordered[round(q * (len(ordered) - 1))] for q in (0.05, 0.5, 0.95)]
        return Summary(sum(ordered) / len(ordered), ordered[0], *at, ordered[-1])

    figures = {"sigma_min": smallest, "sigma_max": largest, "constant": constant, "condition": condition}
    worst = "both decoders are injective; the support is "
    bounds = tuple(
        WorstCase(f"Theorem 1, {kind}{after}", k, 3.25 * share, share, worst + ("convex" if after else "a ball"))
        for after, k in (("", 1.6), (", rescaled", 1.414))
        for kind, share in (("universal constant", 3.56), ("by the shape of the points", 0.41))
    )
    return Distortion(
        inputs=(Input("latents", n, 3, "float64", f"{9:064x}"),),
        settings={"decoder": decoder, "precision": "float64", "directions": directions, **(settings or {})},
        alerts=tuple(alerts),
        provenance=Provenance(MADE_BY.version, MADE_BY.libraries, MADE_BY.seed, MADE_BY.command, MADE_BY.time),
        decoder=decoder,
        n=n,
        latents=3,
        outputs=12288,
        method="lanczos" if lanczos else "exact",
        undefined=len(undefined),
        deficient=len(lost),
        best_scale=1.131 if finite and not lost else math.nan,
        best_constant=math.nan if not finite else math.inf if lost else 1.414,
        diameter=3.25,
        summary={key: summarised(values) for key, values in figures.items()} if known else {},
        supremum=SupremumEstimate(1.71, (1.62, 2.03), -0.41, 40) if supremum and finite and not lost else None,
        random_directions=RandomDirections(1.1, 1.01, 1.02, 1.13, 1.31, 1.37, directions, 0.62 if finite else None)
        if directions and known
        else None,
        bounds=bounds if finite and not lost else (),
        **{key: tuple(values) for key, values in figures.items()},
        log_volume=tuple(math.nan if i in undefined or lanczos else -math.inf if i in lost else 0.1 for i in range(n)),
        sigma_min_error=tuple(0.0123 for _ in range(n)) if lanczos else (),
        sigma_max_error=tuple(0.00456 for _ in range(n)) if lanczos else (),
    )
