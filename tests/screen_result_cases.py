"""Results of `deconfound` with known numbers, built without running anything."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from identifiable.results import (
    Answer,
    Attribution,
    Audit,
    BlindScore,
    Cleaning,
    CleanPoint,
    ComponentCard,
    ComponentRole,
    Concentration,
    ConditionScore,
    Dependence,
    Difference,
    FeatureCheck,
    Finding,
    Fitted,
    FoldCheck,
    IcaAdvice,
    Input,
    Interval,
    Leakage,
    Note,
    Provenance,
    Role,
    ScreenDesign,
    ScreenEvaluation,
    Share,
    SpaceMetric,
    StageTime,
    TopPerturbation,
    from_json,
    to_json,
)
from identifiable.results.evaluation import FitOn, HeldOut

NAN = math.nan
NO_INTERVAL: Interval = (NAN, NAN)
TARGETS = ("MTOR_guide_1", "PLK1_guide_1", "SRC_guide_1", "HCK_guide_1")
NULLS = ("null 1", "null 2")
AUROC = {"base": 0.673, "pca": 0.701, "ica": 0.809, "rand": 0.693, "tvn": 0.744, "position": 0.531, "plate": 0.5}
RIDGE = {"base": 0.7399, "pca": 0.7402, "ica": 0.7403, "rand": 0.7401, "tvn": 0.751}
HOYER = {"base": 0.187, "pca": 0.171, "ica": 0.262, "rand": 0.168, "tvn": 0.18}
ROWS = (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB", "AC", "AD", "AE", "AF")
FACTORS = ("plate", "batch", "row", "column", "edge", "cell_count", "perturbation")


def about(name: str, command: str) -> dict[str, Any]:
    return {
        "inputs": (Input(name, 6_000, 48, "float32", f"{1:064x}"),),
        "settings": {"folds": 5, "limits": {"technical": 0.1}},
        "alerts": (),
        "provenance": Provenance(
            "0.1.0",
            {"numpy": "2.0.0", "lightgbm": "4.7.0"},
            7,
            f"identifiable deconfound {command} wells.parquet",
            "2026-11-16",
        ),
        "design": make_design(),
    }


def make_design(**rest: Any) -> ScreenDesign:
    found: dict[str, Any] = {
        "n": 6_000,
        "d": 48,
        "roles": (
            Role("plate", "experiment_name + plate", 75, ("gene-001_1", "gene-001_2", "gene-001_3")),
            Role("perturbation", "treatment", 41, ("EMPTY_control", "MTOR_guide_1", "PLK1_guide_1")),
            Role("well", "address", 1536, ("A01", "A02", "A03")),
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
    return ScreenDesign(**{**found, **rest})


# -- audit


def make_audit(name: str = "wells", **rest: Any) -> Audit:
    """A sound screen: position tells a little, the embedding tells plates apart."""
    found: dict[str, Any] = {
        **about(name, "audit"),
        "dependences": (
            Dependence("address", 2.413, 2.401, 2.44, 0.012, 0.31),
            Dependence("row", 0.211, 0.205, 0.22, 0.003, 0.24),
            Dependence("plate", 0.02, 0.01, 0.02, 0.001, 0.05),
        ),
        "blind": (
            BlindScore("position", "each perturbation", 0.531, (0.51, 0.552), 16, "PLK1_guide_1", 0.61),
            BlindScore("plate", "each perturbation", 0.5, (0.48, 0.52), 16, held_out="nothing", chance=0.52),
            BlindScore("embedding", "plate", 0.93, (0.91, 0.95), 75, "gene-001_9", 0.99, held_out="well"),
        ),
        "confounding": 0.04,
        "folds": (
            FoldCheck(0, 15, 1_200, 240),
            FoldCheck(1, 15, 1_190, 240, ("SRC_guide_1",), "SRC_guide_1 has no well"),
        ),
        "features": FeatureCheck(1, 47, 2, ((4, 17),), 1.24, False, 125.0),
        "findings": (
            Finding("rank", stored="1 feature is constant: 47 of 48 directions are left", severity="caution"),
            Finding("plates_with_controls", stored="all 75 plates have controls", severity="fine"),
            Finding("fold_without_class", stored="fold 1 has no well of SRC_guide_1", severity="stop"),
        ),
        "skipped": {"KIF11_guide_3": "4 wells on 4 plates; 20 are needed"},
        "verdict": "caution",
        "told": Answer("", stored="one fold lacks a perturbation; position alone scores 0.53"),
    }
    return Audit(**{**found, **rest})


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
) -> ConditionScore:
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
    return ConditionScore(representation, classifier, target, held_out, fit, **{**found, **rest})


def make_conditions(held_out: HeldOut = "plate", fit: FitOn = "train", change: float = 0.0) -> list[ConditionScore]:
    """All representations over all targets and on each, by LightGBM and by a linear probe; null guides at 0.503."""
    where: dict[str, Any] = {"held_out": held_out, "fit": fit}
    forms = tuple(
        Concentration(k, round(48 * k / 100), 0.79, 0.64, 0.809, 0.15, 0.234, 1.07) for k in (10.0, 25.0, 50.0)
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


def make_difference(first: str = "ica", second: str = "pca", target: str = "all", **rest: Any) -> Difference:
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
    return Difference(first, second, target=target, **{**found, **rest})


def make_evaluation(name: str = "wells", **rest: Any) -> ScreenEvaluation:
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
            Leakage("ica", "lightgbm", "plate", 0.004, (-0.001, 0.009)),
            Leakage("pca", "ridge", "plate", 0.0, NO_INTERVAL),
        ),
        "fitted": (
            Fitted("ica", "train", 0, 48, True, 41, 3),
            Fitted("ica", "train", 1, 48, False, 38, 3, (Note("rows", {"rows": 200}),)),
            Fitted("pca", "all", 0, 48, True, None, None),
        ),
        "advice": IcaAdvice(
            "yes",
            Answer("helps"),
            (
                Answer("components_found", {"found": 41, "components": 48}),
                Answer("gain_over_pca", {"gain": 0.108, "gain_low": 0.078, "gain_high": 0.138}),
            ),
        ),
        "verdict": "ica-helps",
        "told": Answer(
            "",
            stored="ICA tells perturbations from controls better than PCA on plates left out, by 0.108 [0.078, 0.138]",
        ),
        "times": (StageTime("folds", 0.4, 5), StageTime("LightGBM", 812.4, 960, 320), StageTime("ICA", 143.0, 6)),
        "scores": (),
    }
    return ScreenEvaluation(**{**found, **rest})


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


def make_card(index: int, role: ComponentRole, *, grid: tuple[int, int] = (32, 48), **rest: Any) -> ComponentCard:
    technical = {"technical": 0.62, "both": 0.4, "biological": 0.01, "neither": -0.02}[role] / (1 + 0.05 * (index % 40))
    biological = {"technical": 0.005, "both": 0.3, "biological": 0.45, "neither": -0.01}[role] / (
        1 + 0.03 * (index % 40)
    )
    part = {"plate": 0.7, "batch": 0.3, "row": 0.12, "column": 0.5, "edge": 0.2, "cell_count": 0.05}
    moved = tuple(
        TopPerturbation(f"GENE{index}_guide_{k}", (-1) ** k * (2.4 - 0.2 * k), 70, 0.0002, 0.004 * (k + 1))
        for k in range(10)
    )
    found: dict[str, Any] = {
        "technical": technical,
        "technical_ci95": (technical - 0.05, technical + 0.05),
        "biological": biological,
        "biological_ci95": (biological - 0.05, biological + 0.05),
        "shares": tuple(
            Share(
                f, biological if f == "perturbation" else technical * part[f], 0.005 if technical > 0.1 else 0.4, 0.03
            )
            for f in FACTORS
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
    return ComponentCard(index, role, **{**found, **rest})


def make_attribution(
    name: str = "wells",
    *,
    size: int = 48,
    grid: tuple[int, int] = (32, 48),
    cards: Sequence[ComponentCard] | None = None,
    **rest: Any,
) -> Attribution:
    """Of eight components two are technical, three biological, one both and two neither."""
    pattern: tuple[ComponentRole, ...] = (
        "technical", "biological", "neither", "biological", "both", "technical", "neither", "biological",
    )  # fmt: skip
    made = tuple(make_card(i, pattern[i % 8], grid=grid) for i in range(size)) if cards is None else tuple(cards)
    found: dict[str, Any] = {
        **about(name, "attribute"),
        "components": made,
        "density_edges": tuple(-4 + 0.5 * k for k in range(17)),
        "grid_rows": ROWS[: grid[0]],
        "grid_columns": tuple(f"{j + 1:02d}" for j in range(grid[1])),
        "converged": True,
        "told": Answer("", stored=f"of {size} components {size // 4} are technical and {3 * size // 8} biological"),
    }
    return Attribution(**{**found, **rest})


def make_points() -> tuple[CleanPoint, ...]:
    """ICA takes plate out at no cost, PCA and random rotations pay for it."""
    slopes: tuple[tuple[Any, float, float], ...] = (
        ("ica", 0.03, 0.004),
        ("pca", 0.022, -0.012),
        ("rand", 0.006, -0.01),
    )
    return tuple(
        CleanPoint(
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


def make_metrics() -> tuple[SpaceMetric, ...]:
    same = [
        SpaceMetric("replicate_map", "whole", 0.41, (0.39, 0.43), True, "high", (Note("replicates", {"chance": 0.1}),)),
        SpaceMetric("pcr_plate", "whole", 0.38, NO_INTERVAL, True, "low"),
        SpaceMetric("plate_auroc", "whole", 0.94, (0.93, 0.95), False, "low"),
    ]
    measured: tuple[tuple[str, tuple[float, ...], bool, Any], ...] = (
        ("replicate_map", (0.458, 0.27, 0.29), True, "high"),
        ("pcr_plate", (0.02, 0.14, 0.33), True, "low"),
        ("plate_auroc", (0.58, 0.68, 0.87), False, "low"),
    )
    cleaned = [
        SpaceMetric(metric, space, value, NO_INTERVAL, invariant, better)
        for metric, values, invariant, better in measured
        for space, value in zip(("ica", "pca", "rand"), values, strict=True)
    ]
    return (*same, *cleaned)


def make_cleaning(name: str = "wells", *, attribution: Attribution | None = None, **rest: Any) -> Cleaning:
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
        "told": Answer(
            "", stored="12 components dropped; replicates find each other better than with as many axes of PCA dropped"
        ),
        "attribution": attributed,
        "outputs": ("cleaned.h5ad", "clean basis.safetensors"),
    }
    return Cleaning(**{**found, **rest})


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
