"""`identifiable align A B -o map.safetensors`."""

from __future__ import annotations

from typing import Any

from identifiable.cli.measuring import Command, Job, Output, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.cli.output import BASIS
from identifiable.options import AlignOptions
from identifiable.results import Alignment


def _call(job: Job) -> Any:
    from identifiable.api.aligning import align

    return align(*job.paths, **job.keywords())


def _write_map(job: Job, found: Any, path: str) -> None:
    found.save(path)


COMMAND = Command(
    name="align",
    text="What map carries one representation into another, and what does it cost?",
    example="identifiable align old.npy new.npy -o map.safetensors --report align.html",
    options=AlignOptions,
    tables={
        "first": {"metavar": "A", "help": f"the representation to carry over: {TABLE_FORMATS}"},
        "second": {"metavar": "B", "help": "the representation to carry it into, of the same rows"},
    },
    call=_call,
    result=lambda job: Alignment,
    gate="'recall_10 < 0.7', 'within_100_low < 0.95' or 'advice == re_embed'",
    inputs=lambda job: [job.options.group_by, job.options.labels, *listed_ids(job.options)],
    files=(Output(("-o", "--output"), "the map from A to B, for transform", (BASIS,), _write_map),),
)
