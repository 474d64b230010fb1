"""The same figures from the workers of a Dask cluster."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from functools import partial
from uuid import uuid4

import cloudpickle
import numpy as np
import pytest

from children import child
from errors import naming
from identifiable import (
    Blocks,
    DataError,
    UsageError,
    align,
    compare,
    deconfound,
    disentangle,
    fold,
    resolve,
    transform,
)
from identifiable.api.simulating import simulate_cells
from identifiable.blocks import folding
from identifiable.blocks.folding import merged_in_order
from identifiable.cli import main
from identifiable.intake import blocks_of
from identifiable.io import open_representation, save_array
from identifiable.io.saving import WRITERS
from identifiable.results import without_time
from laws import rows

distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")
import dask.array  # noqa: E402  (after the check that it is there)

from identifiable.blocks import cluster as cluster_room  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

QUICK = {"null_draws": 3}
# A client leaves its scheduler behind as the default, for every later test. Workers are forks of one process that has imported Dask.
ALONE = {"scheduler": None, "distributed.worker.multiprocessing-method": "forkserver"}


@pytest.fixture(scope="module")
def client():
    # Two processes, so that everything a fold needs really travels.
    with (
        dask.config.set(ALONE),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def files(tmp_path):
    X = rows(0, n=5000, d=4)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, ::-1] + 0.3 * rows(1, n=5000, d=4))
    return str(tmp_path / "a.npy"), str(tmp_path / "b.npy")


def test_a_cluster_gives_the_same_json_bit_for_bit(client, files):
    here = compare(*files, **QUICK)
    there = compare(*files, scheduler=client.scheduler.address, **QUICK)
    assert without_time(here).to_json() == without_time(there).to_json()


def test_a_cluster_gives_the_same_basis_bit_for_bit(client, files):
    here = resolve(files[1], stability=0, restarts=1)
    there = resolve(files[1], stability=0, restarts=1, scheduler=client.scheduler.address)
    assert np.array_equal(here.to_components.matrix, there.to_components.matrix)
    assert without_time(here.result).to_json() == without_time(there.result).to_json()


@pytest.fixture
def asked(monkeypatch):
    """What the workers of a cluster were asked for."""
    found = []

    def counted(name):
        whole = getattr(cluster_room, name)

        def call(*given, **how):
            found.append(name)
            return whole(*given, **how)

        monkeypatch.setattr(cluster_room, name, call)

    for name in ("on_cluster", "on_each", "Ahead"):
        counted(name)
    return found


def test_a_cluster_transforms_rows_to_the_same_bits(client, files, tmp_path, asked):
    basis = resolve(files[0], stability=0, restarts=1)
    for k in range(3):
        np.save(tmp_path / f"run-{k}.npy", np.load(files[0])[2000 * k : 2000 * (k + 1)])
    for source, output in ((files[0], "z.npy"), (str(tmp_path / "run-*.npy"), "folder")):
        here = transform(basis, source, tmp_path / f"here-{output}")
        there = transform(basis, source, tmp_path / f"there-{output}", scheduler=client)
        pairs = zip(sorted(here.rglob("*.npy")), sorted(there.rglob("*.npy")), strict=True)
        for one, other in pairs if here.is_dir() else [(here, there)]:
            assert one.read_bytes() == other.read_bytes()
    assert asked == ["Ahead", "Ahead"]
    np.save(tmp_path / "bad.npy", np.where(np.arange(20_000).reshape(-1, 4) == 19_999, np.nan, 1.0))
    with pytest.raises(DataError, match=naming("bad", "4999")):
        transform(basis, tmp_path / "bad.npy", scheduler=client)


def test_a_cluster_flags_the_rows_that_are_flagged_here(client, files, tmp_path, asked):
    found = align(*files, curve=False, holdout=100)
    far = np.load(files[0])
    far[4500:] *= 100
    np.save(tmp_path / "far.npy", far)
    for name, where in (("here", None), ("there", client)):
        with pytest.warns(UserWarning, match="rows_outside"):
            transform(found, tmp_path / "far.npy", flags=tmp_path / f"{name}.csv", scheduler=where)
    assert (tmp_path / "here.csv").read_text() == (tmp_path / "there.csv").read_text()
    assert asked == ["Ahead"]


def test_a_cluster_draws_the_halves_and_shuffles_of_disentangle(client, asked):
    factors = np.random.default_rng(0).integers(0, 4, size=(400, 2))
    latents = factors + 0.1 * rows(5, n=400, d=2)
    options = {"metrics": ["mig", "mcc"], "null": 3, "bootstrap": 2, "progress": lambda *how: None}
    here = disentangle(latents, factors, **options)
    there = disentangle(latents, factors, scheduler=client, **options)
    assert without_time(here).to_json() == without_time(there).to_json()
    assert asked == ["on_each", "on_each"]
    with pytest.raises(DataError, match="20"):
        disentangle(latents[:10], factors[:10], metrics=["mcc"], bootstrap=2, scheduler=client)


SCREENS = {
    "audit": {"permutations": 20, "min_wells": 4},
    "attribute": {"permutations": 20, "stability": 0, "rank": 6},
}
LONGER_SCREENS = {
    "clean": {"permutations": 20, "stability": 0, "rank": 6, "metrics": ()},
    "evaluate": {
        "representations": ("pca", "ica"), "corrections": ("tvn", "combat", "control-mad", "count-regressed"),
        "classifiers": ("ridge",), "bootstrap": 10, "null_guides": 0, "rank": 6, "max_targets": 2, "folds": 2,
    },
    "recommend": {"candidates": ("control-z", "sphering", "tvn", "combat")},
}  # fmt: skip


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("call", [*SCREENS, *(pytest.param(name, marks=pytest.mark.long) for name in LONGER_SCREENS)])
def test_a_cluster_makes_the_passes_over_a_screen(client, tmp_path, monkeypatch, asked, call):
    monkeypatch.setattr(folding, "SHARED_STRIPS", 1)  # so few wells are one strip, which is folded here
    simulate_cells(tmp_path / "wells.csv", "tiny")
    options = {**SCREENS, **LONGER_SCREENS}[call]
    results = []
    for scheduler in (None, client):
        found = getattr(deconfound, call)(tmp_path / "wells.csv", scheduler=scheduler, **options)
        text = without_time(getattr(found, "result", found)).to_json()
        results.append(re.sub('"time": "[^"]*"', "", text))  # of the attribution that a cleaning holds
        assert bool(asked) == (scheduler is client)
    assert results[0] == results[1]


def test_the_command_line_takes_a_scheduler(client, files, capsys):
    words = ["compare", *files, "--no-intervals", "--no-axes", "--nulls", "none", "--groups", "rigid"]
    assert main([*words, "--scheduler", client.scheduler.address]) == 0
    there = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == there
    assert main(["resolve", files[0], "--stability", "0", "-o", f"{files[0]}.safetensors", "--quiet"]) == 0
    words = ["transform", f"{files[0]}.safetensors", files[0], "-o", f"{files[0]}.npz", "--quiet"]
    assert main([*words, "--scheduler", client.scheduler.address]) == 0


def test_dask_arrays_are_read_in_blocks():
    X = rows(2, n=5000, d=3)
    lazy = dask.array.from_array(X, chunks=(700, 3))
    options = {"groups": ["rigid"], "intervals": False, "axes": False, "nulls": ()}
    expected = compare(X, X + 1.0, **options).pairs[0].rungs
    assert compare(lazy, lazy + 1.0, **options).pairs[0].rungs == expected


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_same_from_any_format(tmp_path, workers):
    X = rows(6, n=9000, d=4).astype(np.float32)
    Y = X @ rows(7, n=4, d=4) + 0.1 * rows(8, n=9000, d=4)
    pairs = [
        [str(save_array(tmp_path / f"{name}{suffix}", T)) for name, T in (("a", X), ("b", Y))] for suffix in WRITERS
    ]
    (tmp_path / "runs").mkdir()
    for k in range(3):
        np.save(tmp_path / "runs" / f"{k}.npy", X[3000 * k : 3000 * (k + 1)])
    pairs.append([str(tmp_path / "runs"), str(tmp_path / "b.npy")])
    with (
        dask.config.set(ALONE),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        for pair in pairs:
            found = []
            for scheduler in (None, client):
                compared = compare(*pair, scheduler=scheduler, **QUICK)
                basis = resolve(pair[0], scheduler=scheduler, stability=0, restarts=1)
                found.append((without_time(compared).to_json(), without_time(basis.result).to_json()))
                found[-1] += (basis.to_components.matrix.tobytes(),)
            assert found[0] == found[1], pair


def open_table(path):
    return blocks_of(open_representation(path))


class Fails:
    """A statistic that a worker cannot finish."""

    def add(self, first, rows):
        raise ZeroDivisionError("no such luck")

    def merge(self, later):
        raise AssertionError("never merged")


class Refuses(Fails):
    def add(self, first, rows):
        raise DataError(f"row {first} is not to my liking")


class Order:
    """Which rows were merged with which, in what order: the same tree gives the same text."""

    def __init__(self, wait=0.0):
        self.wait, self.text, self.worker = wait, "", ""

    def add(self, first, rows):
        time.sleep(self.wait)
        self.text += f"{first}+{float(rows[0].sum()):.17g} "

    def merge(self, later):
        self.text = f"({self.text}|{later.text})"


@pytest.mark.parametrize(("statistic", "said"), [(Fails, "no such luck"), (Refuses, "row 0")])
def test_a_failing_worker_is_one_line_that_names_its_rows(client, files, statistic, said):
    with pytest.raises(DataError, match=naming(said)):
        fold([open_table(files[0])], statistic, cluster=client)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 33, 255, 256, 257, 1000])
def test_the_tree_of_a_cluster_is_the_one_of_threads(count):
    def leaf(i):
        one = Order()
        one.text = str(i)
        return one

    tasks = cluster_room._tree("t", list(range(count)))
    *_, last = tasks

    def value(key):
        if isinstance(key, int):
            return leaf(key)
        merge, *parts = tasks[key]
        return merge(*map(value, parts))

    assert value(last).text == merged_in_order(leaf(i) for i in range(count)).text


def test_one_strip_is_folded_here(client, tmp_path, asked):
    np.save(tmp_path / "x.npy", rows(3, n=4096, d=3))
    np.save(tmp_path / "y.npy", rows(3, n=4097, d=3))
    assert fold([open_table(tmp_path / "x.npy")], Order, cluster=client).text.startswith("0+")
    assert asked == []
    fold([open_table(tmp_path / "y.npy")], Order, cluster=client)
    assert asked == ["on_cluster"]


def test_dask_arrays_are_folded_where_they_live(client):
    X = rows(3, n=9000, d=3)
    lazy = dask.array.from_array(X, chunks=(700, 2))
    here = fold([Blocks(X)], Order).text
    assert fold([Blocks(lazy)], Order, cluster=client).text == here
    chosen = np.random.default_rng(0).permutation(9000)[:5000]
    here = fold([Blocks(X).select(chosen)], Order).text
    assert fold([Blocks(lazy).select(chosen)], Order, cluster=client).text == here


class Slow:
    """Rows of a file whose decoding is counted on the workers."""

    shape, dtype = (9000, 2), np.dtype(np.float32)

    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, taken):
        open(f"{self.folder}/{uuid4().hex}", "w").close()
        return np.arange(taken.start * 2, taken.stop * 2, dtype=np.float32).reshape(-1, 2)


def test_decoded_rows_stay_on_the_workers_between_passes(client, tmp_path):
    table = Blocks(Slow(str(tmp_path)))
    first = fold([table], Order, cluster=client).text
    read = len(list(tmp_path.iterdir()))
    assert read == 3  # one for each strip
    assert fold([table], Order, cluster=client).text == first
    assert len(list(tmp_path.iterdir())) == read


def test_one_statistic_reaches_the_client_and_its_work_does_not_grow_with_the_strips(monkeypatch):
    asked = []

    class Nobody:
        """A client that counts what it is asked to send."""

        def get(self, graph, keys, **how):
            asked.append((len(pickle.dumps(graph)), len(keys)))
            raise InterruptedError

        def run_on_scheduler(self, function, **how):
            return 0

    for n in (4096 * 64 * 16, 4096 * 64 * 10_000):
        table = Blocks(dask.array.zeros((n, 2), chunks=(n, 2)))
        monkeypatch.setattr(Blocks, "base", property(lambda self: None))  # neither here nor an array of Dask
        with pytest.raises(InterruptedError):
            fold([table], Order, cluster=Nobody())
    (small, few), (large, many) = asked
    assert few == many == 2  # the root, and the tables
    assert large < 1.1 * small


def test_a_worker_that_dies_halfway_changes_nothing(tmp_path):
    np.save(tmp_path / "x.npy", rows(4, n=40_000, d=2))
    table = open_table(tmp_path / "x.npy")
    here = fold([table], Order).text
    with (
        dask.config.set(ALONE),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        done = []

        def progress(stage, rows_done, total):
            done.append(rows_done)
            if len(done) == 1 and rows_done < total / 2:
                os.kill(victim, signal.SIGKILL)

        there = fold([table], partial(Order, 0.4), cluster=client, progress=progress).text
        assert victim not in client.run(os.getpid).values()
    assert done[0] < 20_000  # of 40,000 rows
    assert there == here


def test_a_scheduler_that_goes_away_is_one_line(tmp_path, files):
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with (
        dask.config.set(ALONE),
        distributed.Client(cluster) as client,
        pytest.raises(DataError, match="scheduler"),
    ):
        fold(
            [open_table(files[0])],
            partial(Order, 2.0),
            cluster=client,
            progress=lambda *how: cluster.close(timeout=5),
        )


SCHEDULER = """
import asyncio, distributed

