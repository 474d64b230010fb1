"""Factors in files: names and kinds are kept, nothing is unpickled, and what is wrong is said with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from errors import naming
from identifiable._checks import DataError, PairingError
from identifiable.io import open_representation
from identifiable.io.factor_tables import read_factor_table

WORDS = "shape,hue,x\nball,0.25,3\ncube,0.5,1\nball,1.0,2\n"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_words_numbers_and_whole_numbers_keep_their_kinds_and_names(tmp_path: Path) -> None:
    found = read_factor_table(written(tmp_path / "f.csv", WORDS))
    assert found.names == ("shape", "hue", "x")
    assert [c.dtype.kind for c in found.columns] == ["U", "f", "i"]
    assert [c.tolist() for c in found.columns] == [["ball", "cube", "ball"], [0.25, 0.5, 1.0], [3, 1, 2]]
    assert (found.n, found.name, found.stored_dtype, found.ids) == (3, "f", "text", None)


def test_tabs_quotes_and_line_ends_are_read(tmp_path: Path) -> None:
    text = 'shape\tcolour\r\n"a\tball"\tred\r\ncube\t"light ""blue"""\r\n'
    found = read_factor_table(written(tmp_path / "f.tsv", text))
    assert [c.tolist() for c in found.columns] == [["a\tball", "cube"], ["red", 'light "blue"']]


def test_columns_are_chosen_by_names_and_patterns(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", WORDS)
    assert read_factor_table(f"{path}:shape,x").names == ("shape", "x")
    assert read_factor_table(f"{path}:h*").names == ("hue",)
    with pytest.raises(DataError, match=r"column matches 'hues'.*did"):
        read_factor_table(f"{path}:hues")


def test_ids_come_from_their_column_a_named_one_or_another_file(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "id,plate,shape\n7,p,ball\n9,q,cube\n")
    own = read_factor_table(path)
    assert own.ids is not None
    assert own.ids.tolist() == [7, 9]
    assert own.names == ("plate", "shape")
    named = read_factor_table(path, ids="plate")
    assert named.ids is not None
    assert named.ids.tolist() == ["p", "q"]
    assert named.names == ("shape",)  # what looks like ids is no factor
    beside = written(tmp_path / "ids.txt", "a\nb\n")
    found = read_factor_table(path, ids=str(beside)).ids
    assert found is not None
    assert found.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="'nowhere'"):
        read_factor_table(path, ids="nowhere")
    with pytest.raises(PairingError, match=naming("2 rows", "1 ids")):
        read_factor_table(path, ids=str(written(tmp_path / "one.txt", "a\n")))


def test_a_table_of_numbers_without_a_header_has_no_names(tmp_path: Path) -> None:
    found = read_factor_table(written(tmp_path / "f.csv", "0,1.5\n1,2.5\n"))
    assert found.names is None
    assert [c.tolist() for c in found.columns] == [[0, 1], [1.5, 2.5]]


@pytest.mark.parametrize("text", ["ball,red\ncube,blue\nball,red\n", "0,1,2\n0,0,1\n1,1,2\n"])
def test_a_first_line_that_is_a_row_is_not_taken_for_names(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"names.*factors.*1"):
        read_factor_table(written(tmp_path / "f.csv", text))
    assert read_factor_table(written(tmp_path / "f.csv", "a,b\n" + "ball,red\ncube,blue\n")).names == ("a", "b")


@pytest.mark.parametrize(
    ("column", "line", "cell"),
    [
        ("0.5\nNA\n0.7", 3, "1 of 3"),
        ("1\n2\nn/a", 4, "'n/a' is a"),
        ("0.5\n-\nnan", 3, "2 of 3"),
        ("o.5\n0.7\n0.9", 2, "'o.5'"),
    ],
)
def test_a_gap_in_a_column_of_numbers_is_refused_with_file_line_and_column(
    tmp_path: Path, column: str, line: int, cell: str
) -> None:
    path = written(tmp_path / "f.csv", f"hue\n{column}\n")
    with pytest.raises(DataError, match=re.escape(f"{path}: line {line}, column 'hue': ") + f".*{re.escape(cell)}"):
        read_factor_table(path)


@pytest.mark.parametrize("mark", ["NA", "NaN", "nan", "null", "None", "N/A", '""', "  "])
def test_a_gap_in_a_column_of_words_is_refused_or_marked_and_no_class(tmp_path: Path, mark: str) -> None:
    path = written(tmp_path / "f.csv", f"shape,x\nball,1\n{mark},2\ncube,\n{mark},4\n")
    shown = repr(mark) if mark.strip(' "') else "empty"
    with pytest.raises(DataError, match=naming(path, "line 3", "'shape'", shown, 3, 4)):
        read_factor_table(path)
    found = read_factor_table(path, drop_missing=True)
    assert found.gapped.tolist() == [False, True, True, True]
    assert found.missing is not None
    assert found.missing.tolist() == [[False, False], [True, False], [False, True], [True, False]]
    assert [c[~m].tolist() for c, m in zip(found.columns, found.missing.T, strict=True)] == [
        ["ball", "cube"],
        [1, 2, 4],
    ]
    assert set(found.columns[0].tolist()) == {"ball", "cube"}
    whole = read_factor_table(written(path, "shape\nnone\nball\n"), drop_missing=True)
    assert whole.missing is None
    assert whole.gapped.tolist() == [False, False]


