"""`identifiable resolve X [Y ...] -o basis.safetensors`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.measuring import Command, Job, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.cli.output import BASIS, check_outputs, check_suffix
from identifiable.intake import distinct
from identifiable.options import ResolveOptions
from identifiable.results import JointResolution, Resolution

NAME = "{name}"  # in -o: the place of each table's name


def _output(parser: argparse.ArgumentParser) -> None:
    text = f"basis to write ({BASIS}); with several tables, {NAME} stands for the name of each"
    parser.add_argument("-o", "--output", metavar="PATH", help=text)


def _check(job: Job) -> None:
    pattern, n_tables = job.typed.output, len(job.paths)
    if pattern is None:
        return
    check_suffix(pattern, (BASIS,))
    if n_tables > 1 and NAME not in pattern:
        raise UsageError(
            f"-o {pattern}: {n_tables} tables give {n_tables} bases; write {NAME} where the name of each goes, "
            f"for example -o 'basis-{NAME}{BASIS}'."
        )


def _call(job: Job) -> Any:
    from identifiable.api import resolve
    from identifiable.api.opening import open_sources

    tables: Any = job.paths  # the call opens one table itself, and finds its columns of labels
    if len(job.paths) > 1 or NAME in (job.typed.output or ""):
        tables = open_sources(job.paths, job.options.ids, job.options.blocks, job.options.names)
        job.typed.bases = _bases(job.typed.output, [table.name for table in distinct(tables)])
    else:
        job.typed.bases = [job.typed.output] if job.typed.output else []
    check_outputs([job.typed.json, job.typed.report, *job.typed.bases], [*job.paths, *_beside(job)])
    return resolve(*tables, **job.keywords())


def _bases(pattern: str | None, names: list[str]) -> list[str]:
    """The path of every basis; what cannot be in the name of a file becomes a hyphen."""
    if pattern is None:
        return []
    return [pattern.replace(NAME, re.sub(r"[^\w.+-]+", "-", name).strip("-")) for name in names]


def _beside(job: Job) -> list[str]:
    return [*listed_ids(job.options), *filter(None, [job.options.group_by])]


def _save(job: Job, found: Any) -> Mapping[str, Callable[[str], object]]:
    models = getattr(found, "models", (found,))[: len(job.typed.bases)]  # without -o: none
    return {path: partial(_write, model, found.result) for path, model in zip(job.typed.bases, models, strict=True)}


def _write(model: Any, whole: Any, path: str) -> None:
    """Write the basis of one model, with the command that made it."""
    from identifiable.api import save_basis

    save_basis(path, replace(model, result=replace(model.result, provenance=whole.provenance)))


COMMAND = Command(
    name="resolve",
    text="Find components that mean the same thing in every run: whitening and ICA, saved as a basis.",
    example="identifiable resolve run1.npy -o basis.safetensors --report components.html",
    options=ResolveOptions,
    tables={
        "paths": {
            "nargs": "+",
            "metavar": "X",
            "help": f"a table: {TABLE_FORMATS}; with several, the shared components are found",
        }
    },
    call=_call,
    result=lambda job: JointResolution if len(job.paths) > 1 else Resolution,
    gate="'identifiable < 20' or, with several tables, 'shared < 10'",
    more=_output,
    check=_check,
    inputs=_beside,
    outputs=lambda job: [None if NAME in (job.typed.output or "") else job.typed.output],
    writes=lambda job: ["-o", job.typed.output] if job.typed.output else [],
    save=_save,
    kept=lambda job: job.options.checkpoint,
)