async def main():
    async with distributed.Scheduler(port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(main())
"""


def test_a_scheduler_that_is_killed_ends_the_command_with_one_line(files, monkeypatch, capfd):
    command, watched = [sys.executable, "-c", SCHEDULER], cluster_room._watched
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as scheduler:

        def killing(*given):
            scheduler.kill()  # the first pass has begun
            return watched(*given)

        monkeypatch.setattr(cluster_room, "_watched", killing)
        address = scheduler.stdout.readline().strip()
        assert main(["resolve", files[0], "--scheduler", address, "--quiet"]) == 3
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert address in said[0]
    assert "dask scheduler" in said[0]


def test_a_cluster_without_workers_is_waited_for_then_named(files, monkeypatch):
    table = open_table(files[0])
    with (
        dask.config.set(ALONE),
        distributed.LocalCluster(n_workers=0, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(cluster_room, "PATIENCE", 1.5)
        with pytest.raises(DataError, match="no worker"):
            fold([table], Order, cluster=client)
        monkeypatch.setattr(cluster_room, "PATIENCE", 60.0)
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        assert fold([table], Order, cluster=client).text == fold([table], Order).text


def test_no_scheduler_at_an_address_says_so(files):
    with pytest.raises(UsageError, match="nonsense://1"):
        compare(*files, scheduler="nonsense://1")
