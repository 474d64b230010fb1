"""Errors of all rows, and labels that moved, from the tables to the file."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from identifiable import Representation, compare, structural
from identifiable._checks import PairingError, UsageError
from identifiable.cli import main
from identifiable.identifiability.ladder import COLUMNS, FORWARD, ErrorTable, Ladder
from identifiable.moments import Moments
from identifiable.results import from_json
from identifiable.results.serial import plain

QUICK = {"nulls": (), "axes": False, "neighbours": 0}
FLAGS = ("--nulls", "none", "--no-axes", "--neighbours", "0", "--quiet")


def tables(n=240, moved=40, seed=0):
    """A rotation with noise; the first `moved` rows have much more of it. Labels name three parts of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    noise = np.full((n, 1), 0.02)
    noise[:moved] = 0.5
    Y = X @ np.linalg.qr(rng.standard_normal((3, 3)))[0] + noise * rng.standard_normal((n, 3))
    labels = np.array(["moved"] * moved + ["a", "b"] * ((n - moved) // 2))
    return X, Y, labels


def test_row_errors_agree_with_the_summary_of_every_rung():
    X, Y, _ = tables()
    result = compare(X, Y, **QUICK)
    for i, pair in enumerate(result.pairs):
        for rung in pair.rungs:
            rows, errors = result.row_errors(rung.group, pair=i)
            assert rows.tolist() == list(range(240))
            assert errors.mean() == pytest.approx(rung.held_out.mean, rel=1e-5)
            assert errors.max() == pytest.approx(rung.held_out.max, rel=1e-5)
            assert np.quantile(errors, 0.95) == pytest.approx(rung.held_out.q95, rel=1e-5)


def test_row_errors_have_the_ids_and_not_the_order_of_the_file():
    X, Y, _ = tables()
    ids = np.array([f"s{i:03d}" for i in range(len(X))])
    order = np.random.default_rng(1).permutation(len(X))
    result = compare(Representation(X, ids), Representation(Y[order][:-5], ids[order][:-5]), **QUICK)
    names, errors = result.row_errors("similarity")
    assert set(names) == set(ids[order][:-5])
    worst = result.pairs[0].worst[0]
    found = dict(zip(*map(np.ndarray.tolist, result.row_errors(result.pairs[0].fitting_group)), strict=True))
    assert found[worst.row] == pytest.approx(worst.error, rel=1e-5)
    assert len(errors) == 235


def test_row_errors_stay_out_of_json_equality_and_repr():
    X, Y, _ = tables()
    result = compare(X, Y, **QUICK)
    again = from_json(result.to_json())
    assert "row_errors" not in result.to_json()
    assert "row_errors" not in repr(result.pairs[0])
    assert replace(result.pairs[0], row_errors=None) == result.pairs[0]
    assert again.pairs[0].row_errors is None
    with pytest.raises(UsageError, match="JSON"):
        again.row_errors()


def test_row_errors_refuse_groups_and_pairs_that_are_not_there():
    X, Y, _ = tables()
    result = compare(X, Y, groups=["rigid"], **QUICK)
    with pytest.raises(UsageError, match=r"'linear'.*rigid"):
        result.row_errors()
    with pytest.raises(UsageError, match="pair 2"):
        result.row_errors("rigid", pair=2)
    assert len(structural(X, Y, **QUICK).row_errors()[1]) == len(X)


@dataclass(frozen=True)
class Kept:
    here: int
    gone: object = field(default=None, metadata={"json": None})


def test_a_field_can_be_left_out_of_json():
    assert plain(Kept(1, object())) == {"here": 1}


# -- labels


def test_the_label_whose_rows_moved_is_listed_and_others_are_not():
    X, Y, labels = tables()
    for pair in compare(X, Y, labels=labels, **QUICK).pairs:
        assert [g.label for g in pair.moved] == ["moved"]
        assert pair.moved[0].rows == 40
        assert pair.moved[0].ratio > 2
    result = compare(X, Y, labels=labels, **QUICK)
    assert result.settings["labels"] == "labels"
    assert from_json(result.to_json()).pairs[0].moved == result.pairs[0].moved


def test_labels_without_a_difference_list_nothing():
    X, Y, _ = tables(moved=0)
    labels = np.random.default_rng(5).integers(0, 4, len(X))
    assert not any(pair.moved for pair in compare(X, Y, labels=labels, **QUICK).pairs)
    assert compare(X, Y, **QUICK).settings["labels"] is None


def test_labels_may_be_a_column_that_the_first_table_carries():
    X, Y, labels = tables()
    sites = np.array([f"{label}{i // 8}" for i, label in enumerate(labels)])
    carried = Representation(X, name="x", labels={"kind": labels, "site": sites})
    result = compare(carried, Y, labels="kind", group_by="site", **QUICK)
    assert [g.label for g in result.pairs[0].moved] == ["moved"]
    assert (result.settings["labels"], result.settings["group_by"]) == ("kind", "site")


def test_too_few_labels_are_refused():
    X, Y, labels = tables()
    with pytest.raises(PairingError, match=r"labels.*240"):
        compare(X, Y, labels=labels[:-1], **QUICK)


# -- the command


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y, labels = tables()
    ids = np.array([f"s{i:03d}" for i in range(len(X))])
    for name, values in (("a", X), ("b", Y)):
        np.savez(f"{name}.npz", values=values, ids=ids)
    rows = zip(ids[::-1], labels[::-1], strict=True)
    Path("kinds.csv").write_text("id,kind\n" + "".join(f"{i},{k}\n" for i, k in rows), encoding="utf-8")
    return tmp_path


def test_rows_out_writes_every_row_of_every_pair_and_group(files):
    command = ["compare", "a.npz:values", "b.npz:values", "--ids", "ids", "--labels", "kinds.csv:kind", *FLAGS]
    assert main([*command, "--rows-out", "rows.csv", "--json", "r.json"]) == 0
    result = from_json(Path("r.json").read_text(encoding="utf-8"))
    assert [g.label for g in result.pairs[0].moved] == ["moved"]
    with open("rows.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines[:2]] == ["s000", "s001"]
    pair = result.pairs[1]
    column = f"{pair.source}->{pair.target}.similarity"
    found = np.array([float(line[column]) for line in lines])
    assert found.mean() == pytest.approx(pair.rung("similarity").held_out.mean, rel=1e-5)
    assert len(lines[0]) == 1 + 2 * len(pair.rungs)


@pytest.mark.parametrize(("name", "code"), [("rows.txt", 2), ("nowhere/rows.csv", 3), ("kinds.csv", 3)])
def test_rows_out_is_checked_before_the_work_and_leaves_nothing(files, capsys, name, code):
    before = sorted(files.iterdir())
    command = ["compare", "a.npz:values", "b.npz:values", "--ids", "ids", "--labels", "kinds.csv:kind", *FLAGS]
    assert main([*command, "--rows-out", name, "--json", "r.json"]) == code
    assert name in capsys.readouterr().err
    assert sorted(files.iterdir()) == before


def test_errors_of_two_halves_merged_are_those_of_the_whole_and_of_each_rows_own_fold():
    rng = np.random.default_rng(31)
    X = rng.standard_normal((60, 3)) + 2
    Y = X @ rng.standard_normal((3, 3)) + 0.3 * rng.standard_normal((60, 3))
    fold = np.arange(60) % 2
    rungs = ("signed_permutation", "similarity")
    total, *others = (
        Ladder.fit(Moments.of(np.hstack([X, Y])[at], (3, 3)), rungs) for at in (fold >= 0, fold == 1, fold == 0)
    )
    whole, first, later = (ErrorTable(total, others, fold, np.dtype(np.float64)) for _ in range(3))
    whole.add(0, [X, Y])
    first.add(0, [X[:40], Y[:40]])
    later.add(40, [X[40:], Y[40:]])
    largest = first.maxima.copy(), later.maxima.copy()
    first.merge(later)
    np.testing.assert_allclose(first.sums, whole.sums)
    np.testing.assert_allclose(first.maxima, whole.maxima)
    assert np.array_equal(first.maxima, np.fmax(*largest), equal_nan=True)
    assert np.array_equal(first.spread(), whole.spread())
    np.testing.assert_allclose(first.spread()[:, 0], ((X - X.mean(axis=0)) ** 2).sum(axis=1))
    for (rung, direction), at in COLUMNS.items():
        if rung not in rungs:
            continue
        source, target = (X, Y) if direction == FORWARD else (Y, X)
        by_all = np.linalg.norm(total.map(rung, direction)(source) - target, axis=1)
        own = [np.linalg.norm(ladder.map(rung, direction)(source) - target, axis=1) for ladder in others]
        np.testing.assert_allclose(first.column(0, at), by_all, rtol=1e-5)
        np.testing.assert_allclose(first.column(1, at), np.where(fold == 0, *own), rtol=1e-5)
        assert first.sums[1, at] > first.sums[0, at]
        assert first.maxima[1, at] == pytest.approx(np.where(fold == 0, *own).max())
