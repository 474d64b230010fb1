"""`identifiable deconfound audit|recommend|evaluate|attribute|clean|report`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from identifiable._checks import OutputError
from identifiable.cli import report
from identifiable.cli.measuring import Command, Job, Output
from identifiable.cli.options import Parser, command
from identifiable.cli.output import BASIS, tell
from identifiable.options import (
    AttributeOptions,
    AuditOptions,
    CleanOptions,
    EvaluateOptions,
    RecommendOptions,
    ScreenOptions,
)
from identifiable.results import Attribution, Audit, Cleaning, Recommendation, ScreenEvaluation

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
    for part in PARTS:
        part.add_to(parts)
    report.add_to(parts)


def _calling(name: str) -> Callable[[Job], Any]:
    """Open the table and show the role of every row, before anything is fitted to it; then call `identifiable.deconfound.NAME`."""

    def call(job: Job) -> Any:
        from identifiable import deconfound
        from identifiable.report.pages.screen import roles_table

        options = job.keywords()
        opened = deconfound.screen(job.paths[0], **{f.name: options.pop(f.name) for f in fields(ScreenOptions)})
        if not job.typed.quiet:
            tell(roles_table(opened.representation.name, opened.summary))
        return getattr(deconfound, name)(opened, **options)

    return call


def _clean(job: Job) -> Any:
    found = _calling("clean")(job)
    outputs = () if _withheld(job, found) else tuple(filter(None, (job.typed.output, job.typed.save_basis)))
    return replace(found, result=replace(found.result, outputs=outputs))


def _withheld(job: Job, found: Any) -> str:
    """A table that is not as good as the one that came is written only if asked twice."""
    result = found.result
    if result.harmless or job.typed.force:
        return ""
    names = " and ".join(filter(None, (job.typed.output, job.typed.save_basis)))
    return f"{names} not written, because the verdict is {result.verdict}; use the input, or pass --force."


def _recommend(job: Job) -> Any:
    found = _calling("recommend")(job)
    outputs = tuple(filter(None, (job.typed.output, job.typed.save)))
    return replace(found, result=replace(found.result, outputs=outputs))


def _save_recommended(job: Job, found: Any, path: str) -> object:
    from identifiable.deconfound import save_recommended

    return save_recommended(path, found, pycytominer=job.typed.export == "pycytominer")


def _check_checkpoint(job: Job) -> None:
    kept = job.options.checkpoint
    if kept is not None and Path(kept).exists() and not Path(kept).is_dir():
        raise OutputError(f"{kept}: expected a folder for finished parts, found a file; choose another name.")


def _export_option(parser: argparse.ArgumentParser) -> None:
    text = "in a .parquet or .csv, name metadata columns Metadata_…"
    parser.add_argument("--export", choices=("pycytominer",), help=text)


def _output_options(parser: argparse.ArgumentParser) -> None:
    _export_option(parser)
    parser.add_argument("--components", action="store_true", help="write the components that are kept, not features")
    parser.add_argument(
        "--force", action="store_true", help="write the cleaned table even if it is worse than the input"
    )


def _save_scores(job: Job, found: Any, path: str) -> None:
    from identifiable.deconfound import save_scores

    save_scores(path, found)


def _save_basis(job: Job, found: Any, path: str) -> None:
    from identifiable.api import save_basis

    save_basis(path, found.resolved if job.options.__class__ is AttributeOptions else found.basis)


def _save_cleaned(job: Job, found: Any, path: str) -> object:
    from identifiable.deconfound import save_cleaned

    return save_cleaned(
        path,
        found,
        pycytominer=job.typed.export == "pycytominer",
        components=job.typed.components,
        force=job.typed.force,
    )


_part = partial(Command, tables=TABLE)
PARTS = (
    _part(
        name="deconfound audit",
        text="What the design allows one to conclude, before any fit.",
        example="identifiable deconfound audit wells.parquet --control DMSO",
        options=AuditOptions,
        call=_calling("audit"),
        result=lambda job: Audit,
        gate="'stop > 0'",
        inputs=lambda job: [job.options.metadata],
    ),
    _part(
        name="deconfound recommend",
        text="Which correction helps, chosen with whole batches held out; or to keep the table as it is.",
        example="identifiable deconfound recommend wells.parquet --control DMSO -o corrected.parquet --report recommendation.html",
        options=RecommendOptions,
        call=_recommend,
        result=lambda job: Recommendation,
        gate="'stable < 0.8'",
        more=_export_option,
        inputs=lambda job: [job.options.metadata],
        files=(
            Output(
                ("-o", "--output"),
                "the corrected table, or the input as it is if nothing helps",
                (".parquet", ".h5ad", ".csv"),
                _save_recommended,
            ),
            Output(
                ("--save",),
                "the correction, which identifiable transform applies to new plates",
                (BASIS,),
                _save_basis,
            ),
        ),
    ),
    _part(
        name="deconfound evaluate",
        text="Do Base, PCA, ICA and other representations separate perturbations from controls on plates held out?",
        example="identifiable deconfound evaluate wells.parquet --control DMSO --baselines tvn,combat --report evaluation.html",
        options=EvaluateOptions,
        call=_calling("evaluate"),
        result=lambda job: ScreenEvaluation,
        gate="'ica_minus_pca_low < 0'",
        check=_check_checkpoint,
        inputs=lambda job: [job.options.metadata, job.options.basis],
        files=(Output(("--scores",), "the long table, a line for each fold", (".csv", ".parquet"), _save_scores),),
    ),
    _part(
        name="deconfound attribute",
        text="What every component contains information about: plate, position, cell count, or perturbations.",
        example="identifiable deconfound attribute wells.parquet --control DMSO --report components.html",
        options=AttributeOptions,
        call=_calling("attribute"),
        result=lambda job: Attribution,
        gate="'technical > 10'",
        inputs=lambda job: [job.options.metadata, job.options.basis],
        files=(Output(("-o", "--output"), "the basis of the components", (BASIS,), _save_basis),),
    ),
    _part(
        name="deconfound clean",
        text="Drop or shrink technical components, and show what that costs.",
        example="identifiable deconfound clean wells.parquet --control DMSO -o cleaned.parquet --report cleaning.html",
        options=CleanOptions,
        call=_clean,
        result=lambda job: Cleaning,
        gate="'biology_lost > 0.1'",
        more=_output_options,
        withheld=_withheld,
        inputs=lambda job: [job.options.metadata, job.options.basis, job.options.relations or None],
        files=(
            Output(
                ("-o", "--output"),
                "the cleaned table, features under their names",
                (".parquet", ".h5ad", ".csv"),
                _save_cleaned,
            ),
            Output(
                ("--save-basis",),
                "the cleaning as a map of features, which identifiable transform applies to new plates",
                (BASIS,),
                _save_basis,
            ),
        ),
    ),
)
OPTIONS = {part.name: part.options for part in PARTS}
