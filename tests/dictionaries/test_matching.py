"""Two or more dictionaries: what is counted, left out, stable over seeds, and refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import identifiable
from identifiable import DataError, Representation, UsageError, match
from identifiable.dictionaries import matching
from identifiable.dictionaries.assignment import assign
from identifiable.dictionaries.chance import chance

RNG = np.random.default_rng(0)
COMMON = RNG.standard_normal((60, 24))


def seed(shared, rng, noise=0.3):
    """A dictionary of 60 features: the first `shared` common ones with noise, the others its own."""
    rows = rng.standard_normal(COMMON.shape)
    rows[:shared] = COMMON[:shared] + noise * rng.standard_normal((shared, 24))
    return rows


def test_planted_partners_are_counted_beside_chance():
    rng = np.random.default_rng(1)
    found = match(seed(40, rng), seed(40, rng), threshold=0.75)
    pair = found.pairs[0]
    assert (pair.above, pair.above_null, pair.solver, pair.null_features) == (40, 40, "hungarian", (60,))
    assert pair.chance_above < 1
    assert found.text.code == "match_pair"
    assert found.text.values["by_chance"] == pair.chance_above
    assert [score.name for score in pair.scores if score.p <= 0.05] == [score.name for score in pair.scores]
    assert all(score.chance_ci95[0] <= score.chance <= score.chance_ci95[1] < score.value for score in pair.scores)
    assert all(pair.arrays.p[:40] < 0.01)
    assert np.median(pair.arrays.p[40:]) > 0.1


def test_a_few_shared_features_are_found_though_the_mean_is_at_chance():
    rng = np.random.default_rng(2)
    A, B = rng.standard_normal((2, 300, 48))
    B[:4] = A[:4]
    pair = match(A, B, null_draws=3).pairs[0]
    assert pair.main.value - pair.main.chance < 0.02
    assert (pair.above, pair.at_chance) == (4, False)


def test_a_feature_and_its_opposite_match_only_without_sign():
    rng = np.random.default_rng(3)
    signed, unsigned = (match(COMMON, -COMMON[::-1], signed=s, null_draws=1).pairs[0] for s in (True, False))
    assert (signed.above, unsigned.above) == (0, 60)
    assert unsigned.arrays.partner.tolist() == list(range(60))[::-1]
    assert np.allclose(unsigned.arrays.cosine, -1, atol=1e-6)
    assert match(seed(60, rng), COMMON, null_draws=1).pairs[0].signed


def test_opposite_features_are_said_to_match_by_absolute_value():
    found = match(COMMON, -COMMON[::-1], null_draws=3)
    assert [(a.code, a.values["value"]) for a in found.alerts] == [("match_unsigned", pytest.approx(1))]
    for other, signed in (
        (COMMON[::-1] + 0.1, True),
        (-COMMON, False),
        (np.random.default_rng(1).normal(size=(60, 24)), True),
    ):
        assert match(COMMON, other, signed=signed, null_draws=3).alerts == ()


def test_a_finding_without_near_partners_says_so():
    rng = np.random.default_rng(9)
    A = rng.standard_normal((60, 200))
    found = match(A, A + 1.5 * rng.standard_normal(A.shape), null_draws=5)
    assert (found.pairs[0].above, found.pairs[0].at_chance, found.text.code) == (0, False, "match_weak")


def test_dead_features_are_left_out_and_said():
    rows = np.vstack([np.zeros((2, 24)), COMMON])
    found = match(rows, COMMON, null_draws=1)
    assert [(a.code, a.values["dead"], a.values["features"]) for a in found.alerts] == [("dead_features", 2, 62)]
    assert (found.dictionaries[0].features, found.dictionaries[0].dead) == (60, 2)
    assert found.pairs[0].arrays.partner.tolist() == [-1, -1, *range(60)]
    assert found.pairs[0].main.value == pytest.approx(1)
    states = [row["state"] for row in found.matches()]
    assert (states.count("dead"), states.count("matched"), len(states)) == (2, 60, 62)


def test_features_that_are_left_over_are_listed_on_their_side():
    found = match(COMMON[:50], COMMON, null_draws=1)
    rows = list(found.matches())
    left = [row["feature_b"] for row in rows if row["state"] == "unmatched"]
    assert left == list(range(50, 60))
    assert (found.pairs[0].unmatched_first, found.pairs[0].unmatched_second) == (0, 10)


def test_spans_are_compared_where_they_are_not_everything():
    rng = np.random.default_rng(4)
    plane = rng.standard_normal((6, 24))
    same = match(rng.standard_normal((9, 6)) @ plane, rng.standard_normal((9, 6)) @ plane, null_draws=1)
    found = same.pairs[0].subspaces
    assert (found.rank_first, found.rank_second, found.chance) == (6, 6, 0.25)
    assert found.overlap == pytest.approx(1)
    assert found.largest_angle < 0.1
    other = match(rng.standard_normal((6, 24)), plane, null_draws=1).pairs[0].subspaces
    assert other.overlap < 0.6
    assert match(COMMON, COMMON[::-1], null_draws=1).pairs[0].subspaces.overlap is None


def test_stability_and_cycles_over_three_seeds():
    rng = np.random.default_rng(5)
    found = match(*(seed(40, rng) for _ in range(3)), null_draws=5)
    assert [(p.first, p.second) for p in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [d.stability.stable for d in found.dictionaries] == [40, 40, 40]
    assert all(d.stability.mean > d.stability.chance + 0.1 for d in found.dictionaries)
    assert found.held[1].stability[:40].min() > 0.7 > found.held[1].stability[40:].max()
    assert found.cycles.triples == 1
    assert 0.6 <= found.cycles.share <= 0.67
    assert found.cycles.chance < 0.01
    assert found.text.code == "match_several"
    nothing = match(*rng.standard_normal((3, 60, 24)))
    assert nothing.text.code == "match_several_at_chance"
    assert nothing.cycles.share < 0.02


def test_stability_of_every_feature_of_every_dictionary_is_written():
    rng = np.random.default_rng(7)
    found = match(seed(40, rng), seed(40, rng), seed(40, rng)[:50], null_draws=3)
    rows = list(found.matches())
    for name, held in zip("abc", found.held, strict=True):
        said = {row[f"feature_{side}"]: row[f"stability_{side}"] for row in rows for side in "ab" if row[side] == name}
        assert [said[i] for i in range(len(held.names))] == pytest.approx(held.stability.tolist())


def test_chance_of_stability_counts_features_without_a_partner_as_the_value_does():
    rng = np.random.default_rng(8)
    found = match(*(rng.standard_normal((k, 24)) for k in (80, 40, 40)), null_draws=5)
    for each in found.dictionaries:
        assert each.stability.mean == pytest.approx(each.stability.chance, abs=0.02)
    assert found.dictionaries[0].stability.chance < found.dictionaries[1].stability.chance - 0.1


def test_names_of_features_are_ids_or_columns():
    named = Representation(COMMON[:3], ids=["x", "y", "z"])
    rows = list(match(named, COMMON[:5], null_draws=1).matches())
    assert [(row["feature_a"], row["feature_b"]) for row in rows[:3]] == [("x", 0), ("y", 1), ("z", 2)]
    columns = Representation(COMMON[:3].T, columns=("p", "q", "r"))
    turned = match(columns, COMMON, features=["columns", "rows"], null_draws=1)
    assert [row["feature_a"] for row in turned.matches()][:3] == ["p", "q", "r"]


def test_bases_are_matched_by_mixing_directions_whatever_their_sign():
    rng = np.random.default_rng(6)
    S = rng.gamma([0.5, 1.0, 2.0, 3.0], size=(3000, 4))
    X = S @ rng.standard_normal((4, 4))
    first, second = (identifiable.resolve(rows, stability=0, restarts=1) for rows in (X[:1500], X[1500:]))
    found = match(first, second, null_draws=3)
    assert not found.pairs[0].signed
    assert found.dictionaries[0].basis
    assert found.pairs[0].above == 4
    with pytest.raises(UsageError, match=r"from_components\.matrix"):
        match(first, COMMON[:, :4])
    with pytest.raises(UsageError, match=r"features.* 2 "):
        match(first, second, features=["rows", "columns"])


def test_the_same_seed_gives_the_same_result_and_json_keeps_it():
    once, again = (match(COMMON, COMMON[::-1], null_draws=2, seed=s, workers=w) for s, w in ((1, 1), (1, 2)))
    assert once.pairs == again.pairs
    from identifiable.results import from_json

    kept = from_json(once.to_json())
    assert kept.pairs[0].scores[:4] == once.pairs[0].scores[:4]
    with pytest.raises(UsageError, match="--output"):
        list(kept.matches())
    other = match(COMMON, COMMON[::-1], null_draws=2, seed=2)
    assert other.pairs[0].main.chance != once.pairs[0].main.chance


def test_fewer_features_than_dimensions_is_said_of_decoders():
    found = match(COMMON[:5], COMMON[:5], null_draws=1)
    assert [a.code for a in found.alerts] == ["features_as_rows", "identical_inputs"]


def told(found, code):
    return [alert.values for alert in found.alerts if alert.code == code]


def test_dimensions_of_other_names_are_said_and_of_one_name_or_none_are_not():
    names = [tuple(f"{letter}{j}" for j in range(24)) for letter in "pq"]
    one, other = COMMON, COMMON[::-1] + 0.1

    def matched(first, second, **options):
        return match(Representation(one, columns=first), Representation(other, columns=second), null_draws=1, **options)

    assert told(matched(*names), "columns_differ") == [{"first": "a", "second": "b"}]
    for first, second in ((names[0], names[0]), (names[0], None), (None, None)):
        assert told(matched(first, second), "columns_differ") == []
    turned = [
        Representation(table.T, columns=[f"{name}{i}" for i in range(60)])
        for name, table in zip("ab", (one, other), strict=True)
    ]
    assert told(match(*turned, features=["columns"], null_draws=1), "columns_differ") == []  # they name features
    with pytest.raises(DataError, match="a and b"):
        matched(names[0], names[0][::-1])


@pytest.mark.parametrize(("solver", "said"), [("sparse", True), ("hungarian", False)])
def test_an_assignment_from_candidates_is_said(solver, said, monkeypatch):
    """Which solver takes dictionaries of which size is a test of `assign`."""

    def solved(*given):
        return [replace(each, solver=solver) for each in assign(*given)]

    monkeypatch.setattr(matching, "assign", solved)
    found = match(COMMON[:50], COMMON + 0.1, COMMON[:40] - 0.1, null_draws=1)
    assert told(found, "match_from_candidates") == ([{"features": 60}] if said else [])
    assert {pair.solver for pair in found.pairs} == {solver}


@pytest.mark.parametrize(("drawn", "said"), [(54, True), (55, False)])
def test_chance_levels_from_smaller_dictionaries_are_said(drawn, said, monkeypatch):
    monkeypatch.setattr(matching, "chance", partial(chance, drawn=drawn, ladder=(20, 30, 40)))
    found = match(COMMON[:50], COMMON + 0.1, null_draws=4)
    assert told(found, "chance_extrapolated") == ([{"sizes": [20, 30, 40], "features": 60}] if said else [])
    assert found.pairs[0].null_features == ((20, 30, 40) if said else (54,))


WRONG = {
    "one table": ((COMMON,), UsageError, "1"),
    "another width": ((COMMON, COMMON[:, :9]), DataError, r"24\) and \(60, 9\)"),
    "B is turned": ((COMMON, COMMON.T), DataError, "--features rows,columns"),
    "A is turned": ((COMMON.T, COMMON), DataError, "--features columns,rows"),
    "both are turned": ((COMMON.T, COMMON[:, :9].T @ np.ones((60, 70))), DataError, r"\(24, 60\)"),
    "NaN": ((COMMON, np.where(np.arange(60)[:, None] == 7, np.nan, COMMON)), DataError, "1 feature .*7"),
    "infinity": ((np.where(COMMON > 2.5, np.inf, COMMON), COMMON), DataError, "a: "),
    "another width, as many features": ((COMMON[:9], COMMON[:9, :20]), DataError, "24 and 20"),
    "a vector": ((COMMON, COMMON[0]), DataError, r"2: .*\(24,\)"),
    "one row": ((COMMON[:1], COMMON), DataError, "1 of 24"),
    "one live row": ((np.eye(24)[:3] * [[1], [0], [0]] * 1.0, COMMON), DataError, "1 of 24"),
    "masked": ((np.ma.masked_greater(COMMON, 2), COMMON), DataError, "a: masked"),
}


@pytest.mark.parametrize(("given", "kind", "parts"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_matched_is_refused(given, kind, parts):
    with pytest.raises(kind, match=parts):
        match(*given)


def test_more_layouts_than_tables_are_refused():
    with pytest.raises(UsageError, match="features"):
        match(COMMON, COMMON, features=["rows", "rows", "columns"])
