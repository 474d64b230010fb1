"""Checkpoints: what was put is got, a folder of another run is refused, damage counts as absence."""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from errors import naming
from identifiable._checks import DataError, OutputError, UsageError
from identifiable.results.kept import CARD, KeptArrays


def test_what_was_put_is_got_by_a_later_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "file": rng.standard_normal((3, 2)),
        "codes": np.arange(4),
        "text": np.array('{"a": [1, "é"]}'),
        "no": np.empty((0, 2)),
    }
    KeptArrays(tmp_path / "run", "abc").put("PCA+ICA/fold 1:seed=0", arrays)
    later = KeptArrays(tmp_path / "run", "abc")
    found = later.get("PCA+ICA/fold 1:seed=0")
    assert found is not None
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert later.get("PCA+ICA/fold 1:seed=1") is None
    assert later.keys() == ("PCA+ICA/fold 1:seed=0",)
    assert later.damaged == []


def test_putting_again_replaces(tmp_path: Path) -> None:
    kept = KeptArrays(tmp_path, "abc")
    kept.put(".k", {"a": np.zeros(2)})
    kept.put(".k", {"b": np.ones(3)})
    found = kept.get(".k")
    assert found is not None
    assert list(found) == ["b"]
    assert kept.keys() == (".k",)


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    KeptArrays(tmp_path, "abc").put("k", {"a": np.zeros(2)})
    with pytest.raises(DataError, match=r"\(abc.*here\)"):
        KeptArrays(tmp_path, "abd")
    assert KeptArrays(tmp_path, "abc").keys() == ("k",)


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("words")
    with pytest.raises(DataError, match=naming(tmp_path, "thesis.txt")):
        KeptArrays(tmp_path, "abc")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "card", ["", "[]", "[" * 5000 + "]" * 5000, '{"schema": "identifiable/checkpoint/0", "fingerprint": "abc"}', "{}"]
)
def test_a_damaged_card_is_said(tmp_path: Path, card: str) -> None:
    KeptArrays(tmp_path, "abc")
    (tmp_path / CARD).write_text(card)
    with pytest.raises(DataError, match=r"damaged.*another"):
        KeptArrays(tmp_path, "abc")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "text", "beyond 64 bits", "pickled"])
def test_a_damaged_entry_counts_as_absent_and_is_said(tmp_path: Path, damage: str) -> None:
    kept = KeptArrays(tmp_path, "abc")
    kept.put("k", {"a": np.arange(1000.0)})
    path = tmp_path / "k.npz"
    whole = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(whole[:-50])
    elif damage == "flipped":
        whole[4000] ^= 255
        path.write_bytes(whole)
    elif damage == "text":
        path.write_text("not a zip")
    elif damage == "beyond 64 bits":  # of which numpy warns before it refuses
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 18446744073709551615), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    else:
        np.savez(path, a=np.array([{"a": 1}], dtype=object))
    with warnings.catch_warnings(record=True, action="always") as said:
        assert kept.get("k") is None
        assert kept.get("k") is None
    assert not said
    assert kept.damaged == ["k"]
    kept.put("k", {"a": np.ones(2)})
    assert kept.get("k") is not None


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "gone": lambda held: {"b": held["b"]},
    "named otherwise": lambda held: {"c": held["a"], "b": held["b"]},
    "exchanged": lambda held: {"a": held["b"], "b": held["a"]},
    "half": lambda held: held | {"a": held["a"][:1]},
    "flat": lambda held: held | {"a": held["a"].ravel()},
    "text": lambda held: held | {"a": held["a"].astype(str)},
    "type": lambda held: held | {"a": held["a"].view("<i8")},
    "NaN": lambda held: held | {"a": np.full((2, 3), np.nan)},
    "order in memory": lambda held: held | {"a": np.asfortranarray(held["a"])},
    "a number": lambda held: held | {"one": held["one"][0]},
    "more": lambda held: held | {"more": np.zeros(2)},
}


