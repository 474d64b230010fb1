"""Maps between representations: kept in a file, applied to rows, given to others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders import make_alignment
from commands import run
from identifiable import AffineMap, Aligned, DataError, Representation, UsageError, load_basis, save_basis, transform
from identifiable._checks import OutputError
from identifiable.alignment import Reach, inverse_of, unit
from identifiable.api.transforming import LOOKED_AT, apply_basis
from identifiable.moments import Moments

SEED = 20240623
D, WIDER = 6, 8


def rows(n: int, seed: int = SEED) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) * np.logspace(0, -1, D) + 3


def aligned(width: int = D, *, normalize: bool = False, columns: bool = False) -> Aligned:
    fitted = unit(rows(400)) if normalize else rows(400)
    rng = np.random.default_rng(SEED + 1)
    by = AffineMap(rng.standard_normal((D, width)), rng.standard_normal(width))
    names = [tuple(f"{letter}{j}" for j in range(d)) if columns else None for letter, d in (("a", D), ("b", width))]
    return Aligned(
        by,
        inverse_of(by, normalize=normalize),
        Reach.of(Moments.of(fitted), fitted),
        make_alignment(widths=(D, width)),
        normalize,
        *names,
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return aligned(WIDER, columns=True).save(tmp_path / "map.safetensors")


# -- the file


@pytest.mark.parametrize(
    "kept",
    [
        aligned(),
        aligned(WIDER, columns=True),
        aligned(3),
        aligned(normalize=True),
        replace(aligned(), result=None),
    ],
    ids=["square", "wider", "narrower", "normalised", "of an estimator"],
)
def test_a_map_comes_back_bit_for_bit(kept: Aligned, tmp_path: Path) -> None:
    found = Aligned.load(kept.save(tmp_path / "map.safetensors"))
    for name in ("map", "back"):
        one, other = getattr(found, name), getattr(kept, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.matrix.tobytes() == other.matrix.tobytes()
            assert one.offset.tobytes() == other.offset.tobytes()
    assert found.reach.whitener.tobytes() == kept.reach.whitener.tobytes()
    assert found.reach.limit == kept.reach.limit
    assert (found.normalize, found.columns, found.target_columns) == (kept.normalize, kept.columns, kept.target_columns)
    assert found.result == kept.result
    assert (tmp_path / "map.safetensors").read_bytes() == found.save(tmp_path / "again.safetensors").read_bytes()


def test_a_byte_that_changed_anywhere_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(content), 40):
        saved.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DataError, match=saved.name) as error:
            load_basis(saved)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=saved.name):
        load_basis(saved)


BAD: dict[str, Any] = {
    "a map of other widths": lambda a: replace(a, map=AffineMap(np.eye(D), np.zeros(D))),
    "an inverse of other widths": lambda a: replace(a, back=AffineMap(np.eye(D), np.zeros(D))),
    "a reach of another table": lambda a: replace(a, reach=Reach(np.zeros(3), np.eye(3), 1.0)),
    "an infinite limit": lambda a: replace(a, reach=replace(a.reach, limit=np.inf)),
    "too few names": lambda a: replace(a, columns=("a",)),
    "another result": lambda a: replace(a, result=make_alignment(widths=(D, D))),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_a_map_that_contradicts_itself_is_not_saved(change: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="again"):
        save_basis(tmp_path / "map.safetensors", change(aligned(WIDER)))
    assert not list(tmp_path.iterdir())


def test_load_wants_a_map(tmp_path: Path) -> None:
    from identifiable import resolve

    basis = resolve(rows(100)[:, :2], stability=0, restarts=1)
    save_basis(tmp_path / "basis.safetensors", basis)
    with pytest.raises(UsageError, match="Resolved"):
        Aligned.load(tmp_path / "basis.safetensors")


# -- transform


def test_rows_are_mapped_alike_whatever_the_container_and_the_blocks(saved: Path, tmp_path: Path) -> None:
    found, X = Aligned.load(saved), rows(3000).astype(np.float32)
    expected = found.map(X)
    whole = found.transform(Representation(X, columns=found.columns))
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, expected, rtol=2e-6, atol=2e-6)
    np.save(tmp_path / "X.npy", X)
    with pytest.warns(match="columns_not_checked"):
        transform(found, tmp_path / "X.npy", tmp_path / "Y.npy", blocks=7)
    assert np.load(tmp_path / "Y.npy").tobytes() == whole.tobytes()
    double = found.transform(Representation(X, columns=found.columns), dtype="float64")
    np.testing.assert_allclose(double, expected, rtol=1e-12, atol=1e-12)


def test_columns_are_found_by_name_and_ids_go_along(saved: Path, tmp_path: Path) -> None:
    found, X = Aligned.load(saved), rows(30)
    frame = pd.DataFrame(X, columns=list(found.columns or ()), index=[f"r{i}" for i in range(30)])
    transform(saved, frame[frame.columns[::-1]], tmp_path / "Y.parquet")
    written = pd.read_parquet(tmp_path / "Y.parquet")
    assert list(written.columns) == ["id", *(found.target_columns or ())]
    assert written["id"].tolist() == frame.index.tolist()
    np.testing.assert_allclose(written.drop(columns="id"), found.map(X), rtol=1e-12)
    with pytest.raises(DataError, match="a0"):
        transform(saved, frame.drop(columns="a0"))


def test_the_inverse_undoes_the_map_where_there_is_one() -> None:
    X = rows(50)
    for width in (D, WIDER):
        found = aligned(width)
        np.testing.assert_allclose(found.inverse_transform(found.transform(X)), X, rtol=1e-9)
    for found in (aligned(3), aligned(normalize=True)):
        assert found.back is None
        with pytest.raises(UsageError, match=r"inverse.*align"):
            found.inverse_transform(found.transform(X))
    singular = AffineMap(np.diag([1.0, 1e-9]), np.zeros(2))
    assert inverse_of(singular) is None


def test_normalised_rows_have_length_one_before_and_after() -> None:
    found, X = aligned(normalize=True), rows(20)
    mapped = found.transform(X)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 1)
    np.testing.assert_allclose(found.transform(7 * X), mapped)
    np.testing.assert_allclose(mapped, unit(found.map(unit(X))))
    assert not np.isnan(found.carrier()(np.zeros((1, D)))).any()


def outside(found: Aligned, X: Any, **named: Any) -> list[Any]:
    return [alert.values for alert in apply_basis(found, X, **named).alerts if alert.code == "rows_outside"]


def test_rows_unlike_those_of_the_fit_are_counted_and_named(tmp_path: Path) -> None:
    found, X = aligned(), rows(500, SEED + 5)
    assert not outside(found, X)
    X[20:60] = X[20:60] * [1, 1, 1, 1, 1, -1] + 20
    (told,) = outside(found, Representation(X, ids=[f"r{i}" for i in range(500)]), flags=tmp_path / "flags.csv")
    assert 40 <= told["rows"] <= 60
    assert all(name.startswith("r") for name in told["first"])
    assert "target" not in told
    flags = pd.read_csv(tmp_path / "flags.csv")
    assert list(flags.columns) == ["id", "outside", "leverage"]
    assert flags["outside"].sum() == told["rows"]
    assert flags["outside"][20:60].all()
    np.testing.assert_allclose(flags["leverage"], found.leverage(X), rtol=1e-5)
    (all_of_them,) = outside(found, X + 50)
    assert all_of_them["share"] == 1
    assert all_of_them["target"] == "new"  # perhaps they are rows of the other model


def test_of_many_rows_some_are_looked_at(tmp_path: Path) -> None:
    found, X = aligned(), rows(9000, SEED + 6) + 50
    (told,) = outside(found, X)
    assert abs(told["looked_at"] - LOOKED_AT) < 200
    (every,) = outside(found, X, flags=tmp_path / "flags.parquet")
    assert every["looked_at"] == 9000
    assert list(pd.read_parquet(tmp_path / "flags.parquet").columns) == ["row", "outside", "leverage"]


@pytest.mark.parametrize("n", [4, 12, 400])  # fewer rows than columns, few, many
def test_about_one_row_in_a_hundred_like_those_of_the_fit_is_outside(n: int) -> None:
    fitted = rows(n, SEED + 7)
    reach = Reach.of(Moments.of(fitted), fitted)
    assert np.mean(reach.leverage(rows(4000, SEED + 8)) > reach.limit) < (0.03 if n == 400 else 0.3)
    assert np.mean(reach.leverage(rows(4000, SEED + 8) + 30) > reach.limit) == 1


def test_flags_are_of_a_map_and_not_of_its_inverse(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="flags"):
        transform(aligned(), rows(10), flags=tmp_path / "f.csv", inverse=True)
    with pytest.raises(UsageError, match="only_identifiable"):
        transform(aligned(), rows(10), only_identifiable=True)


def test_a_file_called_like_the_target_is_not_known_to_be_of_the_source(tmp_path: Path) -> None:
    found = aligned()
    for name, said in (("other", 0), (found.source, 0), (found.target, 1)):
        np.save(tmp_path / f"{name}.npy", rows(10))
        alerts = apply_basis(found, tmp_path / f"{name}.npy").alerts
        told = [alert for alert in alerts if alert.code == "columns_not_checked"]
        assert [(alert.values["basis"], alert.values["other"]) for alert in told] == [
            (found.source, found.target)
        ] * said


def test_what_is_mistyped_is_one_line_that_says_what_to_type(saved: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Aligned.load(saved)
    for name, table in (("a", rows(20)), ("b", rows(20) @ np.ones((D, WIDER))), ("c", rows(20)[:, :2])):
        np.save(f"{name}.npy", table)
    spoiled = rows(20)
    spoiled[7, 2] = np.nan
    np.save("nan.npy", spoiled)
    for words, parts in (
        (("a.npy", "map.safetensors"), ("transform map.safetensors a.npy",)),
        (("map.safetensors", "b.npy"), (f"{D} columns", f"got {WIDER}", "--inverse")),
        (("map.safetensors", "c.npy"), (f"{D} columns", "got 2")),
        (("map.safetensors", "a.npy", "--inverse"), (f"{WIDER} columns", "leave inverse out")),
        (("map.safetensors", "nan.npy"), ("1 NaN", "7")),
        (("a.npy", "c.npy"), ("a.npy",)),
    ):
        code, out, err = run("transform", *words, "-o", "Y.npy", capsys=capsys)
        assert code in (2, 3)
        assert not out
        assert err.count("\n") == 1
        assert all(part in err for part in parts), err
    assert not Path("Y.npy").exists()
    code, out, err = run("transform", "map.safetensors", "a.npy", "-o", "Y.npy", "--flags", "f.csv", capsys=capsys)
    assert (code, out.splitlines()[1:]) == (0, [f"20 x {WIDER}: Y.npy"])
    assert all(part in out.splitlines()[0] for part in (kept.source, kept.target, "a.npy"))
    assert Path("f.csv").exists()


# -- out to others


def test_matrix_and_offset_as_npz(tmp_path: Path) -> None:
    found, X = aligned(), rows(5)
    kept = np.load(found.save_npz(tmp_path / "map.npz"), allow_pickle=False)
    np.testing.assert_array_equal(X @ kept["matrix"] + kept["offset"], found.map(X))


def test_what_a_matrix_and_an_offset_cannot_say_is_not_written_as_such(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="to_torch"):
        aligned(normalize=True).save_npz(tmp_path / "map.npz")
    with pytest.raises(OutputError, match="npz"):
        aligned().save_npz(tmp_path / "map.txt")


def test_rows_infinitely_far_are_outside() -> None:
    with pytest.warns(UserWarning, match="rows_outside"):
        aligned().transform(np.full((20, D), 1e20, np.float32))


@pytest.mark.parametrize("normalize", [False, True])
def test_the_folder_of_sentence_transformers_has_dense_then_normalize(tmp_path: Path, normalize: bool) -> None:
    from safetensors.numpy import load_file

    found = aligned(WIDER, normalize=normalize)
    folder = found.save_sentence_transformers(tmp_path / "modules")
    modules = json.loads((folder / "modules.json").read_text())
    kinds = [module["type"] for module in modules]
    assert kinds[-2:] == ["sentence_transformers.models.Dense", "sentence_transformers.models.Normalize"]
    assert len(kinds) == 2 + normalize
    assert all((folder / module["path"]).is_dir() for module in modules)
    dense = folder / modules[-2]["path"]
    assert json.loads((dense / "config.json").read_text()) == {
        "in_features": D,
        "out_features": WIDER,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    weights = load_file(dense / "model.safetensors")
    assert {name: (w.shape, str(w.dtype)) for name, w in weights.items()} == {
        "linear.weight": ((WIDER, D), "float32"),
        "linear.bias": ((WIDER,), "float32"),
    }
    X = rows(4)
    np.testing.assert_allclose(
        X @ weights["linear.weight"].T + weights["linear.bias"], found.map(X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_the_torch_module_does_what_the_map_does(normalize: bool) -> None:
    torch = pytest.importorskip("torch")
    found, X = aligned(WIDER, normalize=normalize), rows(9)
    with torch.no_grad():
        given = found.to_torch()(torch.from_numpy(X.astype(np.float32))).numpy()
    np.testing.assert_allclose(given, found.transform(X), rtol=1e-4, atol=1e-5)
