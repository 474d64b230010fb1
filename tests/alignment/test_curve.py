"""Recall against the number of pairs: the curve, its forecast, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from identifiable.alignment.curve import fitted_curve, numbers_of_pairs, pairs_needed
from identifiable.alignment.retrieval import bounded_share, recalls, true_lists
from identifiable.groups import GROUPS, haar_rotation
from identifiable.moments import Array, Moments
from identifiable.neighbours import Index
from identifiable.results import Bounded
from identifiable.run import Run

SPACY = Path("/work/shared/data/spacy_en_core_web_sm_36_vs_38.npz")


def measured(x: Array, y: Array, queries: int, seed: int) -> Callable[[int], Bounded]:
    """Recall@10 of a rotation fitted to the first n rows after the queries."""
    order = np.random.default_rng(seed).permutation(len(x))
    own, left = order[:queries], order[queries:]
    index, alone = Index(y, metric="cosine"), Run(workers=1)
    truth = true_lists(y[own], index, own, alone)

    def recall(n: int) -> Bounded:
        rows = left[:n]
        turn = GROUPS["rigid"].fit(Moments.of(np.hstack([x[rows], y[rows]]), widths=(x.shape[1], y.shape[1])))
        return bounded_share(recalls(index.nearest(turn(x[own]), 10, own=own, run=alone), truth))

    return recall


def forecast_error(recall: Callable[[int], Bounded], total: int) -> float:
    """Forecast of `total` from half of it, less what is measured there."""
    curve = pairs_needed(recall, total // 2)
    assert curve is not None
    assert [point.pairs for point in curve.points] == list(numbers_of_pairs(total // 2))
    return curve.forecast[str(2 * (total // 2))] - recall(2 * (total // 2)).value


def test_the_curve_of_its_own_form_is_found() -> None:
    curve = pairs_needed(lambda n: Bounded(0.7 - 40 / (n + 30)), 1600)
    assert curve is not None
    assert (curve.limit, curve.drop, curve.offset) == pytest.approx((0.7, 40, 30), rel=1e-3)
    assert list(curve.forecast) == ["3200", "6400", "16000"]
    assert curve.forecast["16000"] == pytest.approx(0.7 - 40 / 16030, abs=1e-5)
    assert curve.enough == pytest.approx(3970, abs=5)


@pytest.mark.parametrize(
    "recalls", [[0.5, 0.5, 0.5, 0.5], [0.6, 0.55, 0.5, 0.5], [0.9, 0.97, 0.99, 1.0], [0.2, 0.21, 0.3, 0.6]]
)
def test_no_forecast_leaves_the_range_of_a_share(recalls: list[float]) -> None:
    limit, drop, offset = fitted_curve([100, 200, 400, 800], recalls)
    assert min(recalls) <= limit <= 1
    assert drop >= 0
    assert 0 <= offset <= 400


def test_a_flat_curve_has_enough_and_a_steep_one_names_no_number_far_away() -> None:
    flat = pairs_needed(lambda n: Bounded(0.6), 400)
    steep = pairs_needed(lambda n: Bounded(n / 1000), 400)
    assert flat is not None
    assert steep is not None
    assert (flat.enough, flat.limit) == (1, pytest.approx(0.6))
    assert steep.enough is None or steep.enough > 10_000


def test_few_pairs_have_no_curve() -> None:
    assert pairs_needed(lambda n: Bounded(0.5), 99) is None
    assert pairs_needed(lambda n: Bounded(0.5), 100) is not None


def test_half_of_the_pairs_forecast_all_of_them() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1700, 32)) * np.linspace(2, 0.3, 32)
    x = (y + 0.5 * rng.standard_normal(y.shape)) @ haar_rotation(32, rng)
    assert abs(forecast_error(measured(x, y, 300, 1), 1400)) < 0.03


@pytest.mark.skipif(not SPACY.exists(), reason=f"{SPACY} is not here")
def test_half_of_real_pairs_forecast_all_of_them() -> None:
    with np.load(SPACY) as file:
        x, y = (file[name].astype(float)[:4000] for name in ("tok2vec_36", "tok2vec_38"))
    assert abs(forecast_error(measured(x, y, 400, 2), 3600)) < 0.03
