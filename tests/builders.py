"""Results with known numbers, built without running anything; and how tests read the page of one."""

from __future__ import annotations

import base64
import json
import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from statistics import fmean as mean
from statistics import median
from typing import Any, Literal

from scipy.stats import spearmanr

from identifiable import report, results
from identifiable.experiments.roeder.measuring import judged, means
from identifiable.report.page import Block, Card, Curves, Fold, Table, Terms, Text
from identifiable.report.pages import page_of
from identifiable.report.render.terminal import WIDTH
from identifiable.report.words import columns_wide
from identifiable.results import from_json, to_json
from identifiable.results.cleaning import CleanCheck
from identifiable.results.evaluation import FitOn, HeldOut
from identifiable.results.reproduction import Estimator, Form, Unit
from identifiable.results.table2 import ALL_DATA

# -- comparisons, resolutions, distortions

ALL_GROUPS = ("signed_permutation", "rigid", "similarity", "linear", "ica")
# Held-out means, as if two runs agreed up to a rigid motion.
LADDER = {"signed_permutation": 0.62, "rigid": 0.042, "similarity": 0.0415, "linear": 0.039, "ica": 0.27}
SCALE = results.Scale(diameter=41.2, rms=11.3)
MADE_BY = results.Provenance(
    "0.1.0",
    {"numpy": "2.3.0", "scipy": "1.16.0"},
    0,
    "identifiable resolve cells.npy -o basis.safetensors",
    "2026-09-01T12:00:00+00:00",
)


def make_errors(mean: float, *, ci95: tuple[float, float] | None = None, quantiles: bool = True) -> results.Errors:
    """Errors whose quantile curve rises from half the mean to three times it."""
    curve = tuple(mean * (0.5 + 0.9 * (i / 100) + 1.6 * (i / 100) ** 12) for i in range(101))
    return results.Errors(
        mean=mean,
        q50=curve[50],
        q95=curve[95],
        q99=curve[99],
        max=curve[100],
        mean_over_diameter=mean * SCALE.rms / SCALE.diameter,
        quantiles=curve if quantiles else (),
        ci95=ci95,
    )


def explained(mean: float) -> float:
    """R² where all rows have this error, in units of the rms distance."""
    return 1 - 2 * mean**2


def make_rung(
    group: str,
    mean: float,
    *,
    linear: float | None = None,
    nulls: bool = True,
    intervals: bool = True,
    quantiles: bool = True,
) -> results.Rung:
    """One rung: in-sample a little better than held-out, nulls far away; R² where the error of `linear` is given."""
    null: dict[str, results.Null | None] = {}
    if nulls:
        null["shuffle"] = results.Null(
            mean=0.97 if group != "linear" else 0.74, p=1 / 101, observed=mean, draws=100, rows=2000
        )
        turned = group in ("signed_permutation", "ica")
        null["rotation"] = results.Null(mean=0.81, p=0.3, observed=mean, draws=100, rows=2000) if turned else None
    ci95 = (mean * 0.97, mean * 1.03) if intervals else None
    in_sample = make_errors(mean * 0.94, quantiles=quantiles)
    held_out = make_errors(mean, ci95=ci95, quantiles=quantiles)
    if linear is None or group == "ica":
        return results.Rung(group, in_sample, held_out, null)

    def bounded(value: float) -> results.Bounded:
        return results.Bounded(value, (value - 0.01, value + 0.01 * (1 - value)) if intervals else None)

    r2 = explained(mean)
    return results.Rung(group, in_sample, held_out, null, bounded(r2), bounded(r2 / explained(linear)))


def make_verdict(ladder: Mapping[str, float], smallest: str | None, epsilon: float) -> results.Verdict:
    """What `compare` would conclude from these errors, were all dimensions shared."""
    r2 = {g: explained(ladder[g]) for g in ALL_GROUPS[:4] if g in ladder} or {"linear": 0.0}
    largest = max(r2.values())
    words = (("nearly", 0.95), ("largely", 0.8), ("partly", 0.5), ("little", 0.0))
    degree = next((word for word, least in words if largest > least), "none")
    kept = [g for g in ("signed_permutation", "similarity", "linear") if g in r2 and r2[g] >= 0.95 * largest]
    form = results.Form(None, "none", None, 1.0, "unknown")
    if degree != "none":
        form = results.Form(kept[0] if kept else "linear", "clear", None, 1.04, "one")
    gate = "rigid" if form.group == "similarity" else form.group
    return results.Verdict(
        gate if largest >= 0.9 else None,
        epsilon,
        below_epsilon=smallest,
        degree=degree,
        r2=largest,
        degree_back=degree,
        r2_back=largest,
        form=form,
    )


def make_neighbours() -> results.Neighbours:
    """Three of five neighbours kept as given, nine of ten after a rotation."""

    def overlap(value: float) -> results.Overlap:
        return results.Overlap(value, 0.002, (value - 0.01, value + 0.01))

    null = results.Null(mean=0.002, p=0.05, observed=0.6, draws=19, rows=3000)
    searched = {"as_given": 0.07, "signed_permutation": 0.23, "similarity": 0.9, "linear": 0.91}
    return results.Neighbours(
        10, 3000, overlap(0.6), {k: overlap(v) for k, v in searched.items()}, 0.71, {"mutual": null, "cknna": null}
    )


def make_pair(
    source: str = "run1",
    target: str = "run2",
    *,
    ladder: Mapping[str, float] = LADDER,
    nulls: bool = True,
    intervals: bool = True,
    quantiles: bool = True,
    epsilon: float = 0.1,
    protocol: str = "default",
    older: str | None = None,
    n: int = 5000,
    width: int = 32,
    kept: tuple[float, float] = (1.0, 1.0),
    worst: Sequence[results.WorstRow] = (results.WorstRow("cell-0042", 0.31), results.WorstRow("cell-1207", 0.29)),
) -> results.PairResult:
    """An ordered pair whose verdict follows from `ladder` as `compare` would draw it.

    `older` is the sentence of a result saved before R², shared dimensions, axes and neighbours were measured.
    """
    linear = min(ladder.values()) if older is None else None
    made = {
        g: make_rung(g, m, linear=linear, nulls=nulls, intervals=intervals, quantiles=quantiles)
        for g, m in ladder.items()
    }
    groups = [g for g in ALL_GROUPS[:4] if g in made]
    judged = {g: made[g].in_sample.mean_over_diameter if protocol == "paper" else made[g].held_out.q95 for g in groups}
    smallest = next((g for g in groups if judged[g] < epsilon), None)
    efficiency = None
    if {"signed_permutation", "rigid", "ica"} <= set(ladder):
        way = ladder["signed_permutation"] - ladder["rigid"]
        share = (ladder["signed_permutation"] - ladder["ica"]) / way if way else None
        bounds = (share - 0.04, share + 0.04) if intervals and share is not None else None
        efficiency = results.Efficiency(share, share, bounds)
    chance = {
        key: results.Null(mean=mean, p=1 / 101, observed=0.9, draws=100, rows=2000)
        for key, mean in (("cca", 0.061), ("cka", 0.0123))
    }
    strong = width - width // 8
    rho = tuple(0.99 if k < strong else 0.7 for k in range(width))
    new: dict[str, Any] = {
        "shared": results.SharedDimensions(width, strong, width - strong, 0.12, 0.97, 0.96, rho),
        "axes": results.Axes(
            width, 100 * width, None, 2, 9, 7, 0.1, False, tuple(0.99 - 0.02 * k for k in range(width))
        ),
        "neighbours": make_neighbours(),
        "moved": (results.MovedGroup("plate 7", 40, 0.31, 2.1, 0.05),),
    }
    return results.PairResult(
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
        similarity=results.Similarity(0.983, {"16": 0.991}, 0.9712, 0.9703, chance if nulls else {}),
        verdict=make_verdict(ladder, smallest, epsilon) if older is None else results.Verdict(smallest, epsilon, older),
        solver=results.Solver(31.5, 28.9, width, width, False, "float64"),
        worst=tuple(worst),
        **(new if older is None else {}),
    )


