"""A resolve that is stopped goes on from its checkpoint, and ends with the same basis."""

from __future__ import annotations

import numpy as np
import pytest

from errors import naming
from identifiable import DataError
from identifiable.api import resolve
from identifiable.blocks import folding
from identifiable.io import save_basis
from identifiable.results import without_time
from laws import rows

SETTINGS = {"stability": 2, "seed": 3, "restarts": 1}


class Killed(BaseException):
    """As a signal would be."""


@pytest.fixture
def table(tmp_path):
    X = np.sign(rows(0, n=3000, d=4)) * rows(1, n=3000, d=4) ** 2
    np.save(tmp_path / "x.npy", X @ rows(2, n=4, d=4))
    return str(tmp_path / "x.npy")


def _bytes(basis, path):
    from dataclasses import replace

    return save_basis(path, replace(basis, result=without_time(basis.result))).read_bytes()


@pytest.mark.parametrize("inside", [False, True])
def test_a_run_that_is_stopped_anywhere_ends_with_the_same_basis(table, tmp_path, monkeypatch, inside):
    expected = _bytes(resolve(table, **SETTINGS), tmp_path / "whole.safetensors")
    walked, stop_at = [0], [0]
    walk = folding.walk

    def counting(blocks, start, part, chunk, stopped=lambda n: False):
        walked[0] += not all(b.in_memory for b in blocks)
        if inside and walked[0] == stop_at[0]:
            raise Killed
        found = walk(blocks, start, part, chunk, stopped)
        if not inside and walked[0] == stop_at[0]:
            raise Killed
        return found

    monkeypatch.setattr(folding, "walk", counting)
    resolve(table, **SETTINGS)
    passes, walked[0] = walked[0], 0
    for stop_at[0] in sorted({1, passes // 4, passes // 2, passes - 1}):
        folder = tmp_path / f"kept{stop_at[0]}"
        walked[0] = 0
        with pytest.raises(Killed):
            resolve(table, checkpoint=folder, **SETTINGS)
        before, walked[0], at = walked[0], 0, stop_at[0]
        stop_at[0] = 10**9
        again = resolve(table, checkpoint=folder, **SETTINGS)
        assert _bytes(again, tmp_path / "again.safetensors") == expected
        assert walked[0] < passes or at == 1  # what was kept is not made again
        assert before == at


def test_a_folder_of_another_table_is_refused(table, tmp_path):
    resolve(table, checkpoint=tmp_path / "kept", stability=0)
    np.save(tmp_path / "y.npy", np.load(table) + 1)
    with pytest.raises(DataError, match=naming("kept")):
        resolve(str(tmp_path / "y.npy"), checkpoint=tmp_path / "kept", stability=0)


def test_a_damaged_part_is_made_again(table, tmp_path):
    expected = resolve(table, stability=0)
    resolve(table, checkpoint=tmp_path / "kept", stability=0)
    for i, part in enumerate(sorted((tmp_path / "kept").glob("*.npz"))):
        if i % 2:
            part.write_bytes(part.read_bytes()[:-20])
    again = resolve(table, checkpoint=tmp_path / "kept", stability=0)
    assert np.array_equal(again.to_components.matrix, expected.to_components.matrix)
