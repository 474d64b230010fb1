"""`identifiable disentangle Z FACTORS`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Condition
from identifiable.cli.disentanglement_fields import disentanglement_fields
from identifiable.cli.options import (
    TABLE_FORMATS,
    add_ids_option,
    add_result_options,
    check_running_options,
    command,
    listed,
    one_or_each,
    recorded,
)
from identifiable.cli.output import check_outputs, check_page, deliver, exit_code, progress_bar
from identifiable.intake import default_provenance

ALL = "all"
DEFAULTS: dict[str, Any] = {
    "ids": None,
    "metrics": None,
    "profile": "hsu-standalone",
    "resolve": None,
    "null": 0,
    "bootstrap": 0,
    "kinds": "auto",
    "factor_names": None,
    "seed": 0,
}  # what a recorded command repeats where it differs
ELSEWHERE = {  # metrics that do not take one table of latents and its factors
    "udr": "udr compares runs of a model without factors; in Python identifiable.metrics.udr([run1, run2])",
    "sis": "sis takes groups (slots) of latents and of factors; in Python identifiable.metrics.sis(latents, factors, slots_latents, "
    "slots_factors)",
}
FLAGS = ("noise_sweep", "discrete", "continuous", "drop_missing")  # and these where they are given


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "disentangle",
        "which latent tells of which factor, by InfoMEC and its peers?",
        "identifiable disentangle codes.npy factors.csv --resolve --noise-sweep --report disentangled.html",
    )
    add = parser.add_argument
    d = DEFAULTS
    add("latents", metavar="Z", help=f"latents: {TABLE_FORMATS}")
    add(
        "factors",
        metavar="FACTORS",
        help="the factors of the same rows, in such a file; they may be words, with their names in the first line of a .csv or .tsv, "
        "or one array each in a .npz",
    )
    add(
        "--metrics",
        metavar="LIST",
        help="comma-separated: infomec, dci, mig, mig_sup, jemmig, dcimig, modularity, explicitness, sap, irs, mcc, mcc_spearman, "
        "mcc_linear, r2, r2_kernel, betavae, factorvae, unsupervised; or all (default: the fast ones)",
    )
    add(
        "--profile",
        default=d["profile"],
        metavar="NAME",
        help="which InfoMEC: hsu-standalone (default), hsu-training, tripod or factorqvae; their scores do not compare",
    )
    add(
        "--resolve",
        nargs="?",
        const="centred",
        metavar="MODES",
        help="score again after ICA: centred (default), literal, whitened, or several with commas",
    )
    add("--noise-sweep", action="store_true", help="InfoMEC with noise added: tells leakage from mixture")
    add(
        "--null",
        type=int,
        default=0,
        metavar="N",
        help="shuffle the factors N times, for what chance scores (default 0)",
    )
    add(
        "--bootstrap",
        type=int,
        default=0,
        metavar="N",
        help="random splits of the rows into halves and quarters, for 95 %% intervals (default 0: none)",
    )
    add(
        "--kinds",
        default=d["kinds"],
        metavar="LIST",
        help="of the factors: auto (default), discrete or continuous, one for all or one for each with commas",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--discrete", action="store_true", help="latents are discrete codes (default: if whole numbers)")
    kind.add_argument("--continuous", action="store_true", help="latents are continuous, even if whole numbers")
    add("--factor-names", metavar="LIST", help="names of the factors, with commas, in place of those of the file")
    add_ids_option(parser)
    add(
        "--drop-missing",
        action="store_true",
        help="leave rows with a missing cell (empty, NA, NaN, …) out of both tables, in place of refusing them",
    )
    add("--seed", type=int, default=0, help="seed of splits, noise, shuffles and halves (default 0)")
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="COND",
        help="exit 1 if it holds, for example 'infom < 0.6', 'infom_low < 0.6' (of its interval), 'infom_p > 0.05', "
        "'mig < 0.2', 'dci.completeness < 0.5' or 'after.infom < 0.6' (after ICA); may repeat",
    )
    add("--workers", type=int, metavar="N", help="threads (default: all cores); changes no figure")
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.api.disentangling import disentangle
    from identifiable.disentanglement import DEFAULT_METRICS, METRICS, MODES, PROFILES

    options.paths = [options.latents, options.factors]
    metrics = _metrics(options.metrics, tuple(METRICS), DEFAULT_METRICS)
    modes = listed(options.resolve, tuple(MODES), "--resolve") if options.resolve is not None else ()
    if options.profile not in PROFILES:
        raise UsageError(f"--profile {options.profile}: expected one of {', '.join(PROFILES)}.")
    fields = disentanglement_fields(
        metrics=tuple(METRICS) if ALL in metrics else metrics,
        modes=modes,
        bootstrap=options.bootstrap > 0,
        null=options.null > 0,
    )
    conditions = [Condition.parse(text, fields) for text in options.fail_if]
    check_running_options(options)
    check_outputs([options.json, options.report], [*options.paths, *(options.ids or [])])
    check_page(options.report)
    flags = "".join(f" --{flag.replace('_', '-')}" for flag in FLAGS if getattr(options, flag))
    with progress_bar(options, lines=True) as bar:
        found = disentangle(
            *options.paths,
            ids=one_or_each(options.ids),
            factor_names=_names(options.factor_names),
            kinds=_kinds(options.kinds),
            discrete=True if options.discrete else False if options.continuous else None,
            metrics=metrics,
            profile=options.profile,
            resolve=modes,
            noise_sweep=options.noise_sweep,
            null=options.null,
            bootstrap=options.bootstrap,
            drop_missing=options.drop_missing,
            seed=options.seed,
            workers=options.workers,
            progress=bar,
            provenance=default_provenance(options.seed, recorded("disentangle", options, DEFAULTS) + flags),
        )
    # Before anything is written: a gate that cannot decide is wrong usage, which leaves no output.
    failed = [sentence for condition in conditions for sentence in condition.failures(found)]
    deliver(found, options)
    return exit_code(failed)


def _metrics(text: str | None, known: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return usual
    for name in (part.strip().lower() for part in text.split(",")):
        if name in ELSEWHERE and name not in known:
            raise UsageError(f"--metrics {text!r}: {ELSEWHERE[name]}.")
    return listed(text, (*known, ALL), "--metrics")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _kinds(text: str) -> str | list[str]:
    kinds = list(listed(text, ("auto", "discrete", "continuous"), "--kinds"))
    return kinds[0] if len(kinds) == 1 else kinds
