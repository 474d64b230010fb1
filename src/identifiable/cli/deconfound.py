"""`identifiable deconfound audit|evaluate|attribute|clean|report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identifiable._checks import OutputError, UsageError
from identifiable.cli import report
from identifiable.cli.conditions import Condition
from identifiable.cli.options import Parser, add_result_options, check_running_options, command, listed, recorded
from identifiable.cli.output import BASIS, check_outputs, check_page, check_suffix, deliver, exit_code, progress_bar
from identifiable.cli.screen_fields import attribution_fields, audit_fields, cleaning_fields, evaluation_fields
from identifiable.intake import default_provenance

if TYPE_CHECKING:
    from identifiable.deconfound import Screen

ROLES = ("preset", "batch", "plate", "well", "perturbation", "target", "control", "cell_count", "batch_key")
SOURCE = ("metadata", "ids", "features")
TABLES = (".parquet", ".h5ad", ".csv")
SCORE_TABLES = (".csv", ".parquet")
PRESETS = "rxrx3-core|jump|pycytominer|anndata"
FOLDS, PERMUTATIONS, MIN_WELLS = 5, 200, 20

Run = Callable[[argparse.Namespace], int]


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "deconfound",
        "what is plate, what is biology, and does it hold on plates never seen?",
        "identifiable deconfound audit wells.parquet --control DMSO --report audit.html",
    )
    parts = parser.add_subparsers(metavar="PART", parser_class=Parser, required=True)
    _add_audit(parts)
    _add_evaluate(parts)
    _add_attribute(parts)
    _add_clean(parts)
    report.add_to(parts)


# -- options


def _part(parts: Any, name: str, text: str, example: str, run: Run) -> argparse.ArgumentParser:
    """A part of the command with what all of them share: the table, the roles of its columns, where the result goes."""
    parser = command(parts, name, text, f"identifiable deconfound {name} {example}")
    add = parser.add_argument
    add(
        "table",
        metavar="TABLE",
        help="wells: .parquet, .csv, .tsv or .h5ad with their metadata, or .npy .npz .safetensors with --metadata; "
        "cells.h5ad:X_openphenom is a key of obsm",
    )
    group = parser.add_argument_group("roles of the columns (looked for by their usual names where not given)")
    role = group.add_argument
    role("--preset", metavar=PRESETS, help="roles by the habits of a data set")
    role("--batch", metavar="COLUMN", help="what plates belong to: an experiment, a week")
    role(
        "--plate",
        metavar="COLUMN",
        help="several with commas are joined; numbers that repeat in batches are told apart",
    )
    role("--well", metavar="COLUMN", help="addresses such as B02 or AF48")
    role("--perturbation", metavar="COLUMN", help="guide, or compound and dose (with commas)")
    role("--target", metavar="COLUMN", help="what perturbations share: a gene, a mechanism")
    role(
        "--control", metavar="WHICH", help="a perturbation or pattern ('*DMSO*'), COLUMN=VALUE, or a column of 0 and 1"
    )
    role("--cell-count", metavar="COLUMN", help="cells in the well")
    role("--batch-key", metavar="plate", help="plate: equal plate numbers in several batches are one plate")
    role("--metadata", metavar="FILE", help="a table of the same wells, joined on ids (.csv, .csv.gz, .tsv, .parquet)")
    role("--ids", metavar="COLUMN", help="the column of ids in both tables")
    role("--features", metavar="LIST", help="names or patterns of the columns of the embedding, with commas")
    add("--seed", type=int, default=0, help="seed of everything (default 0)")
    add("--workers", type=int, metavar="N", help="threads (default: all cores); changes no figure")
    add("--fail-if", action="append", default=[], metavar="COND", help="exit 1 if it holds; may repeat")
    add_result_options(parser)
    parser.set_defaults(run=run)
    return parser


def _add_audit(parts: Any) -> None:
    add = _part(
        parts, "audit", "what the design allows one to conclude, before any fit", "wells.parquet --control DMSO", _audit
    ).add_argument
    add("--folds", type=int, default=FOLDS, metavar="K", help=f"parts of the plates (default {FOLDS})")
    add("--permutations", type=int, default=PERMUTATIONS, metavar="N", help=f"for nulls (default {PERMUTATIONS})")
    _add_min_wells(add)


def _add_min_wells(add: Callable[..., Any]) -> None:
    add(
        "--min-wells",
        type=int,
        default=MIN_WELLS,
        metavar="N",
        help=f"perturbations with fewer wells are named and left out (default {MIN_WELLS})",
    )


def _add_evaluate(parts: Any) -> None:
    add = _part(
        parts,
        "evaluate",
        "do Base, PCA, ICA and other representations tell perturbations from controls on plates held out?",
        "wells.parquet --control DMSO --baselines tvn,combat --report evaluation.html",
        _evaluate,
    ).add_argument
    add("--representations", default="base,pca,ica,rand", metavar="LIST", help="(default base,pca,ica,rand)")
    add("--baselines", metavar="LIST", help="corrections to compare with: control-z, tvn, combat, harmony, …, or all")
    add(
        "--classifiers",
        default="lightgbm,ridge",
        metavar="LIST",
        help="lightgbm, ridge, logistic, l1 (default the first two)",
    )
    add("--targets", metavar="LIST", help="perturbations to tell from controls (default: those on most plates)")
    add("--max-targets", type=int, default=16, metavar="N", help="of them at most (default 16)")
    _add_min_wells(add)
    add("--level", choices=("perturbation", "target"), default="perturbation", help="what is told from controls")
    add("--against", choices=("controls", "others"), default="controls", help="controls, or other perturbations")
    add("--folds", type=int, default=FOLDS, metavar="K", help=f"parts of the plates (default {FOLDS})")
    add("--hold-out", default="plate", metavar="LIST", help="plate, batch or both with a comma (default plate)")
    add(
        "--fit", default="train", metavar="LIST", help="fit transforms on train plates, on all, or both (default train)"
    )
    add("--rank", type=_rank, default="auto", metavar="auto|K", help="principal directions to keep (default auto: all)")
    add(
        "--basis", metavar="FILE", help="score this basis too (fitted on patches, say): adds the representation 'given'"
    )
    add("--seeds", type=int, default=1, metavar="N", help="of the classifier (default 1)")
    add("--rotations", type=int, default=20, metavar="N", help="random rotations (default 20)")
    add("--null-guides", type=int, default=4, metavar="N", help="random controls called a guide (default 4)")
    add("--concentration", metavar="LIST", help="top per cents of features, for example 25,10,50 (default none)")
    add("--bootstrap", type=int, default=1000, metavar="N", help="draws of plates for intervals (default 1000)")
    add(
        "--protocol",
        choices=("default", "paper", "single-batch"),
        default="default",
        help="whose choices (default ours)",
    )
    add("--checkpoint", metavar="FOLDER", help="keep finished parts here, and go on from them; changes no figure")
    add("--scores", metavar="PATH", help="write the long table, a line for each fold (.csv or .parquet)")


def _add_attribute(parts: Any) -> None:
    add = _part(
        parts,
        "attribute",
        "what every component is about: plate, position, cell count, or perturbations",
        "wells.parquet --control DMSO --report components.html",
        _attribute,
    ).add_argument
    _add_components(add)
    add("-o", "--output", metavar="BASIS", help="keep the basis the components are of (.safetensors)")


def _add_components(add: Callable[..., Any]) -> None:
    add(
        "--basis",
        metavar="FILE",
        help="attribute the components of this basis (fitted on patches, say) in place of a new one",
    )
    add("--rank", type=_rank, default="auto", metavar="auto|K", help="principal directions to keep (default auto: all)")
    add(
        "--stability",
        type=int,
        default=6,
        metavar="N",
        help="refits on halves of the plates, an even number (default 6)",
    )
    add("--permutations", type=int, default=PERMUTATIONS, metavar="N", help=f"for p-values (default {PERMUTATIONS})")
    add("--fdr", type=float, default=0.05, metavar="Q", help="false discovery rate (default 0.05)")
    add("--top", type=int, default=10, metavar="N", help="perturbations to name for each component (default 10)")


def _add_clean(parts: Any) -> None:
    add = _part(
        parts,
        "clean",
        "drop or shrink technical components, and see what that costs",
        "wells.parquet --control DMSO -o cleaned.parquet --report cleaning.html",
        _clean,
    ).add_argument
    _add_components(add)
    add("-o", "--output", metavar="PATH", help="the cleaned table: .h5ad (obsm), .parquet or .csv")
    add(
        "--save-basis",
        metavar="FILE",
        help="the cleaning as a basis (.safetensors): identifiable transform applies it to new plates",
    )
    add("--method", choices=("drop", "shrink"), default="drop", help="(default drop)")
    add("--budget", type=float, default=0.1, metavar="SHARE", help="of the biology that may be lost (default 0.1)")
    add(
        "--relations",
        metavar="PAIRS",
        help="known pairs of perturbations or targets, in the first two columns of a table",
    )
    add("--export", choices=("pycytominer",), help="of a .parquet or .csv: metadata columns named Metadata_…")


# -- runs


def _audit(options: argparse.Namespace) -> int:
    from identifiable.deconfound import audit

    conditions = [Condition.parse(text, audit_fields()) for text in options.fail_if]
    _check(options)
    opened = _opened(options)
    with progress_bar(options, lines=True) as bar:
        found = audit(
            opened,
            folds=options.folds,
            permutations=options.permutations,
            min_wells=options.min_wells,
            **_shared(options, bar, {"folds": FOLDS, "permutations": PERMUTATIONS, "min_wells": MIN_WELLS}),
        )
    failed = [sentence for condition in conditions for sentence in condition.failures(found)]
    deliver(found, options)
    return exit_code(failed)


EVALUATE_DEFAULTS: dict[str, Any] = {
    "representations": "base,pca,ica,rand",
    "baselines": None,
    "classifiers": "lightgbm,ridge",
    "targets": None,
    "max_targets": 16,
    "min_wells": MIN_WELLS,
    "level": "perturbation",
    "against": "controls",
    "folds": FOLDS,
    "hold_out": "plate",
    "fit": "train",
    "rank": "auto",
    "basis": None,
    "seeds": 1,
    "rotations": 20,
    "null_guides": 4,
    "concentration": None,
    "bootstrap": 1000,
    "protocol": "default",
}


def _evaluate(options: argparse.Namespace) -> int:
    from identifiable.deconfound import CLASSIFIERS, CORRECTIONS, REPRESENTATIONS, evaluate, save_scores
    from identifiable.deconfounding.evaluation.options import FITS
    from identifiable.deconfounding.folds import HOLD_OUTS

    baselines = (
        tuple(CORRECTIONS)
        if options.baselines == "all"
        else _list(options.baselines, tuple(CORRECTIONS), "--baselines")
    )
    representations = listed(options.representations, tuple(REPRESENTATIONS), "--representations")
    conditions = [Condition.parse(text, evaluation_fields()) for text in options.fail_if]
    _check(options, [options.scores], [options.basis])
    if options.scores is not None:
        check_suffix(options.scores, SCORE_TABLES, "the long table")
    if options.checkpoint is not None and Path(options.checkpoint).exists() and not Path(options.checkpoint).is_dir():
        raise OutputError(
            f"{options.checkpoint}: expected a folder for finished parts, found a file; choose another name."
        )
    opened = _opened(options)
    with progress_bar(options, lines=True) as bar:
        found = evaluate(
            opened,
            representations=representations,
            corrections=baselines,
            classifiers=listed(options.classifiers, tuple(CLASSIFIERS), "--classifiers"),
            targets=None if options.targets is None else [name.strip() for name in options.targets.split(",")],
            max_targets=options.max_targets,
            min_wells=options.min_wells,
            level=options.level,
            against=options.against,
            folds=options.folds,
            hold_out=listed(options.hold_out, HOLD_OUTS, "--hold-out"),
            fit=listed(options.fit, FITS, "--fit"),
            rank=options.rank,
            basis=options.basis,
            seeds=options.seeds,
            rotations=options.rotations,
            null_guides=options.null_guides,
            concentration=_numbers(options.concentration, "--concentration"),
            bootstrap=options.bootstrap,
            protocol=options.protocol,
            checkpoint=options.checkpoint,
            **_shared(options, bar, EVALUATE_DEFAULTS),
        )
    failed = [sentence for condition in conditions for sentence in condition.failures(found)]
    deliver(
        found, options, save={} if options.scores is None else {options.scores: lambda path: save_scores(path, found)}
    )
    return exit_code(failed)


COMPONENT_DEFAULTS: dict[str, Any] = {
    "basis": None,
    "rank": "auto",
    "stability": 6,
    "permutations": PERMUTATIONS,
    "fdr": 0.05,
    "top": 10,
}


def _attribute(options: argparse.Namespace) -> int:
    from identifiable.api import save_basis
    from identifiable.deconfound import attribute

    conditions = [Condition.parse(text, attribution_fields()) for text in options.fail_if]
    _check(options, [options.output], [options.basis])
    if options.output is not None:
        check_suffix(options.output, (BASIS,), "a basis")
    opened = _opened(options)
    with progress_bar(options, lines=True) as bar:
        found = attribute(opened, **_components(options), **_shared(options, bar, COMPONENT_DEFAULTS))
    failed = [sentence for condition in conditions for sentence in condition.failures(found.result)]
    save = {} if options.output is None else {options.output: lambda path: save_basis(path, found.resolved)}
    deliver(found.result, options, save=save)
    return exit_code(failed)


def _clean(options: argparse.Namespace) -> int:
    from identifiable.api import save_basis
    from identifiable.deconfound import clean, save_cleaned

    conditions = [Condition.parse(text, cleaning_fields()) for text in options.fail_if]
    _check(options, [options.output, options.save_basis], [options.basis, options.relations])
    if options.output is not None:
        check_suffix(options.output, TABLES, "a cleaned table")
    if options.save_basis is not None:
        check_suffix(options.save_basis, (BASIS,), "a basis")
    defaults = {**COMPONENT_DEFAULTS, "method": "drop", "budget": 0.1, "relations": None, "export": None}
    opened = _opened(options)
    with progress_bar(options, lines=True) as bar:
        found = clean(
            opened,
            method=options.method,
            budget=options.budget,
            relations=options.relations or (),
            **_components(options),
            **_shared(options, bar, defaults),
        )
    failed = [sentence for condition in conditions for sentence in condition.failures(found.result)]
    save: dict[str, Callable[[str], object]] = {}
    if options.output is not None:
        save[options.output] = lambda path: save_cleaned(path, found, pycytominer=options.export == "pycytominer")
    if options.save_basis is not None:
        save[options.save_basis] = lambda path: save_basis(path, found.basis)
    deliver(replace(found.result, outputs=tuple(save)), options, save=save)
    return exit_code(failed)


def _components(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in COMPONENT_DEFAULTS}


def _opened(options: argparse.Namespace) -> Screen:
    """The table with the role of every row, which is shown before anything is fitted to it."""
    from identifiable.deconfound import screen
    from identifiable.report.pages.screen import roles_table

    roles = {name: getattr(options, name) for name in (*ROLES, *SOURCE) if getattr(options, name) is not None}
    if "features" in roles:
        roles["features"] = [name.strip() for name in roles["features"].split(",")]
    opened = screen(options.table, **roles)
    if not options.quiet and sys.stderr is not None:
        print(roles_table(opened.representation.name, opened.summary), file=sys.stderr, flush=True)
    return opened


def _shared(options: argparse.Namespace, bar: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """What every part passes on: seed, workers, progress, and the command that gives these figures again."""
    part = options.run.__name__.removeprefix("_")
    options.paths = [part, options.table]
    repeated = {**dict.fromkeys((*ROLES, *SOURCE)), **defaults, "seed": 0}
    return {
        "seed": options.seed,
        "workers": options.workers,
        "progress": bar,
        "provenance": default_provenance(options.seed, recorded("deconfound", options, repeated)),
    }


def _check(options: argparse.Namespace, outputs: Sequence[str | None] = (), inputs: Sequence[str | None] = ()) -> None:
    """Say what cannot work before the work."""
    check_running_options(options)
    sources = [path for path in (options.table, options.metadata, *inputs) if path is not None]
    check_outputs([options.json, options.report, *outputs], sources)
    check_page(options.report)


def _list(text: str | None, known: tuple[str, ...], flag: str) -> tuple[str, ...]:
    return () if text is None else listed(text, known, flag)


def _numbers(text: str | None, flag: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"{flag} {text!r}: expected numbers with commas, for example 25,10,50.") from None


def _rank(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a whole number, got {text!r}") from None
