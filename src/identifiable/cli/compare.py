"""`identifiable compare A B [C ...]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.comparison_fields import comparison_fields
from identifiable.cli.conditions import Condition
from identifiable.cli.options import (
    TABLE_FORMATS,
    add_ids_option,
    add_result_options,
    add_running_options,
    check_running_options,
    command,
    listed,
    one_or_each,
    recorded,
)
from identifiable.cli.output import check_outputs, check_page, deliver, exit_code, progress_bar
from identifiable.identifiability.nulls import NULLS
from identifiable.identifiability.settings import DEFAULT, PROTOCOLS, RUNGS
from identifiable.intake import default_provenance

# Options that move a number, with their defaults: what a recorded command repeats.
DEFAULTS: dict[str, Any] = {
    "ids": None,
    **{name: ",".join(value) if isinstance(value, tuple) else value for name, value in vars(DEFAULT).items()},
}


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "compare",
        "are these the same representation, and up to what?",
        "identifiable compare run1.npy run2.npy --report page.html --fail-if 'rigid.held_out.q95 > 0.2'",
    )
    add = parser.add_argument
    d = DEFAULTS
    add("paths", nargs="+", metavar="X", help=f"two or more tables: {TABLE_FORMATS}")
    add_ids_option(parser)
    add("--groups", default=d["groups"], metavar="LIST", help="rungs to fit, comma-separated (default: all)")
    add("--folds", type=int, default=d["folds"], help=f"cross-validation folds (default {DEFAULT.folds})")
    add("--group-by", metavar="FILE:COLUMN", help="keep rows with one label together in folds and bootstrap")
    add(
        "--bootstrap",
        type=int,
        default=d["bootstrap"],
        metavar="N",
        help=f"bootstrap draws, 0 for none (default {DEFAULT.bootstrap})",
    )
    add("--nulls", default=d["nulls"], metavar="LIST", help="shuffle,rotation (default both) or none")
    add(
        "--null-draws",
        type=int,
        default=d["null_draws"],
        metavar="N",
        help=f"draws of each null (default {DEFAULT.null_draws})",
    )
    add(
        "--epsilon",
        type=float,
        default=d["epsilon"],
        help=f"error below which a group will do (default {DEFAULT.epsilon})",
    )
    add("--protocol", choices=PROTOCOLS, default=d["protocol"], help="paper: in-sample, diameter-normalised headline")
    add("--fail-if", action="append", default=[], metavar="COND", help="exit 1 if it holds for any pair; may repeat")
    add("--seed", type=int, default=d["seed"], help="seed of folds, bootstrap, nulls and ICA (default 0)")
    add_running_options(parser)
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    groups = listed(options.groups, RUNGS, "--groups")
    conditions = [Condition.parse(text, comparison_fields(groups)) for text in options.fail_if]
    if len(options.paths) < 2:
        raise UsageError(f"compare needs at least two tables, got {len(options.paths)}; name another file.")
    check_running_options(options)
    result = compared(
        options,
        options.paths,
        recorded("compare", options, DEFAULTS),
        ids=one_or_each(options.ids),
        groups=groups,
        folds=options.folds,
        group_by=options.group_by,
        bootstrap=options.bootstrap,
        nulls=() if options.nulls == "none" else listed(options.nulls, NULLS, "--nulls"),
        null_draws=options.null_draws,
        epsilon=options.epsilon,
        protocol=options.protocol,
        blocks=options.blocks,
        workers=options.workers,
        scheduler=options.scheduler,
    )
    # Before anything is written: a gate that cannot decide is wrong usage, which leaves no output.
    failed = [sentence for condition in conditions for sentence in condition.failures(result)]
    deliver(result, options)
    return exit_code(failed)


def compared(options: argparse.Namespace, paths: Sequence[str], words: str, **settings: Any) -> Any:
    """Check the outputs, then one call of the API; `words` is the command to record."""
    from identifiable.api import compare

    beside = [getattr(options, "group_by", None), *(getattr(options, "ids", None) or [])]
    check_outputs([options.json, options.report], [*paths, *filter(None, beside)])
    check_page(options.report)
    with progress_bar(options) as bar:
        return compare(
            *paths,
            seed=options.seed,
            progress=bar,
            provenance=default_provenance(options.seed, words),
            **settings,
        )
