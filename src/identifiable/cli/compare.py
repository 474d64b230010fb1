"""`identifiable compare A B [C ...]`."""

from __future__ import annotations

from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.measuring import Command, Job, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.options import CompareOptions
from identifiable.results import Comparison


def _call(job: Job) -> Any:
    from identifiable.api import compare

    return compare(*job.paths, **job.keywords())


def _check(job: Job) -> None:
    if len(job.paths) < 2:
        raise UsageError(f"compare needs at least two tables, got {len(job.paths)}; name another file.")


COMMAND = Command(
    name="compare",
    text="Are these the same representation, and up to what?",
    example="identifiable compare run1.npy run2.npy --report page.html --fail-if 'rigid.held_out.q95 > 0.2'",
    options=CompareOptions,
    tables={"paths": {"nargs": "+", "metavar": "X", "help": f"two or more tables: {TABLE_FORMATS}"}},
    call=_call,
    result=lambda job: Comparison,
    gate="'rigid.held_out.q95 > 0.2'",
    check=_check,
    inputs=lambda job: [job.options.group_by, *listed_ids(job.options)],
)
