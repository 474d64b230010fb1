"""Disentanglements with known numbers, built without running anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from identifiable.results import (
    AfterICA,
    Alert,
    Disentanglement,
    Factor,
    FactorLatentMatrix,
    Input,
    Metric,
    NoisePoint,
    Provenance,
    ScoreNull,
)

Mode = Literal["centred", "literal", "whitened"]
FACTORS = (
    Factor("floor hue", "discrete", 10, math.log(10)),
    Factor("shape", "discrete", 4, math.log(4)),
    Factor("scale", "discrete", 8, math.log(8)),
)
# Best latents, from 0: shape in 0, scale in 1, floor hue in 3; latent 4 hardly varies.
NMI = ((0.05, 0.02, 0.10, 0.91, 0.0), (0.85, 0.03, 0.20, 0.04, 0.0), (0.01, 0.77, 0.15, 0.02, 0.99))
ACTIVE = [True, True, True, True, False]
INFO = {"infom": 0.73, "infoe": 0.99, "infoc": 0.55}


def make_metric(scores: dict[str, float], *, draws: bool = False, **rest: Any) -> Metric:
    """A metric; with `draws` its scores have intervals of 0.02 each way and shuffled factors score 0.1."""
    intervals = {key: (value - 0.02, value + 0.02) for key, value in scores.items()} if draws else {}
    nulls = {key: ScoreNull(0.1, 0.15, 0.0099) for key in scores} if draws else {}
    return Metric(scores, intervals=intervals, nulls=nulls, **{"settings": {"bins": 20}, **rest})


def make_infomec(scores: dict[str, float] | None = None, *, draws: bool = False, **rest: Any) -> Metric:
    about = {
        "settings": {"profile": "hsu-standalone", "neighbours": 10},
        "matrix": FactorLatentMatrix("mutual information over the entropy of the factor", NMI),
        "details": {"active": ACTIVE, "infoe_of_factor": [0.98, 1.0, 0.99], "converged_of_factor": [True, False, True]},
    }
    return make_metric(scores or INFO, draws=draws, **{**about, **rest})


def make_after(mode: Mode = "centred", *, infoe: tuple[float, float] = (0.991, 0.991), **rest: Any) -> AfterICA:
    return AfterICA(
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
    infomec: Metric | None = None,
    metrics: dict[str, Metric] | None = None,
    factors: Sequence[Factor] = FACTORS,
    latents: Sequence[str] | None = None,
    latent_kind: Literal["discrete", "continuous"] = "continuous",
    draws: bool = True,
    sweep: Sequence[tuple[float, float]] = ((0.0, 0.73), (0.01, 0.76), (0.03, 0.87), (0.1, 0.98)),
    after: Sequence[AfterICA] = (make_after(),),
    alerts: Sequence[Alert] = (),
    name: str = "codes",
    settings: dict[str, Any] | None = None,
) -> Disentanglement:
    """Three factors in five latents, the last of which hardly varies; InfoM 0.73 without noise and 0.98 with."""
    information = FactorLatentMatrix("mutual information, nats", tuple(tuple(2 * v for v in row) for row in NMI))
    found = {
        "infomec": infomec or make_infomec(draws=draws),
        "dci": make_metric(
            {"disentanglement": 0.81, "completeness": 0.77, "informativeness_test": 0.99},
            draws=draws,
            settings={"predictor": "forest", "trees": 100},
            matrix=FactorLatentMatrix("importance of the latent (forest)", NMI),
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
    return Disentanglement(
        inputs=(Input(name, 10_000, 5, "float32", f"{1:064x}"), Input("factors", 10_000, 3, "int64", f"{2:064x}")),
        settings={"profile": "hsu-standalone", "bootstrap": 200, "null": 100, **(settings or {})},
        alerts=tuple(alerts),
        provenance=Provenance(
            "0.1.0", {"numpy": "2.0.0"}, 7, "identifiable disentangle codes.npy factors.csv", "2026-11-16"
        ),
        n=10_000,
        latents=tuple(latents) if latents else tuple(f"latent {j + 1}" for j in range(5)),
        latent_kind=latent_kind,
        factors=tuple(factors),
        metrics=found if metrics is None else metrics,
        sweep=tuple(NoisePoint(x, {"infom": y, "infoe": 0.99 - x, "infoc": 0.55 + x}) for x, y in sweep),
        after=tuple(after),
    )
