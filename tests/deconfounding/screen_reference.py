"""The small screen of tests/reference/screen_metrics.json, and what the libraries found of it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from identifiable.deconfounding.design import Design, Labels


@cache
def reference() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "reference" / "screen_metrics.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def screen() -> tuple[np.ndarray, Design]:
    stored = reference()["screen"]
    perturbation, well = np.array(stored["perturbation"]), np.array(stored["well"])
    design = Design(
        plate=Labels.of(np.array(stored["plate"])),
        perturbation=Labels.of(perturbation),
        control=perturbation == "control",
        batch=Labels.of(np.array(stored["batch"])),
        row=well // 10,
        column=well % 10,
        cell_count=np.array(stored["count"], dtype=float),
    )
    return np.array(stored["X"]) / 1000, design


def numbers(values: Any) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values])


def haar(d: int, seed: int) -> np.ndarray:
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return Q * np.sign(np.diag(R))
