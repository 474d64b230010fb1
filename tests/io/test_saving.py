"""A disk that fills up while a table is written: one line, exit 3, nothing left behind; never a crash of HDF5.

Every attempt is a process of its own, forked from one that has imported everything, and ends as a command ends: HDF5
crashed when the interpreter shut down.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from identifiable import load_basis, resolve, save_basis, transform
from identifiable.io import open_representation, save_array

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SUFFIXES = [".npy", ".npz", ".safetensors", ".parquet", ".h5ad", ".csv"]
STEP = 16 * 1024

SCRIPT = """
import gc, json, os, resource, signal, subprocess, sys, tempfile, time
import anndata, h5py, pyarrow.parquet, safetensors.numpy
import identifiable.api.transforming, identifiable.api.screen_files, identifiable.report
from identifiable.cli import main

gc.freeze()  # what a fork would copy to collect it at its end took three quarters of its time
basis, table, folder, *attempts = sys.argv[1:]
found = []
for how, suffix, limit in (text.split(":") for text in attempts):
    output, limit = os.path.join(folder, "z" + suffix), int(limit)
    if how == "mount":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={limit}", "tmpfs", folder], check=True, timeout=20)
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            if how == "limit":
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            sys.exit(main(["transform", basis, table, "-o", output, "--quiet"]))
        if how == "interrupt":  # as soon as the file is begun, and a little later
            until = time.monotonic() + 20
            while not os.listdir(folder) and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(limit / 1e6)
            os.kill(child, signal.SIGINT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        text = said.read().decode()
    held = os.listdir(folder)
    found.append({"how": how, "name": "z" + suffix, "limit": limit, "code": code, "said": text, "held": held})
    if suffix == ".h5ad" and code == 0:
        with h5py.File(output) as file:  # before a fork: HDF5 has no file open when it begins
            found[-1]["rows"] = len(file["X"])
    for name in held:
        os.unlink(os.path.join(folder, name))
    if how == "mount":
        subprocess.run(["umount", folder], check=True, timeout=20)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    X = np.random.default_rng(0).laplace(size=(3000, 8))
    np.save(folder / "x.npy", X)
    return save_basis(folder / "basis.safetensors", resolve(X, stability=0, restarts=1)), folder / "x.npy"


@pytest.fixture(scope="module")
def may_mount(tmp_path_factory) -> bool:
    folder = tmp_path_factory.mktemp("mounted")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    try:
        subprocess.run(mount, check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return False
    subprocess.run(["umount", folder], check=True, timeout=20)
    return True


@pytest.fixture(scope="module")
def outcomes(inputs, may_mount, tmp_path_factory) -> list[dict[str, Any]]:
    """What came of every attempt; all are forks of one process, since its imports take seconds."""
    whole, folder = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("attempts")
    sizes = {s: transform(load_basis(inputs[0]), inputs[1], whole / f"z{s}").stat().st_size for s in SUFFIXES}
    plan = [f"limit:{suffix}:{limit}" for suffix, size in sizes.items() for limit in (size - 1, size)]
    plan += [f"mount:.h5ad:{size}" for size in range(STEP, 26 * STEP, 4 * STEP)] if may_mount else []
    microseconds = np.random.default_rng(8).integers(0, 6_000, size=4).tolist()
    plan += [f"interrupt:.h5ad:{wait}" for wait in microseconds]
    words = [sys.executable, "-c", SCRIPT, *map(str, inputs), str(folder), *plan]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(found) == len(plan)
    return found


def whole_or_refused(found: list[dict[str, Any]]) -> None:
    """Every outcome is a whole file and exit 0, or one line and exit 3; both occur."""
    for one in found:
        if one["code"] == 0:
            assert one["held"] == [one["name"]], one
            assert one["said"] == "", one
        else:
            assert (one["code"], one["held"]) == (3, []), one
            assert one["said"].count("\n") == 1, one
            assert one["name"] in one["said"], one
    assert {one["code"] for one in found} == {0, 3}


def test_a_file_that_may_not_grow_is_refused_in_one_line(outcomes):
    found = [one for one in outcomes if one["how"] == "limit"]
    whole_or_refused(found)
    assert [one["name"] for one in found if one["code"] == 0] == [f"z{suffix}" for suffix in SUFFIXES]


def test_a_disk_that_is_nearly_full_is_refused_in_one_line(outcomes, may_mount):
    if not may_mount:
        pytest.skip("needs the right to mount a tmpfs")
    found = [one for one in outcomes if one["how"] == "mount"]
    whole_or_refused(found)
    assert all(one["rows"] == 3000 for one in found if one["code"] == 0)


def test_an_interrupt_while_h5ad_is_written_is_no_crash(outcomes):
    found = [one for one in outcomes if one["how"] == "interrupt"]
    assert all(one["code"] in (0, 130, -signal.SIGINT) for one in found), found
    assert all(one["rows"] == 3000 for one in found if one["code"] == 0)


def test_what_is_written_is_what_is_read(inputs, tmp_path):
    written = open_representation(transform(load_basis(inputs[0]), inputs[1], tmp_path / "z.h5ad")).values[:]
    assert np.array_equal(written, transform(load_basis(inputs[0]), inputs[1]))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather", ".npy", ".h5", ".h5ad", ".zarr"])
def test_tables_are_written_under_names_that_are_not_utf_8(tmp_path, suffix):
    path, values = Path(os.fsdecode(bytes(tmp_path) + b"/o\xff" + suffix.encode())), np.arange(6.0).reshape(3, 2)
    save_array(path, values)
    np.testing.assert_array_equal(open_representation(path).values[:], values)


def test_a_basis_is_kept_of_a_table_whose_name_is_not_utf_8(tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.npy"))
    np.save(path, np.random.default_rng(0).laplace(size=(60, 3)))
    basis = resolve(path, stability=0, restarts=1, command=f"identifiable resolve {path}")
    saved = load_basis(save_basis(tmp_path / "b.safetensors", basis))
    assert saved.result.inputs[0].name == r"\udcff"
    assert r"\udcff" in saved.result.provenance.command
