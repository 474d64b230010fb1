"""`identifiable compare A B [C ...]`."""

from __future__ import annotations

from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.measuring import Command, Job, Output, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.options import CompareOptions
from identifiable.results import Comparison


def _call(job: Job) -> Any:
    from identifiable.api import compare

    return compare(*job.paths, **job.keywords())


def _check(job: Job) -> None:
    if len(job.paths) < 2:
        raise UsageError(f"compare needs at least two tables, got {len(job.paths)}; name another file.")


def _write_rows(job: Job, found: Comparison, path: str) -> None:
    """A line for each row, a column for each ordered pair and group."""
    import numpy as np

    from identifiable.blocks import Blocks
    from identifiable.io import save_table

    columns = {
        f"{pair.source}->{pair.target}.{rung.group}": found.row_errors(rung.group, i)
        for i, pair in enumerate(found.pairs)
        for rung in pair.rungs
    }
    ids, _ = next(iter(columns.values()))
    errors = np.column_stack([errors for _, errors in columns.values()])
    save_table(path, Blocks(errors, name=path), {}, ids=ids, feature_names=list(columns))


COMMAND = Command(
    name="compare",
    text="Are these the same representation, and up to what?",
    example="identifiable compare run1.npy run2.npy --report page.html --fail-if 'linear.r2.value < 0.9'",
    options=CompareOptions,
    tables={"paths": {"nargs": "+", "metavar": "X", "help": f"two or more tables: {TABLE_FORMATS}"}},
    call=_call,
    result=lambda job: Comparison,
    gate="'linear.r2.value < 0.9'",
    check=_check,
    inputs=lambda job: [job.options.group_by, job.options.labels, *listed_ids(job.options)],
    files=(Output(("--rows-out",), "held-out errors of every row", (".csv", ".parquet"), _write_rows),),
)
