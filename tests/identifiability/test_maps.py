"""The fitted maps that a comparison keeps."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from identifiable import AffineMap, compare
from identifiable._checks import UsageError
from identifiable.identifiability import run as run_of_compare
from identifiable.identifiability.ladder import BACKWARD, FORWARD, Ladder
from identifiable.moments import Moments
from identifiable.results import from_json

QUICK = {"nulls": (), "axes": False, "neighbours": 0}


def views(widths=(3, 3), n=300, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.laplace(size=(n, max(widths)))
    return [
        shared[:, :d] @ np.linalg.qr(rng.standard_normal((d, d)))[0] * (1 + i)
        + 0.2 * rng.standard_normal((n, d))
        + 5 * i
        for i, d in enumerate(widths)
    ]


@pytest.mark.parametrize("protocol", ["default", "paper"])
@pytest.mark.parametrize("widths", [(3, 3), (4, 2)])
def test_every_map_makes_the_in_sample_error_of_its_rung(widths, protocol):
    X, Y = views(widths)
    result = compare(X, Y, protocol=protocol, **QUICK)
    for pair, source, target in zip(result.pairs, (X, Y), (Y, X), strict=True):
        for rung in pair.rungs:
            by = pair.map(rung.group)
            assert isinstance(by, AffineMap)
            errors = np.linalg.norm(by(source) - target, axis=1) / pair.scale.rms
            assert errors.mean() == pytest.approx(rung.in_sample.mean, rel=1e-5)
    assert result.pairs[0].map().matrix.tolist() == result.pairs[0].map(result.pairs[0].fitting_group).matrix.tolist()


def test_a_rigid_map_is_the_rotation_that_made_the_other_table():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 3))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    by = compare(X, X @ turn + 2, **QUICK).pair(0).map("rigid")
    np.testing.assert_allclose(by.matrix, turn, atol=1e-9)
    np.testing.assert_allclose(by.offset, 2, atol=1e-9)


def test_pairs_are_found_by_names_and_by_place():
    tables = views((2, 2, 2))
    result = compare(*tables, names=["old", "new", "third"], **QUICK)
    assert result.pair("new", "old").source == "new"
    assert result.pair("old", "third") is result.pair(result.pairs.index(result.pair("old", "third")))
    for wrong in (("old", "old"), ("old", "none"), ("old",), (6,)):
        with pytest.raises(UsageError, match=str(wrong[0])):
            result.pair(*wrong)


def test_maps_stay_out_of_json_and_equality_and_are_pickled():
    result = compare(*views(), **QUICK)
    pair = result.pairs[0]
    again = from_json(result.to_json()).pairs[0]
    assert again == pair
    assert "maps" not in repr(pair)
    with pytest.raises(UsageError, match="JSON"):
        again.map("rigid")
    with pytest.raises(UsageError, match="'none'"):
        pair.map("none")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pair)).map("linear").matrix, pair.map("linear").matrix)


def test_maps_are_not_kept_beyond_their_room(monkeypatch):
    monkeypatch.setattr(run_of_compare, "MAP_BYTES", 100)
    pair = compare(*views(), **QUICK).pairs[0]
    assert pair.maps is None
    with pytest.raises(UsageError, match=f"{pair.source}.*{pair.target}"):
        pair.map("linear")


PARTS = {
    "signed_permutation": {"permutation", "permutation_scales"},
    "rigid": {"rotation", "rotation_yx", "scale_xy", "scale_yx"},
    "similarity": {"rotation", "rotation_yx", "scale_xy", "scale_yx"},
    "linear": {"linear_xy", "linear_yx"},
    "ica": {"ica_xy", "ica_yx"},
}


@pytest.mark.parametrize(
    "asked", [(), *((rung,) for rung in PARTS), ("signed_permutation", "linear"), ("similarity", "ica"), tuple(PARTS)]
)
def test_a_ladder_of_some_rungs_has_their_maps_and_no_others(asked):
    X, Y = views()
    moments = Moments.of(np.hstack([X, Y]), (3, 3))
    given = np.arange(9.0).reshape(3, 3)
    ladder = Ladder.fit(moments, list(PARTS), linear=lambda _: (given, -given), ica=lambda _: (2 * given, -2 * given))
    everything, kept = set().union(*PARTS.values()), set().union(*(PARTS[rung] for rung in asked))
    assert all(getattr(ladder, name) is not None for name in everything)
    only = ladder.only(asked)
    assert {name for name in everything if getattr(only, name) is not None} == kept
    assert all(getattr(only, name) is getattr(ladder, name) for name in (*kept, "mean_x", "mean_y"))
    for rung, parts in PARTS.items():
        for direction in (FORWARD, BACKWARD):
            if parts <= kept:
                np.testing.assert_array_equal(only.map(rung, direction)(X), ladder.map(rung, direction)(X))
            else:
                with pytest.raises(UsageError, match=rung):
                    only.map(rung, direction)
