"""`identifiable deconfound audit|evaluate|attribute|clean|report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identifiable._checks import OutputError
from identifiable.cli import report
from identifiable.cli.measuring import Command, Job
from identifiable.cli.options import Parser, command
from identifiable.cli.output import BASIS, check_suffix
from identifiable.cli.screen_fields import attribution_fields, audit_fields, cleaning_fields, evaluation_fields
from identifiable.options import AttributeOptions, AuditOptions, CleanOptions, EvaluateOptions, ScreenOptions

if TYPE_CHECKING:
    from identifiable.deconfound import Screen

TABLES = (".parquet", ".h5ad", ".csv")
SCORE_TABLES = (".csv", ".parquet")
TABLE = {
    "table": {
        "metavar": "TABLE",
        "help": "wells: .parquet, .csv, .tsv or .h5ad with their metadata, or .npy .npz .safetensors with --metadata; "
        "cells.h5ad:X_openphenom is a key of obsm",
    }
}


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "deconfound",
        "What is plate, what is biology, and does it hold on plates never seen?",
        "identifiable deconfound audit wells.parquet --control DMSO --report audit.html",
    )
    parts = parser.add_subparsers(metavar="PART", parser_class=Parser, required=True)
    for part in (AUDIT, EVALUATE, ATTRIBUTE, CLEAN):
        part.add_to(parts)
    report.add_to(parts)


def _opened(job: Job) -> tuple[Screen, dict[str, Any]]:
    """The table with the role of every row, which is shown before anything is fitted to it; and the other options."""
    from identifiable.deconfound import screen
    from identifiable.report.pages.screen import roles_table

    roles = {f.name for f in fields(ScreenOptions)}
    options = job.keywords()
    opened = screen(job.paths[0], **{name: options.pop(name) for name in roles})
    if not job.typed.quiet and sys.stderr is not None:
        print(roles_table(opened.representation.name, opened.summary), file=sys.stderr, flush=True)
    return opened, options


def _audit(job: Job) -> Any:
    from identifiable.deconfound import audit

    opened, options = _opened(job)
    return audit(opened, **options)


def _evaluate(job: Job) -> Any:
    from identifiable.deconfound import evaluate

    opened, options = _opened(job)
    return evaluate(opened, **options)


def _attribute(job: Job) -> Any:
    from identifiable.deconfound import attribute

    opened, options = _opened(job)
    return attribute(opened, **options)


def _clean(job: Job) -> Any:
    from identifiable.deconfound import clean

    opened, options = _opened(job)
    found = clean(opened, **options)
    outputs = tuple(filter(None, (job.typed.output, job.typed.save_basis)))
    return replace(found, result=replace(found.result, outputs=outputs))


def _check_evaluation(job: Job) -> None:
    if job.typed.scores is not None:
        check_suffix(job.typed.scores, SCORE_TABLES, "the long table")
    kept = job.options.checkpoint
    if kept is not None and Path(kept).exists() and not Path(kept).is_dir():
        raise OutputError(f"{kept}: expected a folder for finished parts, found a file; choose another name.")


def _check_basis(job: Job) -> None:
    if job.typed.output is not None:
        check_suffix(job.typed.output, (BASIS,), "a basis")


def _check_cleaning(job: Job) -> None:
    if job.typed.output is not None:
        check_suffix(job.typed.output, TABLES, "a cleaned table")
    if job.typed.save_basis is not None:
        check_suffix(job.typed.save_basis, (BASIS,), "a basis")


def _scores_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scores", metavar="PATH", help="write the long table, a line for each fold (.csv or .parquet)"
    )


def _basis_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="BASIS", help="keep the basis of the components (.safetensors)")


def _cleaning_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="PATH", help="the cleaned table: .h5ad (obsm), .parquet or .csv")
    add(
        "--save-basis",
        metavar="FILE",
        help="the cleaning as a basis (.safetensors): identifiable transform applies it to new plates",
    )
    add("--export", choices=("pycytominer",), help="in a .parquet or .csv, name metadata columns Metadata_…")


def _save_scores(job: Job, found: Any) -> Mapping[str, Callable[[str], object]]:
    from identifiable.deconfound import save_scores

    return {} if job.typed.scores is None else {job.typed.scores: lambda path: save_scores(path, found)}


def _save_basis(job: Job, found: Any) -> Mapping[str, Callable[[str], object]]:
    from identifiable.api import save_basis

    return {} if job.typed.output is None else {job.typed.output: lambda path: save_basis(path, found.resolved)}


def _save_cleaned(job: Job, found: Any) -> Mapping[str, Callable[[str], object]]:
    from identifiable.api import save_basis
    from identifiable.deconfound import save_cleaned

    save: dict[str, Callable[[str], object]] = {}
    if job.typed.output is not None:
        save[job.typed.output] = lambda path: save_cleaned(path, found, pycytominer=job.typed.export == "pycytominer")
    if job.typed.save_basis is not None:
        save[job.typed.save_basis] = lambda path: save_basis(path, found.basis)
    return save


AUDIT = Command(
    name="deconfound audit",
    text="What the design allows one to conclude, before any fit.",
    example="identifiable deconfound audit wells.parquet --control DMSO",
    options=AuditOptions,
    tables=TABLE,
    call=_audit,
    fields=lambda job: audit_fields(),
    gate="'stop > 0'",
    inputs=lambda job: [job.options.metadata],
    lines=True,
)
EVALUATE = Command(
    name="deconfound evaluate",
    text="Do Base, PCA, ICA and other representations separate perturbations from controls on plates held out?",
    example="identifiable deconfound evaluate wells.parquet --control DMSO --baselines tvn,combat --report evaluation.html",
    options=EvaluateOptions,
    tables=TABLE,
    call=_evaluate,
    fields=lambda job: evaluation_fields(),
    gate="'ica_minus_pca_low < 0'",
    more=_scores_option,
    check=_check_evaluation,
    inputs=lambda job: [job.options.metadata, job.options.basis],
    outputs=lambda job: [job.typed.scores],
    save=_save_scores,
    lines=True,
)
ATTRIBUTE = Command(
    name="deconfound attribute",
    text="What every component contains information about: plate, position, cell count, or perturbations.",
    example="identifiable deconfound attribute wells.parquet --control DMSO --report components.html",
    options=AttributeOptions,
    tables=TABLE,
    call=_attribute,
    fields=lambda job: attribution_fields(),
    gate="'technical > 10'",
    more=_basis_option,
    check=_check_basis,
    inputs=lambda job: [job.options.metadata, job.options.basis],
    outputs=lambda job: [job.typed.output],
    save=_save_basis,
    lines=True,
)
CLEAN = Command(
    name="deconfound clean",
    text="Drop or shrink technical components, and show what that costs.",
    example="identifiable deconfound clean wells.parquet --control DMSO -o cleaned.parquet --report cleaning.html",
    options=CleanOptions,
    tables=TABLE,
    call=_clean,
    fields=lambda job: cleaning_fields(),
    gate="'biology_lost > 0.1'",
    more=_cleaning_options,
    check=_check_cleaning,
    inputs=lambda job: [job.options.metadata, job.options.basis, job.options.relations or None],
    outputs=lambda job: [job.typed.output, job.typed.save_basis],
    save=_save_cleaned,
    lines=True,
)
