"""Labels whose rows moved: found where planted, not found where labels say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.identifiability import moved
from identifiable.identifiability.moved import DRAWS, FEWEST_DRAWS, FEWEST_ROWS, LEVEL, MOST_MOVES, moved_groups
from identifiable.moments import Array


def heavy(rng: np.random.Generator, n: int) -> Array:
    """Errors with a long tail, as held-out errors have."""
    return np.exp(rng.standard_normal(n))


def test_planted_labels_are_found_with_their_figures() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abcdefgh"), 50)
    errors = heavy(rng, 400)
    errors[labels == "c"] += 3
    errors[labels == "f"] += 1.5
    found = moved_groups(errors, labels, rng=rng)
    assert [g.label for g in found] == ["c", "f"]
    for g in found:
        own = errors[labels == g.label]
        assert g.rows == 50
        assert g.error == pytest.approx(own.mean())
        assert g.ratio == pytest.approx(own.mean() / errors.mean())
        assert 1 / (1 + DRAWS) <= g.p <= LEVEL


def test_p_is_that_of_the_largest_standardised_mean() -> None:
    rng = np.random.default_rng(1)
    labels = rng.choice(list("abc"), 60)
    errors = heavy(rng, 60) + 0.8 * (labels == "b")

    def z(order: Array) -> Array:
        means = np.array([errors[order == name].mean() for name in "abc"])
        sizes = np.array([np.sum(order == name) for name in "abc"])
        standardised: Array = (means - errors.mean()) / np.sqrt(1 / sizes - 1 / 60)
        return standardised

    draws = np.random.default_rng(5)
    largest = [z(draws.permutation(labels)).max() for _ in range(DRAWS)]
    expected = (1 + sum(value >= z(labels)[1] for value in largest)) / (1 + DRAWS)
    (found,) = moved_groups(errors, labels, rng=np.random.default_rng(5))
    assert found.label == "b"
    assert found.p == pytest.approx(expected, abs=0.04)  # two sets of draws


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_labels_that_say_nothing_are_listed_in_at_most_5_percent(sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "DRAWS", FEWEST_DRAWS)  # the level holds at any number of draws
    rng = np.random.default_rng([2, sizes == "equal"])
    weights = np.full(12, 1 / 12) if sizes == "equal" else np.arange(1, 13) ** 2.0 / np.sum(np.arange(1, 13) ** 2.0)
    found = [bool(moved_groups(heavy(rng, 200), rng.choice(12, 200, p=weights), rng=rng)) for _ in range(300)]
    assert np.mean(found) < 0.09  # 0.05 + 3.2 standard errors
    assert any(found)


def test_lower_errors_are_no_move() -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat(["near", "a", "b", "c"], 100)
    errors = heavy(rng, 400) + 2 * (labels != "near")
    assert "near" not in [g.label for g in moved_groups(errors, labels, rng=rng)]


def test_rows_alike_within_groups_are_no_move_once_groups_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "DRAWS", FEWEST_DRAWS)
    rng = np.random.default_rng(4)
    single, whole = [], []
    for _ in range(120):
        effect = heavy(rng, 30)  # one of 30 plates of 10 rows; each treatment is on three plates
        plate = np.repeat(np.arange(30), 10)
        errors, labels = effect[plate] + 0.1 * rng.standard_normal(300), (plate % 10).astype(str)
        single.append(bool(moved_groups(errors, labels, rng=rng)))
        whole.append(bool(moved_groups(errors, labels, rng=rng, groups=plate)))
    assert np.mean(single) > 0.5
    assert np.mean(whole) < 0.12


def test_labels_within_groups_are_judged_against_their_group() -> None:
    rng = np.random.default_rng(5)
    plate = np.repeat(np.arange(20), 12)
    labels = np.tile(list("abcd"), 60)
    errors = 5 * heavy(rng, 20)[plate] + 0.2 * heavy(rng, 240) + 0.5 * (labels == "d")
    assert not moved_groups(errors, labels, rng=rng)
    assert [g.label for g in moved_groups(errors, labels, rng=rng, groups=plate)] == ["d"]


def test_what_cannot_be_judged_is_not_listed() -> None:
    rng = np.random.default_rng(6)
    errors = np.r_[heavy(rng, 100), np.full(FEWEST_ROWS - 1, 1e6)]
    few = np.r_[np.repeat("a", 50), np.repeat("b", 50), np.repeat("c", FEWEST_ROWS - 1)]
    assert "c" not in [g.label for g in moved_groups(errors, few, rng=rng)]
    assert moved_groups(errors, np.repeat("all", len(errors)), rng=rng) == ()
    assert moved_groups(errors, np.arange(len(errors)), rng=rng) == ()
    assert moved_groups(np.ones(40), np.repeat(["a", "b"], 20), rng=rng) == ()
    plate = np.repeat(np.arange(4), 10)  # each label is one group
    assert moved_groups(plate.astype(float), plate, rng=rng, groups=plate) == ()


def test_long_tables_get_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, labels = np.repeat([2.0, 1.0], 100), np.repeat([0, 1], 100)
    for moves, draws in ((MOST_MOVES, DRAWS), (200 * 50, 39), (1, FEWEST_DRAWS)):
        monkeypatch.setattr(moved, "MOST_MOVES", moves)
        (found,) = moved_groups(errors, labels, rng=np.random.default_rng(7))
        assert (found.label, found.rows, found.p) == ("0", 100, 1 / (1 + draws))


def test_labels_of_several_types_are_told_apart_by_their_text() -> None:
    rng = np.random.default_rng(9)
    labels = np.repeat(np.array([1, "b", 2.5, None], dtype=object), 50)
    errors = heavy(rng, 200)
    errors[50:100] += 3
    assert [g.label for g in moved_groups(errors, labels, rng=rng)] == ["b"]


def test_labels_that_are_unequally_many_in_their_groups_are_judged_against_the_mean_of_the_group() -> None:
    rng = np.random.default_rng(73)
    plate = np.repeat([0, 1], 100)
    labels = np.array(list("d" * 20 + "a" * 80 + "d" * 80 + "a" * 20))
    errors = np.where(plate == 0, 1.0, 9.0) + 0.1 * heavy(rng, 200) + (labels == "d")
    (found,) = moved_groups(errors, labels, rng=rng, groups=plate)
    assert (found.label, found.rows) == ("d", 100)
    same = errors - (labels == "d")  # what is left is the plates', and most of the worse one is d
    assert moved_groups(same, labels, rng=rng, groups=plate) == ()