def test_a_column_without_any_value_is_refused_even_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"column 'hue':.*value"):
        read_factor_table(written(tmp_path / "f.csv", "shape,hue\nball,NA\ncube,\n"), drop_missing=True)


def test_labels_that_are_partly_numbers_are_words(tmp_path: Path) -> None:
    (column,) = read_factor_table(written(tmp_path / "f.csv", "well\n1\n2\n3a\n")).columns
    assert column.tolist() == ["1", "2", "3a"]
    (column,) = read_factor_table(written(tmp_path / "f.csv", "dose\nnone\nhigh\nnone\n")).columns
    assert column.tolist() == ["none", "high", "none"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shape,hue\nball,\n", "line 2, column 'hue'"),
        ("shape,hue\nball\n", "line 2 has 1"),
        ("shape,hue\n", "rows of factors,"),
        ("id\n1\n", "found only ids"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "f.csv", text)
    with pytest.raises(DataError, match=f"{re.escape(str(path))}: .*{re.escape(message)}"):
        read_factor_table(path)


@pytest.mark.parametrize("values", [[3, 1, 2], [0.5, 0.1, 0.7], ["a", "b", "a"], [b"a", b"b", b"a"]])
def test_a_npy_may_be_one_factor_of_any_kind(tmp_path: Path, values: list[Any]) -> None:
    np.save(tmp_path / "f.npy", np.array(values))
    (column,) = read_factor_table(tmp_path / "f.npy").columns
    assert column.tolist() == [v.decode() if isinstance(v, bytes) else v for v in values]


def test_a_npy_of_several_columns_keeps_its_type(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(6, dtype=np.uint8).reshape(3, 2))
    found = read_factor_table(tmp_path / "f.npy")
    assert [c.tolist() for c in found.columns] == [[0, 2, 4], [1, 3, 5]]
    assert (found.names, found.stored_dtype) == (None, "uint8")
    with pytest.raises(DataError, match="without parts"):
        read_factor_table(f"{tmp_path / 'f.npy'}:part")


def test_a_npz_may_hold_one_array_for_each_factor_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(
        path, shape=np.array(["a", "b"]), hue=np.array([0.1, 0.2]), ids=np.array([5, 6]), picture=np.zeros((2, 3, 3))
    )
    with pytest.raises(DataError, match="one 2-D array"):
        read_factor_table(path)
    found = read_factor_table(f"{path}:shape,hue")
    assert found.names == ("shape", "hue")
    assert found.ids is not None
    assert found.ids.tolist() == [5, 6]
    assert [c.tolist() for c in found.columns] == [["a", "b"], [0.1, 0.2]]
    np.savez(path, shape=np.array(["a", "b"]), hue=np.array([0.1, 0.2]), key=np.array(["x", "y"]))
    assert read_factor_table(path, ids="key").names == ("shape", "hue")
    assert read_factor_table(f"{path}:hue").names == ("hue",)
    with pytest.raises(DataError, match=r"holds.*'size';.*shape"):
        read_factor_table(f"{path}:size")
    np.savez(path, a=np.zeros(3), b=np.zeros(4))
    with pytest.raises(DataError, match=r"\(a 3,.*4\)"):
        read_factor_table(path)


def test_a_safetensors_table_is_read(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"factors": np.arange(6, dtype=np.int32).reshape(3, 2)}, tmp_path / "f.safetensors")
    assert [c.tolist() for c in read_factor_table(tmp_path / "f.safetensors").columns] == [[0, 2, 4], [1, 3, 5]]


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "exploded",)

    words = np.array([Bomb(), Bomb()], dtype=object)
    np.save(tmp_path / "f.npy", words, allow_pickle=True)
    np.savez(tmp_path / "f.npz", allow_pickle=True, f=words)
    for name in ("f.npy", "f.npz"):
        with pytest.raises(DataError, match="never loaded"):
            read_factor_table(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 2, 2)), r"\(2, 2, 2\)"),
        (np.zeros((0, 2)), r"\(0, 2\)"),
        (np.array([b"\xff\xfe", b"a"]), "are not UTF-8"),
        (np.zeros(3, complex), "words, got complex128"),
        (np.array([[0.0, 1.0], [2.0, np.nan]]), "row 1 .*column 2.*1 of 2"),
        (np.array([[0.0, 1.0], [2.0, np.inf]]), "row 1 .*column 2:.*finite"),
        (np.array(["a", "None", "b", ""]), "row 1 .*column 1.*2 of 4"),
    ],
)
def test_arrays_that_are_no_factors_are_refused(tmp_path: Path, values: Any, message: str) -> None:
    np.save(tmp_path / "f.npy", values)
    with pytest.raises(DataError, match=message):
        read_factor_table(tmp_path / "f.npy")


def test_a_text_table_says_what_its_columns_of_latents_are_called(tmp_path: Path) -> None:
    path = written(tmp_path / "z.csv", "id,z0,z1\na,1,2\nb,3,4\n")
    assert open_representation(path).columns == ("z0", "z1")
    assert open_representation(f"{path}:z1").columns == ("z1",)
    assert open_representation(written(tmp_path / "bare.csv", "1,2\n3,4\n")).columns is None