def rewritten(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """A valid archive with other arrays, all else as it was."""
    with np.load(path) as archive:
        comment, arrays = archive.zip.comment, {name: archive[name] for name in archive.files}
    np.savez(path, **change(arrays))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_whose_content_was_changed_counts_as_absent(tmp_path: Path, change: str) -> None:
    kept = KeptArrays(tmp_path, "abc")
    kept.put("k", {"a": np.arange(6.0).reshape(2, 3), "b": np.ones((2, 3)), "one": np.ones(1)})
    rewritten(tmp_path / "k.npz", lambda held: held)
    assert kept.get("k") is not None
    rewritten(tmp_path / "k.npz", CHANGES[change])
    assert kept.get("k") is None
    assert kept.damaged == ["k"]


def test_an_entry_of_another_key_of_another_run_or_without_a_digest_counts_as_absent(tmp_path: Path) -> None:
    kept, other = KeptArrays(tmp_path / "a", "abc"), KeptArrays(tmp_path / "b", "abd")
    for key in "kl":
        kept.put(key, {"a": np.zeros(2)})
        other.put(key, {"a": np.zeros(2)})
    for source in (tmp_path / "a" / "l.npz", tmp_path / "b" / "k.npz"):
        shutil.copy(source, tmp_path / "a" / "k.npz")
        assert kept.get("k") is None
    np.savez(tmp_path / "a" / "l.npz", a=np.zeros(2))  # as an older version wrote it
    assert kept.get("l") is None
    assert kept.damaged == ["k", "l"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_an_entry_or_of_the_card_does_not_hang(tmp_path: Path) -> None:
    kept = KeptArrays(tmp_path, "abc")
    kept.put("l", {"a": np.zeros(2)})
    os.mkfifo(tmp_path / "k.npz")
    assert kept.get("k") is None
    assert kept.damaged == ["k"]
    kept.put("k", {"a": np.ones(2)})
    assert kept.get("k") is not None
    (tmp_path / CARD).unlink()
    os.mkfifo(tmp_path / CARD)
    with pytest.raises(DataError, match=naming(tmp_path, CARD)):
        KeptArrays(tmp_path, "abc")


def test_objects_and_empty_keys_are_refused(tmp_path: Path) -> None:
    kept = KeptArrays(tmp_path, "abc")
    with pytest.raises(UsageError, match=r"'a'.*Python objects"):
        kept.put("k", {"a": np.array([None, 1], dtype=object)})
    for key in ("", "k" * 500):
        with pytest.raises(UsageError, match=naming(1, 200)):
            kept.put(key, {"a": np.ones(2)})
    assert kept.keys() == ()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot.*checkpoints"):
        KeptArrays(tmp_path / "file" / "run", "abc")


def test_a_run_that_keeps_nothing_leaves_no_folder(tmp_path: Path) -> None:
    """`evaluate` may be refused after its checkpoints were opened."""
    kept = KeptArrays(tmp_path / "new" / "run", "abc")
    assert kept.keys() == ()
    assert kept.get("k") is None
    assert list(tmp_path.iterdir()) == []
    kept.put("k", {"a": np.zeros(2)})
    assert (tmp_path / "new" / "run" / CARD).exists()


def test_of_two_runs_that_begin_together_the_second_is_refused(tmp_path: Path) -> None:
    first, second = (KeptArrays(tmp_path / "run", name) for name in ("abc", "abd"))
    first.put("k", {"a": np.zeros(2)})
    with pytest.raises(DataError, match=r"\(abc.*here\)"):
        second.put("k", {"a": np.ones(2)})


@pytest.mark.timeout(15)
def test_a_header_made_long_by_damage_is_not_read(tmp_path: Path) -> None:
    """numpy takes the square of its length: half a minute here."""
    kept = KeptArrays(tmp_path / "run", "abc")
    kept.put("k", {"x": np.arange(3.0)})
    with zipfile.ZipFile(tmp_path / "run" / "k.npz") as archive:
        comment, content = archive.comment, archive.read("x.npy")
    long = content[:8] + (9000).to_bytes(2, "little") + content[10:60] + bytes(9000)
    with zipfile.ZipFile(tmp_path / "run" / "k.npz", "w") as archive:
        archive.comment = comment
        archive.writestr("x.npy", long)
    assert kept.get("k") is None
    assert kept.damaged == ["k"]


def test_a_member_that_is_no_array_counts_as_absent(tmp_path: Path) -> None:
    kept = KeptArrays(tmp_path, "abc")
    kept.put("k", {"a": np.zeros(2)})
    with zipfile.ZipFile(tmp_path / "k.npz", "w") as archive:
        archive.writestr("a.npy", b"no array")  # numpy returns it as bytes
    assert kept.get("k") is None
    assert kept.damaged == ["k"]
