"""DCI where the importance of every latent is known: what its default predictor must give, and what the others cannot.

Scores follow from the matrix R by hand. A factor shared evenly by k of d latents has completeness 1 - log k / log d; a latent that
holds k of m factors evenly has disentanglement 1 - log k / log m.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable.disentanglement.predicted import completeness_of_factors, dci, disentanglement_of_latents

Array = NDArray[np.float64]
Case = tuple[Array, NDArray[np.int64] | Array, float, float]  # latents, factors, disentanglement, completeness
ROWS = 2000
TOLERANCE = 0.03  # 50 trees share what only chance divides: a parity by 1 / sqrt(50) either way


def classes(rng: np.random.Generator, *values: int) -> NDArray[np.int64]:
    return np.column_stack([rng.integers(0, k, ROWS) for k in values])


def blurred(rng: np.random.Generator, values: NDArray, by: float = 0.1) -> Array:
    return values + by * rng.standard_normal(values.shape)


def shared_by_two(d: int) -> float:
    return 1 - log(2) / log(d)


def perfect(*values: int, by: float = 0.1) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        S = classes(rng, *values)
        return blurred(rng, S, by)[:, rng.permutation(len(values))] * -3.0, S, 1.0, 1.0

    return make


def duplicated(*values: int, by: float = 0.1) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        S = classes(rng, *values)
        return blurred(rng, np.hstack([S, S]), by), S, 1.0, shared_by_two(2 * len(values))

    return make


def two_in_one(rng: np.random.Generator) -> Case:
    """Latent 0 holds two of four factors, with half of the weight; latent 1 is noise."""
    S = classes(rng, 4, 4, 4, 4)
    Z = S.astype(float)
    Z[:, 0], Z[:, 1] = 4 * S[:, 0] + S[:, 1], rng.standard_normal(ROWS)
    return blurred(rng, Z), S, 0.5 * shared_by_two(4) + 0.5, 1.0


def with_noise_latents(rng: np.random.Generator) -> Case:
    """Classes overlap, so that a tree which grows on splits by noise."""
    S = classes(rng, 5, 5, 5)
    return np.hstack([blurred(rng, S, 0.4), rng.standard_normal((ROWS, 5))]), S, 1.0, 1.0


def parity(rng: np.random.Generator) -> Case:
    """A factor that no latent predicts alone, and two do together."""
    bits = rng.integers(0, 2, (ROWS, 4))
    return blurred(rng, bits), bits[:, [0, 2]] ^ bits[:, [1, 3]], 1.0, shared_by_two(4)


def even_mixture(rng: np.random.Generator) -> Case:
    S = rng.uniform(-1, 1, (ROWS, 2))
    return S @ [[1.0, 1.0], [1.0, -1.0]], S, 0.0, 0.0


def continuous_with_outliers(rng: np.random.Generator) -> Case:
    """Duplicates of skewed amounts, one through another scale; one row lies far outside."""
    S = rng.standard_exponential((ROWS, 3))
    Z = np.hstack([np.exp(S), S])
    Z[0] = 1e9
    return Z, S, 1.0, shared_by_two(6)


CASES = {
    "2 x 2 values": perfect(2, 2),
    "10 x 10 values": perfect(*[10] * 10),
    "10 x 10 values without noise": perfect(*[10] * 10, by=0.0),
    "unequal numbers of values": perfect(2, 3, 4, 8, 15, 40, by=0.05),
    "duplicates": duplicated(4, 4, 4, 4, 4),
    "duplicates without noise": duplicated(4, 4, 4, 4, 4, by=0.0),
    "unequal duplicates": duplicated(2, 5, 10),
    "two in one": two_in_one,
    "noise latents": with_noise_latents,
    "parity": parity,
    "even mixture": even_mixture,
    "outliers": continuous_with_outliers,
}


@pytest.mark.parametrize("name", CASES)
def test_the_default_satisfies_the_closed_form(name: str) -> None:
    """Settings were chosen on other seeds."""
    Z, S, disentanglement, completeness = CASES[name](np.random.default_rng([11, 71]))
    found = dci(Z, S, seed=11)
    assert found.disentanglement == pytest.approx(disentanglement, abs=TOLERANCE)
    assert found.completeness == pytest.approx(completeness, abs=TOLERANCE)
    assert "uninformative" not in {alert.code for alert in found.alerts}


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("rows", [5, 60, 1000])
def test_noise_has_no_importance_and_the_alert_says_so(kind: str, rows: int) -> None:
    rng = np.random.default_rng([0, rows, 74])
    S = rng.integers(0, 2, (rows, 3)) if kind == "discrete" else rng.standard_exponential((rows, 3))
    S[:2] = [[0, 0, 0], [1, 1, 1]]
    found = dci(rng.standard_normal((rows, 4)), S, kinds=kind)
    assert (found.disentanglement, found.completeness) == pytest.approx((0, 0), abs=1e-9)
    assert "uninformative" in {alert.code for alert in found.alerts}


def test_a_monotone_map_of_latents_changes_nothing_and_another_map_does() -> None:
    Z, S = (table[:500] for table in with_noise_latents(np.random.default_rng(75))[:2])
    before = dci(Z, S).scores
    assert dci(np.exp(3 * Z), S).scores == before
    assert dci(np.abs(Z), S).scores != before


def test_the_forest_of_tripod_spreads_a_perfect_code() -> None:
    """Why it is no longer the default: of ten latents a split sees three."""
    Z, S, *_ = CASES["10 x 10 values"](np.random.default_rng([11, 71]))
    assert dci(Z[:400], S[:400, :2], predictor="forest").completeness < 0.7
    assert dci(Z[:400], S[:400, :2]).completeness == pytest.approx(1, abs=TOLERANCE)


@pytest.mark.parametrize("predictor", ["boosting", "lasso"])
def test_a_predictor_that_hides_copies_says_so_where_there_are_copies_only(predictor: str) -> None:
    rng = np.random.default_rng(76)
    S = rng.integers(0, 2, (300, 5))
    copies = np.hstack([S, S]) * 1.0
    hidden = dci(copies, S, predictor=predictor)
    assert hidden.completeness > 0.95 > shared_by_two(10) + 0.2
    (alert,) = (a for a in hidden.alerts if a.code == "collinear_latents")
    assert all(part in alert.message for part in ("latent 0", "1.000", "extra_trees"))
    separate = dci(blurred(rng, S), S, predictor=predictor)
    assert "collinear_latents" not in {a.code for a in separate.alerts}
    assert "collinear_latents" not in {a.code for a in dci(copies, S).alerts}


# From importances alone: the cases of disentanglement_lib's own tests, by hand, and its values.

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib_metrics.json").read_text())
KNOWN = {
    "diagonal": (5 * np.eye(10), 1, 1),
    "empty latents": (np.hstack([np.eye(10), np.zeros((10, 10))]), 1, 1),
    "nothing": (np.zeros((10, 10)), 0, 0),
    "redundant latents": (np.hstack([np.eye(10), np.eye(10)]), 1, 1 - log(2) / log(20)),
    "missed factors": (np.vstack([np.eye(5), np.zeros((5, 5))]), 1, 1),
    "two factors in one": (np.vstack([np.eye(5), np.eye(5)]), 1 - log(2) / log(10), 1),
    "even": (np.ones((3, 7)), 0, 0),
    **{
        name: (np.array(k["matrix"], float), k["disentanglement"], k["completeness"])
        for name, k in REFERENCE["importance"].items()
    },
}


@pytest.mark.parametrize("name", KNOWN)
def test_scores_of_known_importances(name: str) -> None:
    importance, disentanglement, completeness = KNOWN[name]
    weights = importance if importance.any() else np.ones_like(importance)
    of_latents = disentanglement_of_latents(importance) @ weights.sum(axis=0) / weights.sum()
    of_factors = completeness_of_factors(importance) @ weights.sum(axis=1) / weights.sum()
    assert (of_latents, of_factors) == pytest.approx((disentanglement, completeness), abs=1e-8)