def make_comparison(
    n_models: int = 2,
    *,
    names: Sequence[str] | None = None,
    protocol: str = "default",
    alerts: Sequence[results.Alert] = (),
    ladder: Mapping[str, float] = LADDER,
    nulls: bool = True,
    intervals: bool = True,
    quantiles: bool = True,
    width: int = 32,
    spectrum: int = 32,
    older: str | None = None,
    settings: Mapping[str, Any] | None = None,
    command: str = "identifiable compare run1.npy run2.npy --report out.html",
) -> results.Comparison:
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
            intervals=intervals,
            quantiles=quantiles,
            protocol=protocol,
            older=older,
            width=width,
        )
        for i, j in ordered
    )
    matrices: tuple[results.ErrorMatrix, ...] = ()
    consensus = None
    if len(names) > 2:
        held_out = {(p.source, p.target, r.group): r.held_out.mean for p in pairs for r in p.rungs}
        matrices = tuple(
            results.ErrorMatrix(g, names, tuple(tuple(held_out.get((a, b, g), 0.0) for b in names) for a in names))
            for g in ladder
        )
        consensus = results.Consensus(
            width,
            7,
            True,
            tuple(
                results.ConsensusDistance(name, v := 0.05 + 0.11 * (i % 2) + 0.004 * i, v * 0.9, v * 1.7, v * 3.1)
                for i, name in enumerate(names)
            ),
        )
    chosen = {
        "groups": list(ladder),
        "folds": 5,
        "group_by": None,
        **({"intervals": intervals, "axes": True, "neighbours": 10} if older is None else {"bootstrap": 200}),
        "nulls": ["shuffle", "rotation"] if nulls else [],
        "epsilon": 0.1,
        "protocol": protocol,
        **(settings or {}),
    }
    return results.Comparison(
        inputs=tuple(results.Input(name, 5012, width, "float32", f"{i:064x}") for i, name in enumerate(names)),
        settings=chosen,
        alerts=tuple(alerts),
        provenance=replace(MADE_BY, command=command),
        pairs=pairs,
        spectra=tuple(
            results.Spectrum(
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


def make_component(index: int, of: int, *, refits: bool = True, good: bool | None = None) -> results.Component:
    """Component `index` of `of`: the later, the closer to a Gaussian; the last quarter is not reproducible."""
    far = 1 - index / of
    reproducible = index < of - of // 4 if good is None else good
    stability = (0.9995 - 0.02 * (1 - far) if reproducible else 0.4 + 0.3 * far) if refits else None
    reason = results.Reason("turns_into", {"component": (index + 1) % of})
    if reproducible:
        reason = results.Reason("reproducible", {"correlation": stability or 0, "refits": 4})
    return results.Component(
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
    alerts: Sequence[results.Alert] = (),
    settings: Mapping[str, Any] | None = None,
    command: str = MADE_BY.command,
) -> results.Resolution:
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
    search = tuple(results.Step(1.0 + k, "search", max(1, d - k * d // 16), 0.9 * 0.6**k) for k in range(12))
    polish = tuple(results.Step(13.0 + k, "polish", d, 0.001 * 0.2**k) for k in range(6))
    return results.Resolution(
        inputs=(results.Input(name, 5012, columns, "float32", f"{7:064x}"),),
        settings={"rank": "auto", "restarts": starts, "stability": 8 if refits else 0, "contrast": "logcosh"}
        | {"order": "negentropy", "limits": LIMITS, **(settings or {})},
        alerts=tuple(alerts),
        provenance=replace(MADE_BY, command=command),
        rank=d,
        converged=converged,
        passes=19.25,
        contrast=14.46713,
        components=components,
        whitening=results.Whitening(d, 2, 1, 812.5, 1.5e-6, spectrum, max(1.0, 0.613 * d), "auto", "single"),
        starts=tuple(results.Start(k, 14.46713 - 0.41 * k, 18.5 + k, True, k) for k in range(starts)),
        steps=search + polish,
        unresolved=tuple(results.UnresolvedPair(i, j, 0.00113, 0.317) for i, j in pairwise(poor) if converged),
        unresolved_pairs=len(poor) - 1 if converged and poor else 0,
        ties=(results.Tie(0, 1, 0.62),) if d > 1 else (),
        density_edges=DENSITY_EDGES,
    )


def make_joint_resolution(
    n_models: int = 3,
    d: int = 12,
    *,
    names: Sequence[str] | None = None,
    alerts: Sequence[results.Alert] = (),
    refits: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> results.JointResolution:
    """Models whose components agree but for the last quarter, which the last model has not."""
    names = tuple(names or (f"run{i + 1}" for i in range(n_models)))
    models = tuple(make_resolution(d, name=name, refits=refits) for name in names)

    def match(i: int) -> results.ComponentMatch:
        good = models[0].components[i].identifiable
        partners: list[int | None] = [(i + k) % d for k in range(n_models)]
        if not good:
            partners[-1] = None
        signs: tuple[int | None, ...] = tuple(None if p is None else (-1) ** (i * k) for k, p in enumerate(partners))
        return results.ComponentMatch(
            tuple(partners), signs, 0.99 - 0.01 * i / d if good else 0.23, 1 / 201, good, good,
            None if good else results.Reason("no_partner", {"models": [names[-1]]}),
        )  # fmt: skip

    return results.JointResolution(
        inputs=tuple(model.inputs[0] for model in models),
        settings={"joint": True, "shared_above": 0.8, **(settings or {})},
        alerts=tuple(alerts),
        provenance=MADE_BY,
        models=models,
        matches=tuple(map(match, range(d))),
        shared_counts=tuple(tuple(d if i == j else d // 2 for j in range(n_models)) for i in range(n_models)),
        n=4988,
    )


def make_heads(
    *,
    features: bool = True,
    rank: int = 9,
    chance: float = 0.014,
    temperature: float = 1.02,
    r2_ridge: float = 0.31,
    r2_scale: float = 0.33,
    draws: int = 19,
) -> results.Heads:
    """Two heads of ten labels that fix `rank` of 64 dimensions, with a map that explains less than a fitted one."""
    fit = results.MapFit(
        n=500, r2=-0.22, ridge=0.1, r2_ridge=r2_ridge, r2_fitted=0.58, scale=0.42, r2_scale=r2_scale, correlation=0.48, distance=1.15,
        offset_gap=0.2, null_r2=-3.0, null_r2_ridge=0.001, null_correlation=chance, p=0.05, draws=draws, null_r2_scale=0.002,
    )  # fmt: skip
    head = results.HeadDiversity("first", 10, 64, rank, 9.5, rank == 64, 0.07, True)
    if features:
        head = replace(
            head,
            frequencies="predicted",
            weighted_rank=rank,
            weighted_condition=120.0,
            smallest_eigenvalue=0.0,
            effective_labels=7.5,
            variance=0.51,
        )
    way = results.HeadMap("first", "second", rank, 64, 9.5, None, None, 0.88, fit if features else None)
    back = replace(way, source="second", target="first", expressed=0.9, expressed_chance=0.5)
    return results.Heads(
        inputs=tuple(results.Input(name, 10, 64, "float32", f"{i:064x}") for i, name in enumerate(("first", "second"))),
        settings={"folds": 5, "null_draws": 19, "layout": "auto"},
        alerts=(results.Alert("head_not_diverse", {"name": "first", "labels": 10, "dimensions": 64, "rank": rank}),),
        provenance=MADE_BY,
        heads=(head, replace(head, name="second")),
        maps=(way, back),
        premise=results.Premise(500, 0.81, 0.18, 32.1, 0.53) if features else None,
        temperature=temperature if features else None,
    )


def make_matches(count: int = 2, *, chance: float = 0.3, whole: bool = True, large: bool = False) -> results.Matches:
    """Dictionaries of 512 features, of which 412 have a partner in each other one at PW-MCC 0.81."""
    names = tuple("abc"[:count])

    def score(name: Any, value: float, level: float, isotropic: float | None) -> results.MatchScore:
        return results.MatchScore(
            name, value, level, 0.05, (level - 0.01, level + 0.01), "gaussian", level, level - 0.05, isotropic
        )

    near = 0.805 if chance < 0.8 else 0.0
    scores = (
        score("pw_mcc", 0.81, chance, 0.2),
        score("pw_mcc_absolute", 0.82, 0.32, 0.21),
        score("max_cosine", 0.83, 0.33, 0.22),
        score("max_cosine_back", 0.84, 0.34, 0.23),
        score("share_above", near, 0.0, None),
    )
    spans = results.Subspaces(64, 64, 64) if whole else results.Subspaces(30, 40, 64, 0.9, 0.625, 12.5, 80.25)
    pairs = tuple(
        results.DictionaryPair(
            first=names[i], second=names[j], signed=True, matched=512, above=round(512 * near), chance_above=0.1, above_null=420,
            null99=0.5, unmatched_first=0, unmatched_second=3, scores=scores, subspaces=spans,
            quantiles=tuple(0.3 + 0.03 * k for k in range(21)), null_quantiles=tuple(0.2 + 0.015 * k for k in range(21)),
            solver="sparse" if large else "hungarian", null_features=(512, 1024, 2048) if large else (512,),
            strongest=(results.FeatureMatch("7", "9", 0.99, 0.5, 0.001),),
        )
        for i in range(count)
        for j in range(i + 1, count)
    )  # fmt: skip
    stable = results.FeatureStability(0.79, 0.31, 380) if count > 2 else None
    return results.Matches(
        inputs=tuple(results.Input(name, 512, 64, "float32", f"{i:064x}") for i, name in enumerate(names)),
        settings={"features": ["rows"], "signed": True, "threshold": 0.7, "null_draws": 19},
        alerts=(results.Alert("dead_features", {"name": "b", "dead": 3, "features": 515}),),
        provenance=MADE_BY,
        dictionaries=tuple(results.DictionarySummary(name, 512, 3, 64, 64, False, stable) for name in names),
        pairs=pairs,
        threshold=0.7,
        draws=19,
        cycles=results.Cycles(0.88, 0.02, 1) if count > 2 else None,
    )


def make_layers(
    count: int = 3, *, code: str = "layers_one_to_one", untrained: bool = True, training: int = 0, clear: bool = True
) -> results.Layers:
    """Two models of `count` layers whose CKA falls with depth from 0.9 by 0.1 a layer, beside an untrained pair at 0.4."""
    names = tuple(f"layer_{i}" for i in range(count))
    null = results.Null(mean=0.01, p=0.05, observed=0.8, draws=19, rows=200)

    def values(top: float) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(round(top - 0.1 * i - 0.2 * abs(i - j), 3) for j in range(count)) for i in range(count))

    def grid(of: Any, top: float) -> results.LayerGrid:
        return results.LayerGrid(of, names, names, *(values(top - 0.01 * k) for k in range(5)), components=16)

    diagonal = tuple(
        results.LayerPair(
            name, name, *(round(0.9 - 0.1 * i - 0.01 * k, 3) for k in range(5)), *([(0.1 * i, 0.95)] * 5),
            dict.fromkeys(results.layers.MEASURES, null),
        )
        for i, name in enumerate(names)
    )  # fmt: skip
    matches = tuple(
        results.LayerMatch(
            layer=name, best=name, cka=diagonal[i].cka, clear=clear, same=True, p=0.05,
            by=dict.fromkeys(results.layers.MEASURES[1:], name), cka_ci95=(0.1, 0.95), runner_up=names[i - 1], gap=0.2,
            gap_ci95=(0.1, 0.3), tied=() if clear else (names[i - 1],),
        )
        for i, name in enumerate(names)
    )  # fmt: skip
    steps = tuple(
        results.LayerCheckpoint(series, step, f"a/{step}", "b", step, step, diagonal, matches)
        for series in ("first", "between")
        for step in range(training)
    )
    said = {"first": "a", "second": "b", "layers": count, "matched": count, "same": count, "tied": count, "cka": 0.9}
    remark = results.Answer("depth_falls", {"begin": 0.9, "end": 0.7})
    grids = [grid("models", 0.9), grid("self", 1.0), *([grid("untrained", 0.4)] if untrained else [])]
    return results.Layers(
        inputs=tuple(
            results.Input(f"{m}:{n}", 200, 8, "float32", f"{i:064x}") for m in "ab" for i, n in enumerate(names)
        ),
        settings={"folds": 5, "null_draws": 19},
        alerts=() if untrained else (results.Alert("untrained_missing", {"first": "a", "second": "b"}),),
        provenance=MADE_BY,
        names=("a", "b"),
        n=200,
        text=results.Answer(code, said, remarks=(remark,)),
        matched=count if clear else 0,
        same=count if clear else 0,
        tied=0 if clear else count,
        diagonal=diagonal,
        matches=matches,
        matches_back=matches,
        layers=tuple(results.Layer(m, n, 8, 8, 0.5, 0.7, 0.3, 0.9) for m in "ab" for n in names),
        grids=tuple(grids),
        components=16,
        map_components=256,
        neighbours=10,
        sample=200,
        above_untrained=count if untrained else None,
        sources=("a.npz", "b c.npz"),
        training=steps,
    )


def make_extraction(
    *, truncated: int = 12, untrained: int | None = None, layers: int = 2, pictures: bool = False
) -> results.Extraction:
    """Layers 4, 5, … of a small text model with a final norm behind the last, or of a picture model without one."""
    tokens = {} if pictures else {"truncated": truncated, "limit": 512, "longest": 700, "tokens": 9000, "padding": 1000}
    normed = [None if pictures else k == layers - 1 for k in range(layers)]
    return results.Extraction(
        inputs=(results.Input("texts.txt", 200, 700, "text", f"{0:064x}"),),
        settings={"layers": [4, "last"], "pool": None, "batch": 32},
        alerts=(results.Alert("inputs_truncated", {"inputs": 12, "of": 200, "limit": 512, "longest": 700}),)
        if tokens
        else (),
        provenance=MADE_BY,
        output="out.safetensors",
        model=results.ModelCard("small", "huggingface", "BertModel", 120_000, f"{1:064x}", untrained),
        layers=tuple(results.ExtractedLayer(f"layer_{4 + k}", 64, norm) for k, norm in enumerate(normed)),
        kind="pictures" if pictures else "text",
        n=200,
        pool="patches" if pictures else "mean",
        **tokens,
    )


def make_mechanisms(
    *, certain: bool = True, linear: bool = True, moving: bool = False, one: bool = False
) -> results.Mechanisms:
    """Two factors of two latents each with six outputs, at nine points; or one factor."""
    count = 1 if one else 2
    leak = (0.0, 0.04, 0.62, 0.7, 0.8)
    size = 4 // count
    factors = tuple(
        results.MechanismFactor(
            index=k,
            dimension=size,
            outputs=() if moving else tuple(range(12 // count * k, 12 // count * (k + 1))),
            n_outputs=12 // count,
            subspace=tuple(tuple(float(i == size * k + j) for i in range(4)) for j in range(size)) if linear else (),
            axes=tuple(range(size * k, size * (k + 1))) if linear else (),
            axis_angle=34.5 if linear else None,
            ica_angle=61.0 if linear else None,
            turn=2.5 if linear else None,
            turn_max=6.5 if linear else None,
            maps=tuple(tuple(float((i < 6) == (k == 0)) for i in range(12)) for _ in range(3)) if linear else (),
        )
        for k in range(count)
    )
    scores = results.IndependenceScores((2, 2), 0.02, 0.0, 0.96, 1.0, 0.5, 0.4, 0.01, 0.03)
    form: Literal["outputs", "rows", "local"] = "rows" if moving else "outputs" if linear else "local"
    return results.Mechanisms(
        inputs=(results.Input("latents", 9, 4, "float64", f"{7:064x}"),),
        settings={"decoder": "model:decoder", "blocks": [2, 2], "seed": 0},
        alerts=(results.Alert("directions_without_effect", {"directions": 1, "of": 5}),),
        provenance=MADE_BY,
        decoder="model:decoder",
        n=9,
        outputs=12,
        latents=4,
        n_factors=count,
        certain=certain,
        reason=results.Reason(
            "separated" if certain else "overlap", {"factors": count, "leak": leak[count - 1], "next": leak[count]}
        ),
        form=form,
        linear=linear,
        moving=moving,
        owned=0.6 if moving else 1.0,
        leak=leak,
        factors=factors,
        null_space=(),
        dead=0,
        agree=7 / 9,
        at_points=(2,) * 7 + (1, 3),
        looked_at=tuple(range(9)),
        forms=(
            results.FormCount(form, count, leak, 0.06, 0.66, 0.9),
            results.FormCount("rows", count, leak, 0.1, 0.5, None),
        ),
        rows_used=108,
        complete=True,
        shown_points=(0, 4, 8),
        picture=(3, 4),
        scores=scores if linear else None,
        given=replace(scores, contrast=0.8),
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
    alerts: Sequence[results.Alert] = (),
    settings: Mapping[str, Any] | None = None,
) -> results.Distortion:
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

    def summarised(values: Sequence[float]) -> results.Summary:
        ordered = sorted(values[i] for i in known)
        at = [ordered[round(q * (len(ordered) - 1))] for q in (0.05, 0.5, 0.95)]
        return results.Summary(sum(ordered) / len(ordered), ordered[0], *at, ordered[-1])

    figures = {"sigma_min": smallest, "sigma_max": largest, "constant": constant, "condition": condition}
    worst = "both decoders are injective; the support is "
    bounds = tuple(
        results.WorstCase(
            f"Theorem 1, {kind}{after}", k, 3.25 * share, share, worst + ("convex" if after else "a ball")
        )
        for after, k in (("", 1.6), (", rescaled", 1.414))
        for kind, share in (("universal constant", 3.56), ("by the shape of the points", 0.41))
    )
    return results.Distortion(
        inputs=(results.Input("latents", n, 3, "float64", f"{9:064x}"),),
        settings={"decoder": decoder, "precision": "float64", "directions": directions, **(settings or {})},
        alerts=tuple(alerts),
        provenance=MADE_BY,
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
        supremum=results.SupremumEstimate(1.71, (1.62, 2.03), -0.41, 40) if supremum and finite and not lost else None,
        random_directions=results.RandomDirections(
            1.1, 1.01, 1.02, 1.13, 1.31, 1.37, directions, 0.62 if finite else None
        )
        if directions and known
        else None,
        bounds=bounds if finite and not lost else (),
        **{key: tuple(values) for key, values in figures.items()},
        log_volume=tuple(math.nan if i in undefined or lanczos else -math.inf if i in lost else 0.1 for i in range(n)),
        sigma_min_error=tuple(0.0123 for _ in range(n)) if lanczos else (),
        sigma_max_error=tuple(0.00456 for _ in range(n)) if lanczos else (),
    )


# -- disentanglements

Mode = Literal["centred", "literal", "whitened"]
FACTORS = (
    results.Factor("floor hue", "discrete", 10, math.log(10)),
    results.Factor("shape", "discrete", 4, math.log(4)),
    results.Factor("scale", "discrete", 8, math.log(8)),
)
# Best latents, from 0: shape in 0, scale in 1, floor hue in 3; latent 4 hardly varies.
NMI = ((0.05, 0.02, 0.10, 0.91, 0.0), (0.85, 0.03, 0.20, 0.04, 0.0), (0.01, 0.77, 0.15, 0.02, 0.99))
ACTIVE = [True, True, True, True, False]
INFO = {"infom": 0.73, "infoe": 0.99, "infoc": 0.55}


def make_metric(scores: dict[str, float], *, draws: bool = False, **rest: Any) -> results.Metric:
    """A metric; with `draws` its scores have intervals of 0.02 each way and shuffled factors score 0.1."""
    intervals = {key: (value - 0.02, value + 0.02) for key, value in scores.items()} if draws else {}
    nulls = {key: results.ScoreNull(0.1, 0.15, 0.0099) for key in scores} if draws else {}
    return results.Metric(scores, intervals=intervals, nulls=nulls, **{"settings": {"bins": 20}, **rest})


def make_infomec(scores: dict[str, float] | None = None, *, draws: bool = False, **rest: Any) -> results.Metric:
    about = {
        "settings": {"profile": "hsu-standalone", "neighbours": 10},
        "matrix": results.FactorLatentMatrix("mutual information over the entropy of the factor", NMI),
        "details": {"active": ACTIVE, "infoe_of_factor": [0.98, 1.0, 0.99], "converged_of_factor": [True, False, True]},
    }
    return make_metric(scores or INFO, draws=draws, **{**about, **rest})


def make_after(mode: Mode = "centred", *, infoe: tuple[float, float] = (0.991, 0.991), **rest: Any) -> results.AfterICA:
    return results.AfterICA(
        **{
            "mode": mode,
            "converged": True,
            "n_components": 5,
            "invertible": True,
            "metrics": {"infomec": make_infomec({"infom": 0.94, "infoe": 0.99, "infoc": 0.71})},
            "infoe_converged": infoe,
            "infoe_agrees": abs(infoe[0] - infoe[1]) < 1e-3,
            **rest,
        }
    )


def make_disentanglement(
    *,
    infomec: results.Metric | None = None,
    metrics: dict[str, results.Metric] | None = None,
    factors: Sequence[results.Factor] = FACTORS,
    latents: Sequence[str] | None = None,
    latent_kind: Literal["discrete", "continuous"] = "continuous",
    draws: bool = True,
    sweep: Sequence[tuple[float, float]] = ((0.0, 0.73), (0.01, 0.76), (0.03, 0.87), (0.1, 0.98)),
    after: Sequence[results.AfterICA] = (make_after(),),
    alerts: Sequence[results.Alert] = (),
    name: str = "codes",
    settings: dict[str, Any] | None = None,
) -> results.Disentanglement:
    """Three factors in five latents, the last of which hardly varies; InfoM 0.73 without noise and 0.98 with."""
    information = results.FactorLatentMatrix(
        "mutual information, nats", tuple(tuple(2 * v for v in row) for row in NMI)
    )
    found = {
        "infomec": infomec or make_infomec(draws=draws),
        "dci": make_metric(
            {"disentanglement": 0.81, "completeness": 0.77, "informativeness_test": 0.99},
            draws=draws,
            settings={"predictor": "forest", "trees": 100},
            matrix=results.FactorLatentMatrix("importance of the latent (forest)", NMI),
        ),
        "mig": make_metric(
            {"mig": 0.66},
            draws=draws,
            matrix=information,
            details={"gap_of_factor": [0.8, 0.65, 0.5], "best_latent_of_factor": [3, 0, 1]},
        ),
        "mig_sup": make_metric({"mig_sup": 0.6}, draws=draws, matrix=information),
        "unsupervised": make_metric({"total_correlation": 3.2}, settings={}),
    }
    return results.Disentanglement(
        inputs=(
            results.Input(name, 10_000, 5, "float32", f"{1:064x}"),
            results.Input("factors", 10_000, 3, "int64", f"{2:064x}"),
        ),
        settings={"profile": "hsu-standalone", "bootstrap": 200, "null": 100, **(settings or {})},
        alerts=tuple(alerts),
        provenance=results.Provenance(
            "0.1.0", {"numpy": "2.0.0"}, 7, "identifiable disentangle codes.npy factors.csv", "2026-11-16"
        ),
        n=10_000,
        latents=tuple(latents) if latents else tuple(f"latent {j + 1}" for j in range(5)),
        latent_kind=latent_kind,
        factors=tuple(factors),
        metrics=found if metrics is None else metrics,
        sweep=tuple(results.NoisePoint(x, {"infom": y, "infoe": 0.99 - x, "infoc": 0.55 + x}) for x, y in sweep),
        after=tuple(after),
    )


# -- fig2 and figA6: plausible numbers, nothing trained

LEAKS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
FOUND_AT_RANDOM = 0.6  # of the logarithm of the exact constant
FIG2_CHOICES = (
    results.Choice("clip", 1.0, "paper", 1.0),
    results.Choice("max_epochs", 80, "ours", 2000),
    results.Choice("leaks", LEAKS, "ours"),
    results.Choice("widths", (784, 256, 64, 8), "ours"),
)
FIG2_PUBLISHED = {"runs": 60, "removed": 11, "spearman": None, "samples": 1000}
FORMS: tuple[Form, ...] = ("mean", "maximum", "sample")
ESTIMATORS: tuple[Estimator, ...] = ("exact", "random_directions")
UNITS: tuple[Unit, ...] = ("latent", "diameter")


def make_reproduction(
    experiment: Literal["fig2", "figA6"] = "fig2",
    *,
    pairs: int = 10,
    leaks: Sequence[float] = LEAKS,
    slope: float = 0.1,
    below: float = 0.05,
    known: bool = True,
    samples: int = 12,
    alerts: Sequence[results.Alert] = (),
    choices: Sequence[results.Choice] = FIG2_CHOICES,
    published: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    provenance: results.Provenance = MADE_BY,
    seed: int = 0,
) -> results.Reproduction:
    """Pairs whose distance is `slope` times sqrt(2 L + L^2), give or take a fifth; the first of each small leak is removed.

    Intervals of correlations begin `below` them; there are none unless they are `known`.
    """
    draw = random.Random(seed)
    digits: Sequence[int | None] = range(10) if experiment == "figA6" else [None]
    runs = [
        _pair_run(leak, pair, digit, slope, samples, draw)
        for leak in leaks
        for digit in digits
        for pair in range(pairs)
    ]
    kept = [run for run in runs if run.removed is None]
    return results.Reproduction(
        inputs=(results.Input("mnist", 70_000, 784, "uint8", f"{7:064x}"),),
        settings={"scale": "small", "seed": 0, **(settings or {})},
        alerts=tuple(alerts),
        provenance=provenance,
        experiment=experiment,
        scale="small",
        choices=tuple(choices),
        published=FIG2_PUBLISHED if published is None else published,
        runs=tuple(runs),
        leaks=tuple(_leak(leak, [run for run in runs if run.leak == leak], draw) for leak in leaks),
        fits=tuple(
            _fit(form, e, unit, kept, below if known else None) for form in FORMS for e in ESTIMATORS for unit in UNITS
        ),
        filter_threshold=0.0312,
        leak_spearman=-0.61,
        leak_spearman_ci95=(-0.74, -0.43),
    )


def _pair_run(
    leak: float, pair: int, digit: int | None, slope: float, samples: int, draw: random.Random
) -> results.PairRun:
    def constant() -> float:
        return leak ** -draw.uniform(0.5, 1.6)

    def apart(found: float) -> float:
        return slope * _across(found) * draw.uniform(0.8, 1.2) + draw.uniform(0.01, 0.05)

    middle, largest = leak ** -draw.uniform(0.9, 1.1), leak ** -draw.uniform(1.5, 1.9)
    bad = pair == 0 and leak < 0.3
    seen = [constant() for _ in range(samples)]
    return results.PairRun(
        leak=leak,
        pair=pair,
        digit=digit,
        reconstruction=(draw.uniform(0.02, 0.03), 0.035 if bad else draw.uniform(0.02, 0.03)),
        epochs=(draw.randrange(200, 900), 2000 if bad else draw.randrange(200, 900)),
        stopped=("patience", "epochs" if bad else "patience"),
        removed="reconstruction of the second model above the threshold" if bad else None,
        distance=results.Distances(apart(middle), 1.5 * apart(largest)),
        diameter=6.0 + draw.random(),
        exact=results.Constants(middle, largest),
        random_directions=results.Constants(middle**FOUND_AT_RANDOM, largest**FOUND_AT_RANDOM),
        samples=tuple((found, apart(found)) for found in seen),
    )


def _across(constant: float) -> float:
    return math.sqrt(constant**2 - 1)


def _leak(leak: float, runs: Sequence[results.PairRun], draw: random.Random) -> results.Leak:
    kept = [run for run in runs if run.removed is None]
    found = sorted(leak ** -draw.uniform(0.3, 1.8) for _ in range(200))
    distance = mean(run.distance.mean for run in kept)
    relative = mean(run.distance.mean / run.diameter for run in kept)
    return results.Leak(
        leak=leak,
        bound=leak**-2,
        pairs=len(runs),
        kept=len(kept),
        constant=_summary(found),
        random_directions=_summary([value**FOUND_AT_RANDOM for value in found]),
        curve=tuple((i / 199, value) for i, value in enumerate(found)),
        reconstruction=mean(loss for run in runs for loss in run.reconstruction),
        distance=distance,
        distance_ci95=(0.9 * distance, 1.12 * distance),
        relative=relative,
        relative_ci95=(0.9 * relative, 1.12 * relative),
    )


def _summary(ordered: Sequence[float]) -> results.Summary:
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in (0.05, 0.95))
    return results.Summary(mean(ordered), ordered[0], low, median(ordered), high, ordered[-1])


def _fit(
    form: Form, estimator: Estimator, unit: Unit, kept: Sequence[results.PairRun], below: float | None
) -> results.Fit:
    points = []
    for run in kept:
        at: results.Constants = getattr(run, estimator)
        scale = run.diameter if unit == "diameter" else 1.0
        match form:
            case "mean":
                points.append((_across(at.mean), run.distance.mean / scale))
            case "maximum":
                points.append((_across(at.maximum), run.distance.maximum / scale))
            case "sample":
                points += [(_across(c), d / scale) for c, d in run.samples]
    x, y = zip(*points, strict=True)
    slope = sum(a * b for a, b in points) / sum(a * a for a in x)
    middle = mean(y)
    left = sum((b - slope * a) ** 2 for a, b in points) / sum((b - middle) ** 2 for b in y)
    if below is None:
        return results.Fit(form, estimator, unit, slope, None, None, None, None, len(kept))
    spearman = float(spearmanr(x, y).statistic)
    return results.Fit(
        form, estimator, unit, slope, 1 - left, spearman, (spearman - below, spearman + 0.004), 0.21, len(kept)
    )


# -- deconfound

NAN = math.nan
NO_INTERVAL: results.Interval = (NAN, NAN)
TARGETS = ("MTOR_guide_1", "PLK1_guide_1", "SRC_guide_1", "HCK_guide_1")
NULLS = ("null 1", "null 2")
AUROC = {"base": 0.673, "pca": 0.701, "ica": 0.809, "rand": 0.693, "tvn": 0.744, "position": 0.531, "plate": 0.5}
RIDGE = {"base": 0.7399, "pca": 0.7402, "ica": 0.7403, "rand": 0.7401, "tvn": 0.751}
HOYER = {"base": 0.187, "pca": 0.171, "ica": 0.262, "rand": 0.168, "tvn": 0.18}
PLATE_ROWS = (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB", "AC", "AD", "AE", "AF")
SCREEN_FACTORS = ("plate", "batch", "row", "column", "edge", "cell_count", "perturbation")


def about(name: str, command: str) -> dict[str, Any]:
    return {
        "inputs": (results.Input(name, 6_000, 48, "float32", f"{1:064x}"),),
        "settings": {"folds": 5, "limits": {"technical": 0.1}},
        "alerts": (),
        "provenance": results.Provenance(
            "0.1.0",
            {"numpy": "2.0.0", "lightgbm": "4.7.0"},
            7,
            f"identifiable deconfound {command} wells.parquet",
            "2026-11-16",
        ),
        "design": make_design(),
    }


def make_design(**rest: Any) -> results.ScreenDesign:
    found: dict[str, Any] = {
        "n": 6_000,
        "d": 48,
        "roles": (
            results.Role("plate", "experiment_name + plate", 75, ("gene-001_1", "gene-001_2", "gene-001_3")),
            results.Role("perturbation", "treatment", 41, ("EMPTY_control", "MTOR_guide_1", "PLK1_guide_1")),
            results.Role("well", "address", 1536, ("A01", "A02", "A03")),
        ),
        "batches": 9,
        "plates": 75,
        "perturbations": 40,
        "targets": 12,
        "controls": 1_200,
        "wells_per_plate": (74, 80.0, 80),
        "controls_per_plate": (16, 16.0, 16),
        "wells_per_perturbation": (12, 74.5, 150),
        "grid": (32, 48),
    }
    return results.ScreenDesign(**{**found, **rest})


# -- audit


def make_audit(name: str = "wells", **rest: Any) -> results.Audit:
    """A sound screen: position tells a little, the embedding tells plates apart."""
    found: dict[str, Any] = {
        **about(name, "audit"),
        "dependences": (
            results.Dependence("address", 2.413, 2.401, 2.44, 0.012, 0.31),
            results.Dependence("row", 0.211, 0.205, 0.22, 0.003, 0.24),
            results.Dependence("plate", 0.02, 0.01, 0.02, 0.001, 0.05),
        ),
        "blind": (
            results.BlindScore("position", "each perturbation", 0.531, (0.51, 0.552), 16, "PLK1_guide_1", 0.61),
            results.BlindScore("plate", "each perturbation", 0.5, (0.48, 0.52), 16, held_out="nothing", chance=0.52),
            results.BlindScore("embedding", "plate", 0.93, (0.91, 0.95), 75, "gene-001_9", 0.99, held_out="well"),
        ),
        "confounding": 0.04,
        "folds": (
            results.FoldCheck(0, 15, 1_200, 240),
            results.FoldCheck(1, 15, 1_190, 240, ("SRC_guide_1",), "SRC_guide_1 has no well"),
        ),
        "features": results.FeatureCheck(1, 47, 2, ((4, 17),), 1.24, False, 125.0),
        "findings": (
            results.Finding("rank", stored="1 feature is constant: 47 of 48 directions are left", severity="caution"),
            results.Finding("plates_with_controls", stored="all 75 plates have controls", severity="fine"),
            results.Finding("fold_without_class", stored="fold 1 has no well of SRC_guide_1", severity="stop"),
        ),
        "skipped": {"KIF11_guide_3": "4 wells on 4 plates; 20 are needed"},
        "verdict": "caution",
        "told": results.Answer("", stored="one fold lacks a perturbation; position alone scores 0.53"),
    }
    return results.Audit(**{**found, **rest})


# -- evaluation


def make_condition(
    representation: str,
    classifier: str = "lightgbm",
    target: str = "all",
    *,
    held_out: HeldOut = "plate",
    fit: FitOn = "train",
    auroc: float = NAN,
    **rest: Any,
) -> results.ConditionScore:
    trees = classifier == "lightgbm"
    hoyer = HOYER.get(representation, NAN) if trees else NAN
    found: dict[str, Any] = {
        "auroc": auroc,
        "se": 0.008,
        "ci95": (auroc - 0.02, auroc + 0.02),
        "within_plate": auroc + 0.01,
        "within_plate_ci95": (auroc - 0.015, auroc + 0.035),
        "n_splits": 1_812.0 if trees else NAN,
        "hoyer": hoyer,
        "hoyer_null": 0.112 if math.isfinite(hoyer) else NAN,
        "folds": 5,
        "excess": auroc - 0.503,
        "excess_ci95": (auroc - 0.53, auroc - 0.48),
        "spread": (0.685, 0.702) if representation == "rand" and trees else NO_INTERVAL,
    }
    return results.ConditionScore(representation, classifier, target, held_out, fit, **{**found, **rest})


def make_conditions(
    held_out: HeldOut = "plate", fit: FitOn = "train", change: float = 0.0
) -> list[results.ConditionScore]:
    """All representations over all targets and on each, by LightGBM and by a linear probe; null guides at 0.503."""
    where: dict[str, Any] = {"held_out": held_out, "fit": fit}
    forms = tuple(
        results.Concentration(k, round(48 * k / 100), 0.79, 0.64, 0.809, 0.15, 0.234, 1.07) for k in (10.0, 25.0, 50.0)
    )
    found = []
    for name, value in AUROC.items():
        extra = {"concentration": forms} if name in ("pca", "ica") else {}
        found.append(make_condition(name, auroc=value + change, **extra, **where))
        found += [
            make_condition(name, target=t, auroc=value + change + 0.02 * (i - 1.5), **where)
            for i, t in enumerate(TARGETS)
        ]
        found += [make_condition(name, target=t, auroc=0.503, **where) for t in NULLS]
        if name in RIDGE:
            found.append(make_condition(name, "ridge", auroc=RIDGE[name] + change, **where))
    return found


def make_difference(first: str = "ica", second: str = "pca", target: str = "all", **rest: Any) -> results.Difference:
    value = AUROC[first] - AUROC[second]
    found: dict[str, Any] = {
        "classifier": "lightgbm",
        "held_out": "plate",
        "fit": "train",
        "difference": value,
        "ci95": (value - 0.03, value + 0.03),
        "within_plate": value + 0.01,
        "within_plate_ci95": (value - 0.02, value + 0.04),
    }
    return results.Difference(first, second, target=target, **{**found, **rest})


def make_evaluation(name: str = "wells", **rest: Any) -> results.ScreenEvaluation:
    """ICA 0.809 above PCA 0.701 above Base 0.673, rotations between; position 0.531."""
    found: dict[str, Any] = {
        **about(name, "evaluate"),
        "targets": TARGETS,
        "null_targets": NULLS,
        "skipped": {"KIF11_guide_3": "4 wells on 4 plates; 20 are needed"},
        "conditions": (
            *make_conditions(),
            *make_conditions(fit="all", change=0.004),
            *make_conditions("batch", change=-0.05),
        ),
        "differences": (
            make_difference("pca", "base"),
            make_difference(),
            make_difference("ica", "rand"),
            make_difference("ica", "pca", fit="all"),
            *(make_difference(target=t) for t in TARGETS),
        ),
        "leakage": (
            results.Leakage("ica", "lightgbm", "plate", 0.004, (-0.001, 0.009)),
            results.Leakage("pca", "ridge", "plate", 0.0, NO_INTERVAL),
        ),
        "fitted": (
            results.Fitted("ica", "train", 0, 48, True, 41, 3),
            results.Fitted("ica", "train", 1, 48, False, 38, 3, (results.Note("rows", {"rows": 200}),)),
            results.Fitted("pca", "all", 0, 48, True, None, None),
        ),
        "advice": results.IcaAdvice(
            "yes",
            results.Answer("helps"),
            (
                results.Answer("components_found", {"found": 41, "components": 48}),
                results.Answer("gain_over_pca", {"gain": 0.108, "gain_low": 0.078, "gain_high": 0.138}),
            ),
        ),
        "verdict": "ica-helps",
        "told": results.Answer(
            "",
            stored="ICA tells perturbations from controls better than PCA on plates left out, by 0.108 [0.078, 0.138]",
        ),
        "times": (
            results.StageTime("folds", 0.4, 5),
            results.StageTime("LightGBM", 812.4, 960, 320),
            results.StageTime("ICA", 143.0, 6),
        ),
        "scores": (),
    }
    return results.ScreenEvaluation(**{**found, **rest})


# -- attribution and cleaning


def make_map(rows: int, columns: int, size: float = 1.0, *, gradient: bool = True) -> tuple[tuple[float, ...], ...]:
    """A plate with a gradient from left to right and dark edges, its first well not in use."""

    def well(i: int, j: int) -> float:
        if (i, j) == (0, 0):
            return NAN
        slope = (2 * j / max(1, columns - 1) - 1) if gradient else 0.0
        grain = ((i * 7919 + j * 104_729) % 211) / 211 - 0.5
        edge = -0.6 if gradient and (i in (0, rows - 1) or j in (0, columns - 1)) else 0.0
        return size * (slope + 0.6 * grain + edge)

    return tuple(tuple(well(i, j) for j in range(columns)) for i in range(rows))


def make_card(
    index: int, role: results.ComponentRole, *, grid: tuple[int, int] = (32, 48), **rest: Any
) -> results.ComponentCard:
    technical = {"technical": 0.62, "both": 0.4, "biological": 0.01, "neither": -0.02}[role] / (1 + 0.05 * (index % 40))
    biological = {"technical": 0.005, "both": 0.3, "biological": 0.45, "neither": -0.01}[role] / (
        1 + 0.03 * (index % 40)
    )
    part = {"plate": 0.7, "batch": 0.3, "row": 0.12, "column": 0.5, "edge": 0.2, "cell_count": 0.05}
    moved = tuple(
        results.TopPerturbation(f"GENE{index}_guide_{k}", (-1) ** k * (2.4 - 0.2 * k), 70, 0.0002, 0.004 * (k + 1))
        for k in range(10)
    )
    found: dict[str, Any] = {
        "technical": technical,
        "technical_ci95": (technical - 0.05, technical + 0.05),
        "biological": biological,
        "biological_ci95": (biological - 0.05, biological + 0.05),
        "shares": tuple(
            results.Share(
                f, biological if f == "perturbation" else technical * part[f], 0.005 if technical > 0.1 else 0.4, 0.03
            )
            for f in SCREEN_FACTORS
        ),
        "top": moved if role in ("biological", "both") else (),
        "kurtosis": 2.31,
        "negentropy": 0.18,
        "stability": 0.98 - 0.001 * index,
        "identifiable": role != "neither",
        "plate_map": make_map(*grid, gradient=role in ("technical", "both")),
        "technical_q": 0.02,
        "biological_q": 0.01,
        "density": tuple(0.42 * math.exp(-abs(-3.75 + 0.5 * k)) for k in range(16)),
    }
    return results.ComponentCard(index, role, **{**found, **rest})


def make_attribution(
    name: str = "wells",
    *,
    size: int = 48,
    grid: tuple[int, int] = (32, 48),
    cards: Sequence[results.ComponentCard] | None = None,
    **rest: Any,
) -> results.Attribution:
    """Of eight components two are technical, three biological, one both and two neither."""
    pattern: tuple[results.ComponentRole, ...] = (
        "technical", "biological", "neither", "biological", "both", "technical", "neither", "biological",
    )  # fmt: skip
    made = tuple(make_card(i, pattern[i % 8], grid=grid) for i in range(size)) if cards is None else tuple(cards)
    found: dict[str, Any] = {
        **about(name, "attribute"),
        "components": made,
        "density_edges": tuple(-4 + 0.5 * k for k in range(17)),
        "grid_rows": PLATE_ROWS[: grid[0]],
        "grid_columns": tuple(f"{j + 1:02d}" for j in range(grid[1])),
        "converged": True,
        "told": results.Answer(
            "", stored=f"of {size} components {size // 4} are technical and {3 * size // 8} biological"
        ),
    }
    return results.Attribution(**{**found, **rest})


def make_points() -> tuple[results.CleanPoint, ...]:
    """ICA takes plate out at no cost, PCA and random rotations pay for it."""
    slopes: tuple[tuple[Any, float, float], ...] = (
        ("ica", 0.03, 0.004),
        ("pca", 0.022, -0.012),
        ("rand", 0.006, -0.01),
    )
    return tuple(
        results.CleanPoint(
            space,
            removed,
            0.94 - fall * removed,
            0.41 + gain * removed,
            0.008 * removed,
            (0.39 + gain * removed, 0.43 + gain * removed),
        )
        for space, fall, gain in slopes
        for removed in (0, 2, 4, 8, 12)
    )


def make_metrics() -> tuple[results.SpaceMetric, ...]:
    same = [
        results.SpaceMetric(
            "replicate_map", "whole", 0.41, (0.39, 0.43), True, "high", (results.Note("replicates", {"chance": 0.1}),)
        ),
        results.SpaceMetric("pcr_plate", "whole", 0.38, NO_INTERVAL, True, "low"),
        results.SpaceMetric("plate_auroc", "whole", 0.94, (0.93, 0.95), False, "low"),
    ]
    measured: tuple[tuple[str, tuple[float, ...], bool, Any], ...] = (
        ("replicate_map", (0.458, 0.27, 0.29), True, "high"),
        ("pcr_plate", (0.02, 0.14, 0.33), True, "low"),
        ("plate_auroc", (0.58, 0.68, 0.87), False, "low"),
    )
    cleaned = [
        results.SpaceMetric(metric, space, value, NO_INTERVAL, invariant, better)
        for metric, values, invariant, better in measured
        for space, value in zip(("ica", "pca", "rand"), values, strict=True)
    ]
    return (*same, *cleaned)


def make_cleaning(
    name: str = "wells", *, attribution: results.Attribution | None = None, **rest: Any
) -> results.Cleaning:
    """The twelve technical components of 48 dropped."""
    attributed = attribution or make_attribution(name)
    removed = tuple(c.index for c in attributed.of_role("technical"))
    found: dict[str, Any] = {
        **about(name, "clean"),
        "method": "drop",
        "budget": 0.1,
        "weights": tuple(0.0 if c.index in removed else 1.0 for c in attributed.components),
        "removed": removed,
        "biology_lost": 0.03,
        "curve": make_points(),
        "metrics": make_metrics(),
        "verdict": "ica-cleaning-helps",
        "told": results.Answer(
            "", stored="12 components dropped; replicates find each other better than with as many axes of PCA dropped"
        ),
        "attribution": attributed,
        "outputs": ("cleaned.h5ad", "clean basis.safetensors"),
        "checks": (
            CleanCheck("nn_cosine", False, 0.60, 0.66, 0.06, (0.01, 0.11), "high"),
            CleanCheck("nn_cosine", True, 0.60, 0.58, -0.02, (-0.05, 0.01), "high"),
            CleanCheck("batch_readable", True, 0.70, 0.40, -0.30, (-0.42, -0.18), "low"),
        ),
    }
    return results.Cleaning(**{**found, **rest})


def make_recommendation(name: str = "wells", **rest: Any) -> results.Recommendation:
    """Sphering chosen in 9 of 10 folds."""
    metrics = {"nn_cosine": 0.60, "replicate_map": 0.80, "batch_readable": 0.70}
    gains = {"sphering-0.3": 0.05, "combat": -0.1, "z-score": 0.0}
    ends = (-0.02, 0.04)
    scores = tuple(
        results.MethodScore(
            method,
            metric,
            value + gain,
            (value + gain + ends[0], value + gain + ends[1]),
            gain,
            (gain - 0.03, gain + 0.03),
        )
        for method, gain in gains.items()
        for metric, value in metrics.items()
    )
    found: dict[str, Any] = {
        **about(name, "recommend"),
        "verdict": "recommended",
        "told": results.Answer("", stored="use sphering with a small ridge; its family wins in 9 of 10 folds"),
        "chosen": "sphering-0.3",
        "written": "sphering-0.3",
        "family": "sphering",
        "stable": 0.9,
        "margin": 0.03,
        "held_out": "batch",
        "folds": 10,
        "wells": 500,
        "metrics": tuple(
            results.AskedMetric(
                metric,
                "low" if metric == "batch_readable" else "high",
                "target",
                "batch",
                270,
                300,
                0.06,
                "z-score",
                value,
                (value - 0.05, value + 0.05),
            )
            for metric, value in metrics.items()
        ),
        "methods": (
            results.TriedMethod(
                "sphering-0.3",
                "sphering",
                "own controls",
                0.05,
                True,
                True,
                9,
                (results.Note("z_scored", {"rows": 9}),),
            ),
            results.TriedMethod("z-score", "input", "all rows", 0.0, True, False, 1),
            results.TriedMethod("combat", "combat", "all rows", -0.1, False, False, 0),
        ),
        "scores": scores,
        "nested": tuple(results.HeldOutScore(metric, value, 0.02, ends) for metric, value in metrics.items()),
        "picks": (results.Pick(("week 1",), "sphering-0.3", "sphering"), results.Pick(("week 2",), "z-score", "input")),
        "skipped": {"harmony": "60000 rows, more than 50000"},
        "pictures": (
            results.WellPicture(
                "pca",
                ((0.0, 1.0), (1.0, -1.0), (-1.0, 0.0)),
                ((0.5, 1.0), (1.0, -0.5), (-1.0, 0.2)),
                (0, 1, -1),
                ("week 1", "week 2"),
                (0, 0, -1),
                ("kinase",),
            ),
        ),
        "plate_maps": tuple(
            results.PlateMap(space, ("A", "B"), ("1", "2"), ((0.5, -0.5), (float("nan"), 1.0)))
            for space in ("before", "after")
        ),
        "outputs": ("corrected.parquet", "correction.safetensors"),
    }
    return results.Recommendation(**{**found, **rest})


# -- broken results


def with_figures(result: Any, figure: float | None) -> Any:
    """The same result, every number that is not a count replaced by `figure` (None: not measured)."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k == "settings" else replaced(v) for k, v in value.items()}
        if isinstance(value, list):
            return [replaced(v) for v in value]
        return figure if isinstance(value, float) else value

    return from_json(json.dumps(replaced(json.loads(to_json(result)))))


def with_words(result: Any, words: str) -> Any:
    """The same result, every name and sentence replaced by `words`."""
    kept = {"schema", "verdict", "role", "severity", "held_out", "fit", "answer", "space", "better", "method"}

    def replaced(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            free = key in ("settings", "skipped")
            return {words: words} if free else {k: replaced(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [replaced(v, key) for v in value]
        return words if isinstance(value, str) and value and key not in kept else value

    return from_json(json.dumps(replaced(json.loads(to_json(result)))))


# -- table2

ROWS = {  # model, mode of ICA, InfoM, InfoE, InfoC
    "AE": ("ae", "none", 0.39, 0.76, 0.25),
    "AE + ICA": ("ae", "centred", 0.65, 0.76, 0.40),
    "AE + ICA (literal)": ("ae", "literal", 0.55, 0.76, 0.35),
    "AE + ICA (whitened)": ("ae", "whitened", 0.60, 0.76, 0.45),
    "beta-VAE": ("beta-vae", "none", 0.59, 0.81, 0.55),
    "beta-TCVAE": ("beta-tcvae", "none", 0.58, 0.72, 0.59),
    "BioAE": ("bioae", "none", 0.54, 0.75, 0.36),
    "QLAE": ("qlae", "none", 0.83, 0.84, 0.50),
    "VQ-VAE": ("vq-vae", "none", 0.63, 0.70, 0.44),
}
DISCRETE = ("qlae", "vq-vae")
KNOBS = {"beta-vae": "beta", "beta-tcvae": "lambda_tc", "bioae": "lambda_activity"}
PUBLISHED = {
    "columns": ["all", "shapes3d", "mpi3d"],
    "rows": {
        "AE": [[0.39, 0.76, 0.25], [0.34, 0.99, 0.16], [0.42, 0.40, 0.31]],
        "beta-VAE": [[0.59, 0.81, 0.55], [0.59, 0.99, 0.49], [0.45, 0.71, 0.51]],
        "AE + ICA": [[0.65, 0.83, 0.40], [0.79, 0.99, 0.52], [0.44, 0.66, 0.31]],
    },
    "by_others": ["beta-VAE"],
}
CHOICES = (
    results.Choice("batch", 128, "paper", 128),
    results.Choice("steps", 4000, "ours", 200_000),
    results.Choice("psnr_within", 2.0, "ours"),
)
NONE = results.Estimate(math.nan, (math.nan, math.nan), 0)
STEPS = (0, 1000, 2000, 4000)
DECAY = 0.01


def make_table2(
    *,
    data: Sequence[str] = ("sprites", "scene"),
    rows: Sequence[str] = tuple(ROWS),
    seeds: int = 3,
    half: float = 0.05,
    lift: float = 0.26,
    infoe_moves: float = 0.001,
    missing: Sequence[tuple[str, str]] = (),
    traversals: bool = True,
    scale: str = "small",
    alerts: Sequence[results.Alert] = (),
    choices: Sequence[results.Choice] = CHOICES,
    published: Mapping[str, Any] | None = None,
    provenance: results.Provenance = MADE_BY,
) -> results.Table2:
    """Scores as in ROWS, a little more on each further data set, with intervals of `half` each way, none of one seed.

    `missing` are rows and data sets that no setting passed the filter for.
    """
    bounds = half if seeds > 1 else math.nan

    def estimate(mean: float) -> results.Estimate:
        return results.Estimate(mean, (mean - bounds, mean + bounds), seeds)

    def cell(row: str, name: str) -> results.Cell:
        model, ica, *scores = ROWS[row]
        more = 0.02 * (data.index(name) if name in data else 0)
        gone = (row, name) in missing
        infom, infoe, infoc, psnr = (NONE if gone else estimate(s + more) for s in (*scores, 24.0))
        latents: Any = "discrete" if model in DISCRETE else "continuous"
        lost = gone or name == ALL_DATA
        value = 3.0 if model in KNOBS and not lost else math.nan
        step = 0 if lost else STEPS[-2]
        decay = math.nan if lost else DECAY
        passed = 0 if gone else 5
        return results.Cell(name, row, model, ica, latents, infom, infoe, infoc, psnr, value, decay, step, passed, 12)

    def lifted(name: str, ica: str) -> results.Lift:
        if ("AE + ICA", name) in missing:
            return results.Lift(name, ica, NONE, NONE, NONE, NONE, NONE)
        moved = 0.0 if ica == "centred" else -0.05
        return results.Lift(
            name,
            ica,
            estimate(0.39),
            estimate(0.39 + lift + moved),
            estimate(lift + moved),
            estimate(infoe_moves),
            estimate(lift + moved),
        )

    models = list(dict.fromkeys(ROWS[row][0] for row in rows))
    modes = [ROWS[row][1] for row in rows if ROWS[row][1] != "none"]
    return results.Table2(
        inputs=tuple(results.Input(name, 12_000, 3072, "uint8", f"{i:064x}") for i, name in enumerate(data)),
        settings={"scale": scale, "profile": "hsu-standalone"},
        alerts=tuple(alerts),
        provenance=provenance,
        scale=scale,
        choices=tuple(choices),
        published=PUBLISHED if published is None else published,
        data=tuple(data),
        thresholds={name: 22.0 + i for i, name in enumerate(data)},
        cells=tuple(cell(row, name) for row in rows for name in (ALL_DATA, *data)),
        lifts=tuple(lifted(name, mode) for mode in modes for name in (ALL_DATA, *data)),
        runs=tuple(
            make_run(name, model, decay, seed)
            for name in data
            for model in models
            for decay in (0.0, DECAY)
            for seed in range(seeds)
        ),
        traversals=tuple(make_traversal(name, row) for name in data for row in ("AE", "AE + ICA"))
        if traversals
        else (),
    )


def make_run(data: str, model: str, decay: float, seed: int) -> results.ModelRun:
    """InfoM and PSNR rise with the steps, a hundredth more for each seed; ICA adds a tenth."""

    def scores(step: int) -> dict[str, dict[str, float]]:
        infom = 0.2 + 0.0001 * step + 0.01 * seed
        modes = ("none", "centred", "literal", "whitened") if model == "ae" else ("none",)
        return {mode: {"infom": infom + 0.1 * i**0.5, "infoe": 0.7, "infoc": 0.3} for i, mode in enumerate(modes)}

    return results.ModelRun(
        data,
        model,
        KNOBS.get(model),
        3.0 if model in KNOBS else math.nan,
        decay,
        seed,
        STEPS[-1],
        "steps",
        tuple(results.Evaluation(step, 1 / (1 + step), 10 + step / 250 + seed, scores(step)) for step in STEPS),
    )


def make_traversal(data: str, row: str, lines: int = 10, columns: int = 7, side: int = 32) -> results.Traversal:
    """Squares of one colour each, which changes along the line."""
    labels = tuple(f"{('position_x', 'orientation', 'scale')[i % 3]} {0.9 - 0.05 * i:.2f}" for i in range(lines))
    width, height = columns * side, lines * side
    return results.Traversal(data, row, columns, labels, width, height, make_png(lines, columns, side))


def make_png(lines: int, columns: int, side: int) -> str:
    """A PNG of squares as base64, with the standard library alone."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = []
    for line in range(lines):
        squares = b"".join(
            bytes((40 + 28 * column, 40 + 180 * line // lines, 160 - 10 * column)) * side for column in range(columns)
        )
        rows += [b"\0" + squares] * side
    header = struct.pack(">IIBBBBB", columns * side, lines * side, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"".join(rows))), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode("ascii")


# -- table3 and an example of every kind


def make_table3(**rest: Any) -> results.Table3:
    scores = [results.GeneScore("SRC", 2, name, 0.713, 0.011, 0.42, 0.01, 0.3, 40.0) for name in ("base", "pca", "ica")]
    found: dict[str, Any] = {
        **{key: value for key, value in about("wells", "reproduce table3").items() if key != "design"},
        "scale": "smoke",
        "simulated": True,
        "choices": (results.Choice("folds", 5, "paper", 5), results.Choice("genes", ("SRC",), "ours")),
        "published": {},
        "genes": tuple(scores),
        "concentration": (results.GeneConcentration("ica", 25.0, 0.71, 0.52, 0.73, 0.19, 0.365, 0.38, -0.1),),
        "gain": 0.0213,
        "gain_ci95": (0.0113, 0.0317),
        "evaluation": make_evaluation(),
    }
    return results.Table3(**{**found, **rest})


def make_table1(**rest: Any) -> results.Table1:
    """Two releases in which all is clear but ICA held out, and seeds in the published order."""
    bounded = results.Bounded

    def line(name: str, kind: Any, values: tuple[float, ...], **more: Any) -> results.ModelPairs:
        names = ("signed_permutation", "ica", "similarity", "linear")
        before = {
            "untrained": bounded(0.5),
            "untrained_held_out": bounded(0.51, (0.4, 0.62)),
            "untrained_shuffled": 0.7,
        }
        errors = [
            results.MapError(
                each,
                bounded(value, (value - 0.01, value + 0.01)),
                bounded(value + 0.02, (value, value + 0.04)),
                0.61,
                **(before if kind == "seeds" else {}),
            )
            for each, value in zip(names, values, strict=True)
        ]
        word = more.get("found_held_out", "agrees")
        held_out = (0.01 if word == "agrees" else -0.01, 0.2)
        steps = [
            results.OrderStep(a, b, bounded(x - y, (0.01, 0.2)), bounded(x - y, held_out), "agrees", word)
            for (a, x), (b, y) in pairwise(zip(names, values, strict=True))
        ]
        made: dict[str, Any] = {
            **{"name": name, "kind": kind, "models": ("a", "b"), "n": 800, "width": 16, "pairs": 1},
            **{"intervals_over": "rows", "errors": tuple(errors), "order": tuple(steps)},
            **{"efficiency": bounded(0.62, (0.5, 0.74)), "efficiency_held_out": None},
            **{"found": "agrees", "found_held_out": "agrees"},
        }
        return results.ModelPairs(**{**made, **more})

    found: dict[str, Any] = {
        **{key: value for key, value in about("states", "reproduce table1").items() if key != "design"},
        "scale": "small",
        "choices": (results.Choice("pairs", ("spacy", "gpt"), "ours", ("mae",)), results.Choice("left_out", 5, "ours")),
        "published": {
            "rows": {
                "mae": {"title": "MAE", "signed_permutation": 0.197, "similarity": 0.109, "linear": 0.036, "ica": 0.145}
                | {"efficiency": 0.59},
                "lost": "a word",
            }
        },
        "lines": (
            line("spaCy", "releases", (0.469, 0.355, 0.286, 0.254), found_held_out="cannot_tell"),
            line("seeds", "seeds", (0.52, 0.39, 0.297, 0.242), intervals_over="models", pairs=20),
        ),
    }
    return results.Table1(**{**found, **rest})


def make_roeder(
    experiment: Literal["roeder-fig1", "roeder-fig2", "roeder-fig3", "roeder-fig4"] = "roeder-fig3", **rest: Any
) -> results.RoederFigure:
    """Five pairs whose CCA of f rises with iterations and that of g falls, and whose R² moves either way."""
    draw = random.Random(3)
    pairs = [
        results.SeedPair(
            "iterations", at, part, measure, (2 * k, 2 * k + 1), 0.4 + slope * at + draw.uniform(-0.02, 0.02), 0.01, 0.4
        )
        for measure, slopes in (("cca", {"f": 3e-4, "g": -2e-4}), ("r2", {"f": 0.0}))
        for part, slope in slopes.items()
        for at in (0.0, 300.0, 600.0)
        for k in range(5)
    ]
    points = tuple((draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(12))
    asked = (("cca", "f"), ("cca", "g"), ("r2", "f"))
    found: dict[str, Any] = {
        **{key: value for key, value in about("patches", "reproduce roeder-fig3").items() if key != "design"},
        "experiment": experiment,
        "scale": "small",
        "stand_in": True,
        "choices": (results.Choice("pairs", 5, "paper", 5), results.Choice("steps", 600, "ours")),
        "published": {"iterations": 4000},
        "claims": (
            *(judged(pairs, "rises", "iterations", part, measure) for measure, part in asked),
            judged(pairs, "above_untrained", "iterations", "g", "cca", "ours"),
        ),
        "means": means(pairs),
        "pairs": tuple(pairs),
        "models": (
            results.SeedModel("f", 0, 600, 2.31, 2.04),
            results.SeedModel("f", 1, 600, 3.5, 2.04, "above_floor"),
            results.SeedModel("", 2, 600, math.nan, None, "diverged"),
        ),
        "scatters": (results.Scatter("words", (0, 1), points, points[::-1], points),),
    }
    return results.RoederFigure(**{**found, **rest})


def make_mechanistic(dependences: Sequence[float] = (0.0, 0.7), **rest: Any) -> results.Mechanistic:
    """Two slots, two seeds: found is 0.9, ICA 0.9 on independent slots and 0.4 on dependent ones; one model finds three factors."""
    ways = {"true": 0.97, "raw": 0.2, "ica": 0.9, "found": 0.9, "then_penalty": 0.95, "penalty": 0.5}
    draws = {0.0: ("independent",), 0.7: ("independent", "own")}
    scores = [
        results.SlotScore(
            2,
            0.0,
            dependence,
            seed,
            way,
            drawn,
            (sis - 0.5 * (way == "ica" and dependence > 0)) * (1 if drawn == "independent" else 0.5) + 0.01 * seed,
            None if way in ("true", "ica") else 0.3,
        )
        for dependence in dependences
        for drawn in draws[dependence]
        for way, sis in ways.items()
        for seed in (0, 1)
    ]
    keys = dict.fromkeys((s.slots, s.overlap, s.dependence, s.way, s.draws) for s in scores)
    found: dict[str, Any] = {
        **{key: value for key, value in about("2 slots", "reproduce mechanistic").items() if key != "design"},
        "scale": "small",
        "choices": (results.Choice("seeds", 2, "ours", 5), results.Choice("law", "uniform", "ours")),
        "published": {"claim": "small overlap works"},
        "lift": results.Estimate(0.7, (0.65, 0.75), 2),
        "over_ica": results.Estimate(0.5, (0.45, 0.55), 2) if any(dependences) else None,
        "cells": tuple(results.SlotCell(*key, results.Estimate(ways[key[3]], (0.1, 0.99), 2)) for key in keys),
        "gaps": (results.GapCell("proportional", 6, 1, 4, 4), results.GapCell("proportional", 6, 3, 0, 0)),
        "models": tuple(
            results.SlotModel(2, 0.0, dependence, seed, 0.004, len(sizes), sizes, right, right, reason, True, 0.05, 0.7)
            for dependence in dependences
            for seed, sizes, right, reason in (
                (0, (3, 3), True, "separated"),
                (1, (3, 2, 1), not dependence, "overlap"),
            )
        ),
        "scores": tuple(scores),
    }
    return results.Mechanistic(**{**found, **rest})


# -- alignments


def make_retrieval(
    recall: float, *, metric: str = "cosine", index: int = 6000, queries: int = 1200
) -> results.Retrieval:
    """A search of which `recall` of the ten nearest rows are right; the other measures follow."""

    def bounded(value: float) -> results.Bounded:
        return results.Bounded(value, (max(value - 0.015, 0.0), min(value + 0.015, 1.0)))

    within = min(1.0, 0.3 + recall)
    return results.Retrieval(
        metric,
        index,
        queries,
        recall_1=bounded(recall - 0.05 * recall),
        recall_10=bounded(recall),
        within_100=bounded(within),
        mrr=bounded(recall * 0.8),
        csls_recall_10=bounded(recall * 0.97),
        csls_mrr=bounded(recall * 0.9),
    )


def make_way(
    source: str,
    target: str,
    recall: float = 0.69,
    *,
    advice: str = "map_and_rerank",
    curve: bool = True,
    same_width: bool = True,
) -> results.Way:
    """A map that finds `recall` of the ten nearest rows."""
    tried = (("rigid", "rigid", None, -0.02), ("toward_identity", "rigid", 0.1, 0.0), ("ridge", "linear", 0.01, -0.05))
    baselines = (("as_is", 0.38), ("random_rotation", 0.004), ("shuffled_pairs", 0.006))
    return results.Way(
        source=source,
        target=target,
        family="toward_identity",
        group="rigid",
        penalty=0.1,
        rank=None,
        why=results.Reason(
            "highest_recall", {"family": "toward_identity", "second": "rigid", "gain": 0.02, "standard_error": 0.004}
        ),
        fitted=4800,
        tried=tuple(
            results.Candidate(family, group, penalty, recall + gap, 0.006, recall + gap, 0.6, gap == 0)
            for family, group, penalty, gap in tried
        ),
        choice_queries=1000,
        choice_index=4800,
        invertible=True,
        queries=(make_retrieval(recall), make_retrieval(recall - 0.02, metric="euclidean")),
        stored=(make_retrieval(recall - 0.01), make_retrieval(recall - 0.04, metric="euclidean")),
        baselines=tuple(
            results.Baseline(name, make_retrieval(value), -0.5)
            for name, value in baselines
            if same_width or name != "as_is"
        ),
        own_overlap=results.Bounded(0.6, (0.58, 0.62)),
        r2=results.Bounded(0.61, (0.6, 0.62)),
        cosine=results.Bounded(0.8, (0.79, 0.81)),
        mixed=0.41,
        curve=make_curve(recall) if curve else None,
        regions=(results.Region("ext=zip", None, 60, results.Bounded(0.31, (0.25, 0.37)), recall + 0.02),),
        advice=advice,
        uses=tuple(
            results.MapUse(use, found.metric, found.index, found.recall_10, found.within_100, advice)
            for use in ("stored", "queries")
            for found in (make_retrieval(recall), make_retrieval(recall - 0.02, metric="euclidean"))
            if curve  # results of older versions have none
        ),
    )


def make_curve(limit: float) -> results.PairsNeeded:
    """Recall that grows to `limit`."""

    def at(pairs: int) -> float:
        return limit + 0.02 - 120 / (pairs + 300)

    points = tuple(
        results.CurvePoint(n, results.Bounded(at(n), (at(n) - 0.01, at(n) + 0.01)))
        for n in (300, 600, 1200, 2400, 4800)
    )
    return results.PairsNeeded(points, limit + 0.02, 120.0, 300.0, {str(n): at(n) for n in (9600, 19200, 48000)}, 11700)


def make_alignment(
    *,
    names: Sequence[str] = ("old", "new"),
    recall: float = 0.69,
    advice: str = "map_and_rerank",
    curve: bool = True,
    widths: tuple[int, int] = (512, 512),
) -> results.Alignment:
    """A map whose ten nearest rows are found by fetching a hundred."""
    first, second = names
    values = {
        "source": first,
        "target": second,
        "recall": recall,
        "low": recall - 0.015,
        "high": recall + 0.015,
        "index": 6000,
    }
    values |= {"within": 0.99, "own": 0.6, "shuffled": 0.006, "least_map": 0.9, "least_rerank": 0.95, "least_both": 0.7}
    return results.Alignment(
        inputs=tuple(results.Input(name, 6000, widths[i], "float32", f"{i:064x}") for i, name in enumerate(names)),
        settings={"group": "auto", "ridge": "auto", "normalize": False},
        alerts=(results.Alert("mapped_crowd_out", {"source": first, "target": second, "share": 0.41}),),
        provenance=replace(MADE_BY, command="identifiable align old.npy new.npy"),
        pairs=6000,
        ways=(
            make_way(first, second, recall, advice=advice, curve=curve, same_width=widths[0] == widths[1]),
            make_way(second, first, recall + 0.05, curve=curve, same_width=widths[0] == widths[1]),
        ),
        text=results.Answer(advice, values),
    )


# -- examples of every kind

EXAMPLES: Mapping[str, Callable[[], Any]] = {
    "alignment": make_alignment,
    "alignment, widths": lambda: make_alignment(recall=0.1, advice="re_embed", curve=False, widths=(50, 100)),
    "comparison": make_comparison,
    "comparison, paper": lambda: make_comparison(protocol="paper"),
    "four models": lambda: make_comparison(4),
    "comparison, older": lambda: make_comparison(older="As recorded."),
    "resolution": make_resolution,
    "joint": make_joint_resolution,
    "distortion": make_distortion,
    "mechanisms": make_mechanisms,
    "mechanisms, moving": lambda: make_mechanisms(certain=False, moving=True),
    "mechanisms, local": lambda: make_mechanisms(linear=False),
    "mechanisms, one": lambda: make_mechanisms(one=True),
    "heads": make_heads,
    "heads, no features": lambda: make_heads(features=False),
    "match": make_matches,
    "match, three": lambda: make_matches(3, whole=False, large=True),
    "layers": make_layers,
    "layers, over training": lambda: make_layers(8, untrained=False, training=3),
    "extraction": make_extraction,
    "extraction, pictures": lambda: make_extraction(pictures=True, untrained=3, layers=6),
    "reproduction": make_reproduction,
    "disentanglement": make_disentanglement,
    "table1": make_table1,
    "table2": make_table2,
    "table3": make_table3,
    "roeder": make_roeder,
    "mechanistic": make_mechanistic,
    "mechanistic, independent": lambda: make_mechanistic((0.0,)),
    "audit": make_audit,
    "evaluation": make_evaluation,
    "attribution": lambda: make_attribution(size=8, grid=(8, 12)),
    "cleaning": lambda: make_cleaning(attribution=make_attribution(size=8, grid=(8, 12))),
    "recommendation": make_recommendation,
}


# -- reading a page: its blocks, and what they say

HOSTILE = '<script>alert("1")</script>'
RENDERERS = (report.html, report.fragment, report.markdown, report.text_table)
VOID = {"meta", "br", "circle", "path", "line", "polyline"}


class Outline(HTMLParser):
    """Tags of a page; fails on one that is left open or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        last = self.open.pop()
        assert last == tag, f"</{tag}> closes <{last}>"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag == name]


def foreign_loads(text: str) -> list[str]:
    """Everything in a page that a browser would fetch, or run, from elsewhere or from within."""
    outline = Outline(text)
    loads = [tag for tag, _ in outline.seen if tag in ("script", "link", "img", "iframe", "object", "embed", "base")]
    for tag, attributes in outline.seen:
        loads += [f"{tag} {k}" for k in attributes if k in ("src", "srcset", "data", "poster") or k.startswith("on")]
        target = attributes.get("href") or "#"
        loads += [] if target.startswith("#") else [f"{tag} href {target}"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL))
    return loads + re.findall(r"@import|url\(|@font-face", styles)


def blocks_of(result: Any, *keys: str) -> Iterator[Block]:
    """The blocks of these sections (all without one), those inside a fold after it."""
    for section in page_of(result).sections:
        if not keys or section.key in keys:
            yield from unfolded(section.blocks)


def unfolded(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from unfolded(block.blocks)


def tables_of(result: Any, *keys: str) -> list[Table]:
    return [block for block in blocks_of(result, *keys) if isinstance(block, Table)]


def card_of(result: Any) -> Card:
    """The first card of the verdict."""
    return next(block for block in blocks_of(result, "verdict") if isinstance(block, Card))


def figure_of(result: Any, title: str) -> Curves | None:
    return next((b for b in blocks_of(result) if isinstance(b, Curves) and b.title == title), None)


def shown_words(result: Any) -> str:
    """Every word of the HTML page on one line."""
    return " ".join(" ".join(Outline(report.html(result)).words).split())


def text_of(result: Any, *keys: str) -> str:
    """Everything a section says, in words."""
    parts: list[str] = []
    for block in blocks_of(result, *keys):
        match block:
            case Text(text=text):
                parts.append(text)
            case Table(caption=caption, rows=rows):
                parts += [caption, *(cell for row in rows for cell in row)]
            case Terms(items=items):
                parts += [word for item in items for word in item]
            case Card(sentence=sentence, facts=facts):
                parts += [sentence, *(word for fact in facts for word in fact)]
            case _:
                pass
    return " ".join(parts)


def table_called(result: Any, start: str) -> Table:
    """The table whose caption begins so."""
    return next(b for b in blocks_of(result) if isinstance(b, Table) and b.caption.startswith(start))


def without_style(text: str) -> str:
    """A page without its style sheet and the code of its pictures."""
    return re.sub(r"<style>.*?</style>|base64,[\w+/=]+", "", text, flags=re.DOTALL)


def check_drawn(result: Any) -> None:
    """Drawn alike from saved JSON, nothing undefined shown, no line too long, no mark outside its frame."""
    again = from_json(to_json(result))
    drawn = {render: render(result) for render in RENDERERS}
    for render, text in drawn.items():
        assert text == render(again)
        assert not re.search(r"\b(nan|inf|None)\b", without_style(text))
    lines = [line for line in drawn[report.text_table].splitlines() if "identifiable transform" not in line]
    assert max(map(columns_wide, lines)) <= WIDTH
    assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', drawn[report.html]))
