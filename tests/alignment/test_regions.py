"""Which rows map worst: a planted region is named, and none where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from identifiable.alignment.regions import own_agreement, regions_by_rule, worst_regions
from identifiable.alignment.retrieval import recalls, true_lists
from identifiable.moments import Array
from identifiable.neighbours import Index
from identifiable.results import Region


def world(kind: str, seed: int = 0) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Source rows of queries, their recalls, the share of source neighbours that are found, and whether a row was moved elsewhere."""
    rng = np.random.default_rng([seed, len(kind)])
    x = rng.standard_normal((1500, 10)) * np.linspace(2, 0.5, 10)
    x[::10] += 4 * rng.standard_normal(10)  # a cluster of one row in ten
    y = x + 0.15 * rng.standard_normal(x.shape)
    bad = np.zeros(1500, bool)
    if kind == "column":
        bad = x[:, 2] > np.quantile(x[:, 2], 0.9)
    elif kind == "cluster":
        bad[::10] = True
    elif kind in ("half-space", "ball"):  # in a random direction, about a random row
        along = (
            x @ rng.standard_normal(10) if kind == "half-space" else -np.linalg.norm(x - x[rng.integers(1500)], axis=1)
        )
        bad = along > np.quantile(along, 0.9)
    y[bad] = y[rng.permutation(1500)[: bad.sum()]] + 0.15 * rng.standard_normal((int(bad.sum()), 10))
    own = np.arange(600)
    index = Index(y, metric="euclidean")
    found = index.nearest(x[own], 10, own=own)
    row_recall = recalls(found, true_lists(y[own], index, own))
    return x[own], row_recall, own_agreement(found, true_lists(x[own], Index(x, metric="euclidean"), own)), bad[own]


def named(kind: str, seed: int = 0, **more: Any) -> tuple[Region, ...]:
    x, row_recall, _, _ = world(kind, seed)
    return worst_regions(row_recall, x, rng=np.random.default_rng(1), **more)


@pytest.mark.parametrize("kind", ["column", "cluster"])
def test_a_planted_region_is_named(kind: str) -> None:
    x, row_recall, _, bad = world(kind)
    assert roc_auc_score(bad, -row_recall) >= 0.8
    region = worst_regions(row_recall, x, rng=np.random.default_rng(1))[0]
    assert region.name == "region 1"
    assert region.rest - region.recall_10.value > 0.4
    assert region.recall_10.ci95 is not None
    assert region.recall_10.ci95[1] < region.rest
    assert region.of == 200
    assert 10 < region.rows < 40  # a tenth of the 200 rows that it is tested on, and what is beside
    if kind == "column":
        assert region.rule is not None
        column, limit = region.rule.split(" > ")
        assert column == "column 3"
        assert roc_auc_score(bad, x[:, 2] > float(limit)) >= 0.8
    else:
        assert any(word in str(region.rule) for word in ("distance from", "principal component", "expected recall"))


@pytest.mark.parametrize("kind", ["half-space", "ball"])
@pytest.mark.parametrize("seed", [100, 101])
def test_a_region_in_a_random_direction_holds_the_bad_rows(kind: str, seed: int) -> None:
    x, row_recall, _, bad = world(kind, seed)
    fitted, found = regions_by_rule(row_recall, x, rng=np.random.default_rng(1))
    rule, inside = found[0]
    assert roc_auc_score(bad[~fitted], inside[~fitted]) >= 0.8
    assert "expected recall" in rule or "distance" in rule
    shuffled = np.random.default_rng(seed).permutation(row_recall)
    assert not regions_by_rule(shuffled, x, rng=np.random.default_rng(1))[1]


def test_rules_have_the_names_of_columns() -> None:
    region = named("column", columns=[f"gene{i}" for i in range(10)])[0]
    assert str(region.rule).startswith("gene2 > ")


def test_no_region_is_named_where_there_is_none() -> None:
    assert sum(len(named("none", seed)) for seed in range(6)) <= 1


def test_no_label_or_region_is_named_by_chance() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(40):
        row_recall = rng.beta(0.5, 0.3, 160)
        labels = rng.integers(0, 8, 160).astype(str)
        found += bool(worst_regions(row_recall, rng.standard_normal((160, 4)), labels, rng=rng))
    assert found <= 9  # of 40 at two tests of .05: .1 + 2.6 standard errors


def test_a_label_that_maps_worse_is_named_and_others_are_not() -> None:
    rng = np.random.default_rng(3)
    labels = np.array(["a", "b", "c", "d"])[np.arange(400) % 4]
    row_recall = rng.uniform(0.4, 1.0, 400) - 0.3 * (labels == "c")
    (region,) = worst_regions(row_recall, labels=labels, rng=rng)
    assert (region.name, region.rule, region.rows) == ("c", None, 100)
    assert region.rest == pytest.approx(0.7, abs=0.05)


def test_whole_groups_count_once() -> None:
    rng = np.random.default_rng(4)
    parts = np.repeat(np.arange(24), 20)
    labels = np.repeat(np.array(["a", "b", "c"]), 160)
    row_recall = np.repeat(
        np.tile(np.linspace(0.2, 1, 8), 3) - np.repeat([0, 0, 0.15], 8), 20
    )  # what differs are groups
    assert worst_regions(row_recall, labels=labels, parts=parts, rng=rng) == ()
    assert worst_regions(row_recall, labels=labels, rng=rng)


def test_few_rows_and_equal_recalls_name_nothing() -> None:
    rng = np.random.default_rng(5)
    assert worst_regions(np.ones(100), rng.standard_normal((100, 3)), np.arange(100) % 2, rng=rng) == ()
    assert worst_regions(np.array([0.0, 1.0]), np.eye(2), np.array(["a", "b"]), rng=rng) == ()


@pytest.mark.parametrize("others", [0, 1, 3])
def test_copies_of_a_row_give_no_region_and_no_warning(others: int) -> None:
    """Warnings are errors here."""
    rng = np.random.default_rng(3)
    rows, recall = np.zeros((300, 4)), rng.uniform(size=300)
    for seed in range(3):
        rows[rng.choice(300, others, replace=False)] = rng.standard_normal((others, 4))
        assert worst_regions(recall, rows, rng=np.random.default_rng(seed)) == ()
    two = np.zeros((300, 4))
    two[::3] = 1.0
    assert [region.rows for region in worst_regions(np.where(two[:, 0] > 0, 0.1, 0.9), two, rng=rng)]


def test_rows_whose_source_neighbours_are_not_found_have_low_recall() -> None:
    for kind in ("none", "column"):
        _, row_recall, agreement, _ = world(kind)
        assert roc_auc_score(row_recall < np.median(row_recall), -agreement) > 0.6
