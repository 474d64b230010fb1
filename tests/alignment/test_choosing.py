"""Choosing a map by recall: what wins, ties, and what the options leave."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from identifiable._checks import UsageError
from identifiable.alignment import choosing
from identifiable.alignment.choosing import Sample, choose, chosen_map, fitted, place_weights
from identifiable.groups import haar_rotation
from identifiable.moments import Moments
from identifiable.options import MapOptions
from identifiable.representation import Representation
from identifiable.run import Run

N, D = 240, 6
ONE = Run(workers=1)


def views(kind, seed=0, n=N):
    """Two views of the same rows, and how one follows from the other."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * np.linspace(2, 0.7, D)
    noise = 1e-5 * rng.standard_normal((n, D))  # so that every group that holds the map finds the same rows
    if kind == "signed_permutation":
        return X, X[:, rng.permutation(D)] * rng.choice([-1, 1], D) + noise
    if kind == "rigid":
        return X, X @ haar_rotation(D, rng) + noise + 1
    if kind == "similarity":
        return X, 4 * (X @ haar_rotation(D, rng) + noise) + 1
    return X, X @ haar_rotation(D, rng) * np.array([5, 3, 1, 1, 0.3, 0.2]) + noise


def parts_and_sample(X, Y, folds=4):
    fold = np.arange(len(X)) % folds
    both = np.hstack([X, Y])
    parts = [Moments.of(both[fold == k], (X.shape[1], Y.shape[1])) for k in range(folds)]
    return parts, Sample(X, Y, fold, Y, np.arange(len(X)))


@pytest.mark.parametrize("kind", ["signed_permutation", "rigid", "similarity", "linear"])
def test_the_group_that_made_the_rows_is_chosen(kind):
    X, Y = views(kind)
    parts, sample = parts_and_sample(X, Y)
    choice = choose(parts, sample, MapOptions(), ONE)
    assert choice.group == kind
    assert (choice.queries, choice.index) == (N, N)
    assert [c.family for c in choice.tried if c.chosen] == [choice.family]
    best = max(c.score for c in choice.tried)
    own = next(c for c in choice.tried if c.chosen)
    assert own.score >= best - 0.5 * own.standard_error
    assert own.r2 > 0.9
    by = fitted(reduce(Moments.merge, parts), choice)
    assert np.mean((by(X) - Y) ** 2) < 0.05 * Y.var()


def test_a_smaller_group_wins_a_tie_and_says_so(monkeypatch):
    X, Y = views("similarity")
    Y += 0.3 * np.random.default_rng(5).standard_normal(Y.shape)
    monkeypatch.setattr(choosing, "TIE", 1e9)  # all tie
    choice = choose(*parts_and_sample(X, Y), MapOptions(), ONE)
    scores = {c.family: c.score for c in choice.tried}
    assert choice.family == "signed_permutation"
    assert choice.why.code == "smaller_group_ties"
    values = choice.why.values
    assert values["gap"] == pytest.approx(max(scores.values()) - scores["signed_permutation"])
    assert scores[values["best"]] == max(scores.values())
    monkeypatch.setattr(choosing, "TIE", 0)
    choice = choose(*parts_and_sample(X, Y), MapOptions(), ONE)
    scores = {c.family: c.score for c in choice.tried}
    assert scores[choice.family] == max(scores.values())
    assert choice.why.code == "highest_recall"
    assert choice.why.values["gain"] == pytest.approx(scores[choice.family] - scores[choice.why.values["second"]])


def test_a_larger_group_that_finds_more_is_not_a_tie():
    X, Y = views("linear")
    choice = choose(*parts_and_sample(X, Y), MapOptions(), ONE)
    scores = {c.family: c.score for c in choice.tried}
    assert scores[choice.family] > scores["similarity"] + 0.05


def test_recall_of_a_candidate_is_that_of_held_out_maps():
    X, Y = views("linear")
    parts, sample = parts_and_sample(X, Y)
    choice = choose(parts, sample, MapOptions(group="rigid"), ONE)
    found = np.empty_like(Y)
    for k in range(4):
        rest = reduce(Moments.merge, [p for i, p in enumerate(parts) if i != k])
        found[sample.fold == k] = choosing.Paths(rest).map("rigid")(X[sample.fold == k])
    unit = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    lists = []
    for rows in (Y, found):
        scores = rows @ unit.T
        np.fill_diagonal(scores, -np.inf)
        lists.append(np.argsort(-scores, axis=1)[:, :10])
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*lists, strict=True)])
    assert next(c for c in choice.tried if c.family == "rigid").recall_10 == pytest.approx(recall)


