"""Inputs of a model: read when needed, known by a hash of their content, refused by their place."""

from __future__ import annotations

import json

import numpy as np
import pytest

from errors import naming
from identifiable import DataError
from identifiable.io.inputs import identified, open_inputs


def ids_of(source):
    return identified(open_inputs(source), lambda done: None)[0].tolist()


def test_lines_and_json_lines_and_lists_have_the_same_ids(tmp_path):
    texts = ["one", "zwei ä", " three "]
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\nzwei ä\r\n three \n\n \n".encode())
    (tmp_path / "b.txt").write_text("\n".join(texts))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": t, "other": "x"}) + "\n" for t in texts))
    for name in ("a.txt", "b.txt", "c.jsonl", "c.jsonl:text"):
        found = open_inputs(f"{tmp_path}/{name}")
        assert (found.kind, found.n, found.get([2, 0])) == ("text", 3, [" three ", "one"])
        assert ids_of(f"{tmp_path}/{name}") == ids_of(texts)
    assert ids_of(f"{tmp_path}/c.jsonl:other") != ids_of(texts)


def test_ids_are_hashes_that_do_not_depend_on_the_order():
    texts = [f"text {i % 40}" for i in range(100)]  # some occur twice, some three times
    order = np.random.default_rng(0).permutation(100)
    ids, repeated = identified(open_inputs(texts), lambda done: None)
    assert repeated == 60
    assert (ids >= 0).all()
    assert len(set(ids.tolist())) == 100
    mixed = identified(open_inputs([texts[i] for i in order]), lambda done: None)[0]
    assert sorted(mixed.tolist()) == sorted(ids.tolist())
    by_text = {text: sorted(ids[[i for i, t in enumerate(texts) if t == text]].tolist()) for text in texts}
    shuffled = [texts[i] for i in order]
    assert by_text == {text: sorted(mixed[[i for i, t in enumerate(shuffled) if t == text]].tolist()) for text in texts}
    assert ids_of(texts[:40]) == ids[:40].tolist()  # first occurrences are known by their text alone
    assert ids_of(["a"]) != ids_of(["b"])


@pytest.mark.parametrize("form", ["npy", "npz", "memory"])
def test_arrays_are_read_by_their_places(tmp_path, form):
    values = np.random.default_rng(0).standard_normal((9, 2, 3)).astype(np.float32)
    np.save(tmp_path / "a.npy", values)
    np.savez_compressed(tmp_path / "a.npz", x=values, ids=np.arange(9))
    found = open_inputs({"npy": tmp_path / "a.npy", "npz": tmp_path / "a.npz", "memory": values}[form])
    assert (found.kind, found.n) == ("arrays", 9)
    np.testing.assert_array_equal(found.get([7, 1]), values[[7, 1]])
    assert identified(found, lambda done: None)[0].tolist() == ids_of(values)
    assert ids_of(values.astype(np.float64)) != ids_of(values)


def test_bytes_are_pictures_whatever_axis_has_the_channels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), np.uint8)
    for values in (pixels, np.moveaxis(pixels, -1, 1)):
        found = open_inputs(values)
        assert found.kind == "pictures"
        np.testing.assert_array_equal(np.asarray(found.get([2])[0]), pixels[2])
    grey = open_inputs(pixels[..., 0])
    assert (grey.kind, np.asarray(grey.get([1])[0]).shape) == ("pictures", (6, 5))
    assert open_inputs(np.zeros((3, 4), np.int64)).kind == "tokens"


def test_what_cannot_be_an_input_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text("a\n\nb\n")
    (tmp_path / "latin.txt").write_bytes(b"a\n\xff\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"words": "b"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\nno json\n')
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "none").mkdir()
    np.save("f.npy", np.asfortranarray(np.zeros((3, 4))))
    np.save("nan.npy", np.array([[1.0], [np.nan]]))
    np.save("flat.npy", np.zeros(3))
    np.save("cube.npy", np.zeros((3, 2, 2), np.int64))
    np.savez("two.npz", a=np.zeros((3, 1)), b=np.zeros((3, 1)))
    np.savez("mask.npz", input_ids=np.zeros((3, 2), np.int64), attention_mask=np.ones((3, 1), np.int64))
    for name, parts in {
        "blank.txt": (2,), "latin.txt": (2,), "a.jsonl": (2, "text", "words"), "b.jsonl": (2,), "t.csv": (".csv",),
        "none": ("nothing",), "f.npy": (), "nan.npy": (1,), "flat.npy": ("(3,)",), "cube.npy": ("int64",),
        "two.npz": ("a (3, 1)", "b (3, 1)"), "two.npz:c": (":c", "a (3, 1)"), "mask.npz": ("(3, 1)", "(3, 2)"),
        "blank.txt:x": ("'x'",), "absent.txt": (),
    }.items():  # fmt: skip
        with pytest.raises(DataError, match=naming(name.partition(":")[0], *parts)):
            ids_of(name)
    with pytest.raises(DataError, match=naming(1)):
        ids_of(["a", " "])
    with pytest.raises(DataError, match="inputs"):
        open_inputs([])


def test_half_a_character_is_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "b\\ud800"}\n')
    with pytest.raises(DataError, match=naming("a.jsonl", "line 2")):
        ids_of(f"{tmp_path}/a.jsonl")
    with pytest.raises(DataError, match=naming("texts", 1)):
        ids_of(["one", "b\ud800"])


def test_a_mask_is_numbers(tmp_path):
    ids = np.arange(6).reshape(2, 3)
    np.savez(tmp_path / "a.npz", ids=[1, 2], x=ids, attention_mask=ids > 0)
    assert [row.tolist() for row in open_inputs(f"{tmp_path}/a.npz").get([0])] == [[1, 2]]
    np.savez(tmp_path / "a.npz", x=ids, attention_mask=np.zeros((2, 3), "V4"))
    with pytest.raises(DataError, match=naming("a.npz", "attention_mask", "V4")):
        open_inputs(f"{tmp_path}/a.npz")
