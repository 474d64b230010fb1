"""What a search finds through a map: against brute force, and how often intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.alignment.retrieval import (
    Closeness,
    Searched,
    bounded_share,
    in_whole_index,
    random_rotation,
    recalls,
    retrieve,
    true_lists,
    true_share,
)
from identifiable.groups import haar_rotation
from identifiable.moments import Array, Moments
from identifiable.neighbours import Index, Metric
from identifiable.results import Bounded
from identifiable.run import Run

ALONE = Run(workers=1)


def paired(n: int, d: int, noise: float, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((n, d)) * np.linspace(2, 0.5, d) + 1
    return y, y + noise * rng.standard_normal((n, d))


def search(mapped: Array, true: Array, own: Array, metric: Metric = "cosine", **more: Array) -> Searched:
    index = Index(true, metric=metric)
    return retrieve(mapped[own], index, true_lists(true[own], index, own, ALONE), own, run=ALONE, **more)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_every_value_is_that_of_its_definition(metric: Metric) -> None:
    y, mapped = paired(400, 6, 0.4, 1)
    own = np.arange(0, 400, 4)
    found = search(mapped, y, own, metric)

    def similarities(queries: Array, rows: Array) -> Array:
        if metric == "euclidean":
            return -np.square(queries[:, None] - rows).sum(axis=2)
        return (queries / np.linalg.norm(queries, axis=1)[:, None]) @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T

    true, plain = similarities(y[own], y), similarities(mapped[own], y)
    near_rows = np.sort(plain, axis=1)[:, -10:].mean(axis=1)
    near_queries = np.sort(plain, axis=0)[-10:].mean(axis=0)
    csls = 2 * plain - near_rows[:, None] - near_queries

    def orders(scores: Array) -> tuple[list[list[int]], Array]:
        order = [[int(j) for j in np.argsort(-row) if j != i] for i, row in zip(own, scores, strict=True)]
        place = 1 + (scores > np.take_along_axis(scores, own[:, None], axis=1)).sum(axis=1)
        return order, place

    truth, _ = orders(true)
    for scores, recall, mrr in (
        (plain, found.result.recall_10, found.result.mrr),
        (csls, found.result.csls_recall_10, found.result.csls_mrr),
    ):
        order, place = orders(scores)
        each = [len(set(a[:10]) & set(b[:10])) / 10 for a, b in zip(order, truth, strict=True)]
        assert recall.value == pytest.approx(np.mean(each))
        assert mrr.value == pytest.approx(np.mean(1 / place))
    order, _ = orders(plain)
    assert found.result.recall_1.value == pytest.approx(
        np.mean([a[0] == b[0] for a, b in zip(order, truth, strict=True)])
    )
    assert found.result.within_100.value == pytest.approx(
        np.mean([len(set(a[:100]) & set(b[:10])) / 10 for a, b in zip(order, truth, strict=True)])
    )
    assert (found.result.metric, found.result.index, found.result.queries) == (metric, 400, 100)
    assert found.rows.mean() == pytest.approx(found.result.recall_10.value)


def test_true_rows_find_all_and_unrelated_rows_find_chance() -> None:
    y, _ = paired(500, 6, 0.1, 2)
    own = np.arange(100)
    perfect = search(3 * y, y, own).result
    assert {perfect.recall_1.value, perfect.recall_10.value, perfect.within_100.value, perfect.mrr.value} == {1.0}
    other = search(np.random.default_rng(3).standard_normal(y.shape), y, own).result
    assert other.recall_10.value < 0.06
    assert other.mrr.value < 0.05


def test_stored_rows_that_are_mapped_are_searched_by_true_queries() -> None:
    y, mapped = paired(500, 6, 0.2, 4)
    own = np.arange(100)
    truth = true_lists(y[own], Index(y, metric="cosine"), own, ALONE)
    stored = retrieve(y[own], Index(mapped, metric="cosine"), truth, own, run=ALONE)
    assert 0.4 < stored.result.recall_10.value < 0.95
    assert stored.rows == pytest.approx(recalls(Index(mapped, metric="cosine").nearest(y[own], 10, own=own), truth))


def test_recall_falls_as_the_index_grows() -> None:
    y, mapped = paired(2000, 8, 0.4, 5)
    values = [search(mapped[:n], y[:n], np.arange(100)).result.recall_10.value for n in (200, 600, 2000)]
    assert values[0] > values[1] > values[2]


def test_few_rows_are_searched_as_far_as_they_go() -> None:
    y, mapped = paired(8, 3, 0.1, 6)
    found = search(mapped, y, np.arange(8)).result
    assert (found.index, found.recall_10.value, found.within_100.value) == (8, 1.0, 1.0)


def test_closeness_is_r2_and_cosine() -> None:
    y, mapped = paired(300, 5, 0.3, 7)
    close = Closeness.of(mapped, y, y.mean(axis=0))
    expected = 1 - np.square(y - mapped).sum() / np.square(y - y.mean(axis=0)).sum()
    assert close.r2.value == pytest.approx(expected)
    assert close.cosine.value == pytest.approx(
        np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(y, mapped, strict=True)])
    )
    for part in (close.r2, close.cosine):
        assert part.ci95 is not None
        assert part.ci95[0] < part.value < part.ci95[1]
    assert Closeness.of(y, y, y.mean(axis=0)).r2 == Bounded(1.0, (1.0, 1.0))


def test_shrunk_rows_crowd_out_true_ones() -> None:
    rng = np.random.default_rng(8)
    y = rng.standard_normal((1000, 40))
    own = np.arange(200)
    assert true_share(y[own], y, y, own, run=ALONE) == pytest.approx(0.5, abs=0.05)
    shrunk, moved = 0.6 * y, y + 10
    assert true_share(y[own], y, shrunk, own, metric="euclidean", run=ALONE) < 0.2
    assert true_share(y[own], y, moved, own, metric="euclidean", run=ALONE) == 1.0


def test_a_random_rotation_keeps_the_mean_and_the_spread() -> None:
    x, y = paired(400, 6, 0.5, 9)
    for source in (x, x[:, :4]):
        turn = random_rotation(
            Moments.of(np.hstack([source, y]), widths=(source.shape[1], 6)), np.random.default_rng(0)
        )
        image = turn(source)
        assert image.mean(axis=0) == pytest.approx(y.mean(axis=0))
        assert np.trace(np.cov(image.T)) == pytest.approx(np.trace(np.cov(y.T)))
        assert (
            recalls(
                Index(y, metric="cosine").nearest(image[:100], 10), Index(y, metric="cosine").nearest(y[:100], 10)
            ).mean()
            < 0.4
        )


def test_parts_widen_an_interval_and_one_part_has_none() -> None:
    rng = np.random.default_rng(10)
    values = np.repeat(rng.uniform(size=20), 10)
    alone, grouped = bounded_share(values), bounded_share(values, np.repeat(np.arange(20), 10))
    assert alone.ci95 is not None
    assert grouped.ci95 is not None
    assert grouped.ci95[1] - grouped.ci95[0] > 2.5 * (alone.ci95[1] - alone.ci95[0])
    assert bounded_share(values, np.zeros(200)).ci95 is None


def test_an_interval_at_one_has_a_lower_end() -> None:
    assert bounded_share(np.ones(100)).ci95 == pytest.approx((1 / (1 + 1.984**2 / 100), 1.0), abs=1e-3)
    assert bounded_share(np.full(50, 0.5)).ci95 == (0.5, 0.5)


def covered(draws: int, rows: int, queries: int, noise: float, *, grouped: bool = False) -> Array:
    """How often the interval holds the mean of all draws: recall@10, 10-in-100, MRR. Rows, queries and map are drawn again."""
    rng, found = np.random.default_rng(11), []
    for _ in range(draws):
        group = np.repeat(np.arange(rows // 5), 5) if grouped else np.arange(rows)
        shared = rng.standard_normal((len(np.unique(group)), 8))[group]
        y = 0.8 * shared + 0.6 * rng.standard_normal((rows, 8)) if grouped else shared
        x = (y + noise * rng.standard_normal(y.shape)) @ haar_rotation(8, rng)
        # Groups are in order, so the first rows are whole groups.
        left, _, right = np.linalg.svd(x[queries:].T @ y[queries:])
        result = search(x @ left @ right, y, np.arange(queries), parts=group[:queries]).result
        found.append([result.recall_10, result.within_100, result.mrr])
    truth = [np.mean([b.value for b in column]) for column in zip(*found, strict=True)]
    inside = [[b.ci95[0] <= t <= b.ci95[1] for b, t in zip(row, truth, strict=True) if b.ci95] for row in found]
    return np.mean(inside, axis=0)


def test_intervals_cover_new_rows() -> None:
    assert np.all(covered(40, 250, 100, 0.4) > 0.83)  # .95 less 3.5 standard errors


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "queries", "noise", "grouped"),
    [
        (1000, 200, 0.3, False),
        (1000, 200, 1.5, False),
        (400, 200, 0.3, False),
        (2500, 500, 0.6, False),
        (1000, 200, 0.4, True),
    ],
)
def test_intervals_cover_in_92_to_98_of_100_draws(rows: int, queries: int, noise: float, grouped: bool) -> None:
    share = covered(200, rows, queries, noise, grouped=grouped)
    assert np.all(share >= 0.92 - 0.03)  # 200 draws of .95 have a standard error of .015
    assert share[0] <= 0.98 + 0.01


def test_the_loss_of_stored_vectors_is_carried_to_the_whole_index() -> None:
    rng = np.random.default_rng(6)
    whole, small = rng.beta(3, 2, 500), rng.beta(4, 1, 500)
    same, less = (in_whole_index(whole, small - loss, small) for loss in (0.0, 0.08))
    assert same.value == pytest.approx(whole.mean())
    assert same.ci95 == pytest.approx(bounded_share(whole).ci95)
    assert less.value == pytest.approx(same.value * (1 - 0.08 / small.mean()))
    nothing = in_whole_index(np.repeat([0.0, 0.1], 50), np.repeat([0.0, 0.05], 50), np.repeat([0.1, 0.2], 50))
    assert 0 < nothing.value < 0.05
    assert nothing.ci95 is not None
    assert nothing.ci95[1] < 0.1  # of searches that find next to nothing
    assert less.ci95 is not None
    assert less.ci95[0] < less.value < less.ci95[1]
    all_found = in_whole_index(np.ones(100), np.ones(100), np.ones(100))
    assert all_found.value == 1
    assert all_found.ci95 is not None
    assert 0.9 < all_found.ci95[0] < 1  # a hundred queries do not show that all are found
