"""Who the rows of a table are, by one rule in every call: a column, an index, obs_names; and what cannot be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from errors import naming
from identifiable import ICA, bilipschitz, compare, deconfound, disentangle, resolve, structural, transform
from identifiable._checks import DataError, PairingError, UsageError
from identifiable.cli import main
from identifiable.representation import Representation, pair

N = 120
RNG = np.random.default_rng(7)
X = RNG.laplace(size=(N, 3)) @ RNG.standard_normal((3, 3))
BARE: dict[str, Any] = {"nulls": (), "intervals": False, "axes": False, "neighbours": 0}
FRAME = pd.DataFrame(X, columns=["u", "v", "w"])
CELLS = [f"cell-{i}" for i in range(N)]
NAMED = FRAME.set_axis(CELLS)
COLUMN = FRAME.assign(cell=CELLS)


def linear_r2(a: Any, b: Any, **how: Any) -> float:
    """What a linear map explains: 1 where each row meets itself."""
    return float(compare(a, b, **BARE, **how).pairs[0].rung("linear").r2.value)


def turned(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[::-1]


@pytest.mark.parametrize(
    ("a", "b", "how"),
    [
        (FRAME, turned(FRAME), {}),
        (NAMED, turned(NAMED), {}),
        (FRAME, FRAME.sample(frac=1, random_state=0), {}),
        (Representation(FRAME), Representation(turned(FRAME)), {}),
        (Representation(NAMED), turned(NAMED), {}),
        (COLUMN, turned(COLUMN).reset_index(drop=True), {"ids": "cell"}),
        (Representation(COLUMN, ids="cell"), turned(NAMED), {}),
        (FRAME.set_index(pd.MultiIndex.from_product([range(12), range(10)])),) * 2 + ({},),
        (
            FRAME.set_index(pd.date_range("2020", periods=N)),
            turned(FRAME.set_index(pd.date_range("2020", periods=N))),
            {},
        ),
    ],
    ids=["counted", "named", "shuffled", "wrapped", "one wrapped", "column", "column and index", "levels", "dates"],
)
def test_rows_of_frames_find_each_other(a, b, how):
    assert linear_r2(a, b, **how) > 0.999
    assert not [alert for alert in compare(a, b, **BARE, **how).alerts if alert.code == "paired_by_position"]


def test_without_labels_rows_meet_by_position_and_it_is_said():
    assert linear_r2(FRAME, turned(FRAME).to_numpy()) < 0.5
    assert linear_r2(FRAME, turned(FRAME).reset_index(drop=True)) < 0.5
    assert "paired_by_position" in [alert.code for alert in compare(FRAME, X, **BARE).alerts]


def test_rows_that_one_frame_lacks_are_dropped_and_counted():
    result = compare(FRAME, FRAME[10:], **BARE)
    assert (result.pairs[0].n, result.pairs[0].dropped) == (N - 10, 10)


def test_an_index_beside_an_array_is_half_a_join():
    with pytest.raises(PairingError, match=r"\ba\b.*\bb\b.*to_numpy"):
        compare(NAMED, X, **BARE)
    assert linear_r2(NAMED.to_numpy(), X) > 0.999


def test_an_index_that_names_rows_twice_is_refused_where_rows_are_joined():
    twice = FRAME.set_axis([0, 0, *range(2, N)])
    with pytest.raises(PairingError, match="a: 1 "):
        compare(twice, twice, **BARE)
    assert resolve(twice, stability=0).result.inputs[0].n == N


@pytest.mark.parametrize("index", [np.linspace(0, 1, N), [True, False] * (N // 2)])
def test_an_index_of_neither_text_nor_integers_is_refused(index):
    with pytest.raises(PairingError, match=r"float64|bool"):
        compare(FRAME.set_axis(index), FRAME, **BARE)


def test_columns_without_numbers_are_named_unless_they_are_the_ids():
    table = COLUMN.assign(kind=pd.Categorical(["p", "q"] * (N // 2)))
    with pytest.raises(DataError, match=naming("a: ", 2, "cell, kind")):
        compare(table, table, **BARE)
    with pytest.raises(DataError, match=r"1 .*\(kind\)"):
        compare(table, table, ids="cell", **BARE)
    assert compare(table.drop(columns="kind"), COLUMN, ids="cell", **BARE).inputs[0].d == 3


def test_ids_must_be_a_column():
    with pytest.raises(DataError, match=naming("'absent'", *COLUMN.columns)):
        compare(COLUMN, COLUMN, ids="absent", **BARE)
    with pytest.raises(DataError, match="'cell'"):
        compare(X, X, ids="cell", **BARE)
    with pytest.raises(DataError, match="several columns 'u'"):
        Representation(FRAME.set_axis(["u", "u", "w"], axis=1), ids="u")


def test_columns_of_every_number_type_of_pandas_are_read():
    table = pd.DataFrame({"b": [True, False], "i": pd.array([1, None], dtype="Int64"), "f": np.float32([0.5, 1])})
    read = Representation(table).values
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, [[1, 1, 0.5], [0, np.nan, 1]])
    assert Representation(FRAME.astype("float32")).values.dtype == np.float32


# -- the other calls


def test_structural_and_joint_resolve_join_on_the_index():
    assert structural(NAMED, turned(NAMED), **BARE).pairs[0].rung("linear").r2.value > 0.999
    assert [i.name for i in structural(FRAME, turned(FRAME), **BARE).inputs] == ["representation", "sources"]
    joint = resolve(NAMED, turned(NAMED), stability=0)
    assert min(match.correlation for match in joint.result.matches) > 0.999
    by_place = resolve(NAMED.to_numpy(), turned(NAMED).to_numpy(), stability=0)
    assert max(match.correlation for match in by_place.result.matches) < 0.9


def test_disentangle_joins_on_the_index_or_on_a_column():
    S = np.random.default_rng(0).integers(0, 4, size=(N, 2))
    latents = pd.DataFrame(S + 0.01 * X[:, :2]).set_axis(CELLS)
    factors = pd.DataFrame(S, columns=["p", "q"]).set_axis(CELLS)
    right = disentangle(latents, factors, metrics=["mig"]).metrics["mig"].mig
    assert disentangle(latents, turned(factors), metrics=["mig"]).metrics["mig"].mig == right
    with_column = turned(factors).reset_index(names="cell")
    held = disentangle(latents.reset_index(names="cell"), with_column, ids="cell", metrics=["mig"])
    assert held.metrics["mig"].mig == right
    assert [f.name for f in held.factors] == ["p", "q"]
    by_place = disentangle(latents.to_numpy(), turned(factors).to_numpy(), metrics=["mig"])
    assert by_place.metrics["mig"].mig < right / 2


def test_transform_and_bilipschitz_leave_the_ids_out_of_the_values(tmp_path):
    basis = resolve(FRAME, stability=0)
    np.testing.assert_array_equal(transform(basis, COLUMN, ids="cell"), transform(basis, FRAME))
    with np.load(transform(basis, NAMED, tmp_path / "z.npz")) as kept:
        assert kept["ids"].tolist() == CELLS
    assert bilipschitz(lambda z, v: 2 * v, COLUMN, ids="cell").latents == 3
    with pytest.raises(DataError, match="cell"):
        transform(basis, COLUMN)


def test_a_screen_takes_the_same_index():
    wells = pd.DataFrame(X, columns=["feature_1", "feature_2", "feature_3"])
    wells = wells.assign(plate=np.repeat(["p", "q"], N // 2), treatment=["DMSO", "x"] * (N // 2))
    assert deconfound.screen(turned(wells), control="DMSO", well="none").representation.ids[0] == N - 1
    assert deconfound.screen(wells, control="DMSO", well="none").representation.ids is None
    named = wells.assign(cell=CELLS)
    assert deconfound.screen(named, control="DMSO", well="none", ids="cell").representation.ids[1] == "cell-1"


# -- AnnData, polars, torch


def test_obs_names_are_ids():
    anndata = pytest.importorskip("anndata", reason="AnnData is an extra")
    a = anndata.AnnData(X.copy(), obs=pd.DataFrame({"cell": CELLS}, index=[f"s{i}" for i in range(N)]))
    assert linear_r2(a, a[::-1].copy()) > 0.999
    assert linear_r2(a, turned(NAMED), ids=["cell", None]) > 0.999
    counted = anndata.AnnData(X.copy())
    assert linear_r2(counted, counted[::-1].copy()) > 0.999
    assert linear_r2(counted, turned(FRAME).to_numpy()) < 0.5
    with pytest.raises(DataError, match="csr_matrix"):
        compare(anndata.AnnData(csr_matrix(X)), a, **BARE)


def test_polars_frames_have_the_ids_of_a_column():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    a = polars.DataFrame({**{name: FRAME[name].to_numpy() for name in "uvw"}, "cell": CELLS})
    assert linear_r2(a, a.reverse(), ids="cell") > 0.999
    assert linear_r2(a.drop("cell"), a.drop("cell").reverse()) < 0.5
    with pytest.raises(DataError, match=r"\(cell\)"):
        compare(a, a, **BARE)
    gapped = polars.DataFrame({"b": [True, False], "i": [1, None], "f": [0.5, 1.0]})
    np.testing.assert_array_equal(Representation(gapped).values, [[1, 1, 0.5], [0, np.nan, 1]])
    wells = a.with_columns(
        plate=polars.Series(["p", "q"] * (N // 2)), treatment=polars.Series(["DMSO"] * 60 + ["x"] * 60)
    )
    assert deconfound.screen(wells, control="DMSO", well="none", ids="cell", features="u,v,w").representation.d == 3


def test_bfloat16_tensors_are_read_as_float32_exactly():
    torch = pytest.importorskip("torch")
    half = torch.tensor(X).bfloat16()
    result = compare(half, half.float(), **BARE)
    assert [i.dtype for i in result.inputs] == ["float32", "float32"]
    assert result.inputs[0].sha256 == result.inputs[1].sha256
    np.testing.assert_array_equal(Representation(half).values, half.double().numpy())
    np.testing.assert_array_equal(ICA().fit(half).transform(half), ICA().fit(half.float()).transform(half.float()))
    assert Representation(torch.tensor(X)).values.dtype == np.float64


# -- names and groups


def test_names_are_those_of_the_tables(tmp_path):
    result = compare(X, X + 1, X * 2, names=["before", "after", "a"], **BARE)
    assert [i.name for i in result.inputs] == ["before", "after", "a"]
    assert [i.name for i in structural(X, X, names=("Z", "U"), **BARE).inputs] == ["Z", "U"]
    assert resolve(X, names=["run"], stability=0).result.inputs[0].name == "run"
    for k in (1, 2):
        np.save(tmp_path / f"{k}.npy", X * k)
    paths = [str(tmp_path / "1.npy"), str(tmp_path / "2.npy")]
    out = tmp_path / "out.json"
    assert main(["compare", *paths, "--names", "old,new", "--quiet", "--json", str(out)]) == 0
    assert "--names old,new" in out.read_text()
    assert '"name": "old"' in out.read_text()
    assert (
        main(
            [
                "resolve",
                *paths,
                "--names",
                "old,new",
                "--stability",
                "0",
                "--quiet",
                "-o",
                f"{tmp_path}/{{name}}.safetensors",
            ]
        )
        == 0
    )
    assert (tmp_path / "new.safetensors").exists()


@pytest.mark.parametrize("names", [["one"], ["a", "a"], "a,b,c"])
def test_names_are_different_and_one_for_each_table(names):
    with pytest.raises(UsageError, match=r"names: .* 2 "):
        compare(X, X, names=names, **BARE)


@pytest.mark.parametrize("groups", ["rigid", "rigid,linear", ["linear", "rigid"]])
def test_groups_may_be_one_text(groups):
    found = [rung.group for rung in compare(X, X, groups=groups, **BARE).rungs]
    assert found == (["rigid"] if groups == "rigid" else ["rigid", "linear"])


def test_a_group_that_does_not_exist_is_refused_by_name():
    with pytest.raises(UsageError, match=r"^groups 'rigit'"):
        compare(X, X, groups="linear,rigit", **BARE)


def test_pairing_by_hand_follows_the_same_rule():
    two = pd.DataFrame({"x": [1.0, 2.0]})
    join = pair(Representation(two), Representation(two.iloc[::-1], name="b"))
    assert join.rows[1].tolist() == [1, 0]
    assert pair(Representation(two), Representation(two, name="b")).ids is None
    assert Representation(two).ids is None