def test_few_rows_count_the_nearest_more():
    assert place_weights(2000).tolist() == [1.0] * 10
    for rows in (2, 20, 150, 999, 1999):
        weights = place_weights(rows)
        assert weights[0] == 1
        assert (np.diff(weights) < 0).all()
        assert len(weights) < rows
    near, even = (place_weights(rows)[1] for rows in (250, 20))
    assert near < 0.6 < 0.9 < even


@pytest.mark.parametrize(
    "options", [MapOptions(ridge=0.5), MapOptions(group="signed_permutation"), MapOptions(rank=2, ridge=0.0)]
)
def test_one_family_that_the_options_leave_is_chosen_without_others(options):
    X, Y = views("rigid", n=60)
    choice = choose(*parts_and_sample(X, Y), options, ONE)
    assert len(choice.tried) == 1
    assert choice.why.code == "only_family"
    assert choice.rank == options.rank
    assert choice.penalty in (None, options.ridge)


def test_shuffled_pairs_find_no_more_than_chance():
    X, Y = views("rigid")
    shuffled = Y[np.random.default_rng(1).permutation(N)]
    assert choose(*parts_and_sample(X, Y), MapOptions(group="rigid"), ONE).tried[0].recall_10 > 0.8
    assert choose(*parts_and_sample(X, shuffled), MapOptions(), ONE).tried[0].recall_10 < 0.15


def test_workers_and_wide_tables(monkeypatch):
    X, Y = views("linear", n=80)
    parts, sample = parts_and_sample(X, Y)
    one, two = (choose(parts, sample, MapOptions(), Run(workers=k)) for k in (1, 2))
    assert one == two
    monkeypatch.setattr(choosing, "WIDE", 4)
    fewer = choose(parts, sample, MapOptions(), ONE)
    assert (fewer.queries, one.queries) == (40, 80)


def test_an_index_of_one_row_is_refused():
    X, Y = views("rigid", n=40)
    parts, sample = parts_and_sample(X, Y)
    with pytest.raises(UsageError, match="1 rows"):
        choose(parts, Sample(X[:1], Y[:1], sample.fold[:1], Y[:1], np.arange(1)), MapOptions(), ONE)


def test_rows_are_joined_by_id_and_divided_by_their_length():
    X, Y = views("rigid", n=80)
    ids = np.array([f"r{i}" for i in range(80)])
    order = np.random.default_rng(0).permutation(80)
    straight, _ = chosen_map(Representation(X, ids), Representation(Y, ids), MapOptions(group="rigid"), ONE)
    mixed, _ = chosen_map(Representation(X, ids), Representation(Y[order], ids[order]), MapOptions(group="rigid"), ONE)
    np.testing.assert_allclose(mixed.map.matrix, straight.map.matrix, atol=1e-9)
    unit, _ = chosen_map(Representation(X), Representation(Y), MapOptions(group="rigid", normalize=True), ONE)
    mapped = unit.carrier()(3 * X)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 1)
    np.testing.assert_allclose(mapped, unit.carrier()(X))


@pytest.mark.parametrize(("noise", "found"), [(0.0, 0.75), (0.5, 0.1)])
def test_as_many_rows_as_columns_are_no_trap(noise, found):
    """Folds have fewer rows than columns and the refit has as many: with noise, no penalty would be the worst one."""
    rng = np.random.default_rng(100)
    d = 40
    X = rng.standard_normal((600, d)) @ haar_rotation(d, rng)
    Y = X @ (haar_rotation(d, rng) * np.logspace(0, -2, d))
    Y += noise * Y.std() * rng.standard_normal(Y.shape)
    parts, sample = parts_and_sample(X[:d], Y[:d])
    choice = choose(parts, sample, MapOptions(group="linear"), ONE)
    by = fitted(reduce(Moments.merge, parts), choice)
    plain = fitted(reduce(Moments.merge, parts), replace(choice, penalty=0.0))
    r2, without = (
        1 - np.square(Y[d:] - map_(X[d:])).sum() / np.square(Y[d:] - Y[:d].mean(axis=0)).sum() for map_ in (by, plain)
    )
    assert r2 > found
    if noise:
        assert r2 > without + 0.2
        assert choice.penalty > 0
