"""The same figures from the workers of a Dask cluster."""

from __future__ import annotations

import sys

import cloudpickle
import numpy as np
import pytest

from errors import naming
from identifiable import Blocks, DataError, UsageError, fold
from identifiable.api import compare
from identifiable.cli import main
from identifiable.results import without_time
from laws import rows

distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")
import dask.array  # noqa: E402  (after the check that it is there)

QUICK = {"null_draws": 3}


@pytest.fixture(scope="module")
def client():
    # Two processes, so that everything a fold needs really travels; they cannot import this file.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with (
        dask.config.set(scheduler=None),  # a client leaves its scheduler behind as the default, for every later test
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


def test_the_command_line_takes_a_scheduler(client, files, capsys):
    words = ["compare", *files, "--no-intervals", "--no-axes", "--nulls", "none", "--groups", "rigid"]
    assert main([*words, "--scheduler", client.scheduler.address]) == 0
    there = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == there


def test_dask_arrays_are_read_in_blocks():
    X = rows(2, n=5000, d=3)
    lazy = dask.array.from_array(X, chunks=(700, 3))
    options = {"groups": ["rigid"], "intervals": False, "axes": False, "nulls": ()}
    expected = compare(X, X + 1.0, **options).pairs[0].rungs
    assert compare(lazy, lazy + 1.0, **options).pairs[0].rungs == expected


class Fails:
    """A statistic that a worker cannot finish."""

    def add(self, first, rows):
        raise ZeroDivisionError("no such luck")

    def merge(self, later):
        raise AssertionError("never merged")


def test_a_failing_worker_is_one_line_that_names_its_rows(client):
    with pytest.raises(DataError, match=naming("rows 0 to", "no such luck")):
        fold([Blocks(np.zeros((5000, 2)))], Fails, cluster=client)


def test_no_scheduler_at_an_address_says_so(files):
    with pytest.raises(UsageError, match="nonsense://1"):
        compare(*files, scheduler="nonsense://1")
