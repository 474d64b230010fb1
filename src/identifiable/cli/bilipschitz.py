"""`identifiable bilipschitz Z --decoder module:attribute`."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Condition
from identifiable.cli.distortion_fields import distortion_fields
from identifiable.cli.importing import imported
from identifiable.cli.options import TABLE_FORMATS, add_result_options, command, recorded
from identifiable.cli.output import check_outputs, check_page, deliver, exit_code, progress_bar
from identifiable.intake import default_provenance
from identifiable.jacobians import RANDOM_DIRECTIONS

DEFAULTS: dict[str, Any] = {
    "decoder": None,
    "shape": None,
    "ids": None,
    "directions": RANDOM_DIRECTIONS,
    "seed": 0,
}  # what a recorded command repeats where it differs


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "bilipschitz",
        "how much does a decoder stretch and shrink, point by point, and what does that bound?",
        "identifiable bilipschitz latents.npy --decoder model:decoder --report distortion.html",
    )
    add = parser.add_argument
    add("paths", nargs=1, metavar="Z", help=f"latents at which to look, one point a row: {TABLE_FORMATS}")
    add(
        "--decoder",
        required=True,
        metavar="module:attribute|FILE.pt2",
        help="a torch.nn.Module in eval mode, an object with a jvp method, g(z) for torch or jvp(z, v) for numpy, of a module "
        "that can be imported from here (importing it runs its code); or an exported program (.pt2)",
    )
    add("--shape", metavar="A,B,…", help="of one point, for a torch decoder that does not take rows: 8,4,4")
    add(
        "--directions",
        type=int,
        default=RANDOM_DIRECTIONS,
        metavar="N",
        help=f"random directions of the paper's estimate, 0 for none (default {RANDOM_DIRECTIONS})",
    )
    add("--ids", metavar="NAME", help="column or key with sample ids, which is no latent")
    add("--seed", type=int, default=0, help="seed of directions and intervals (default 0)")
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="COND",
        help="exit 1 if it holds, for example 'constant > 3' (of the worst point), 'constant.q95 > 2', 'best_constant > 1.5' or "
        "'deficient > 0'; may repeat",
    )
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.api import bilipschitz
    from identifiable.api.decoders import PROGRAM

    conditions = [Condition.parse(text, distortion_fields()) for text in options.fail_if]
    shape = _shape(options.shape)
    is_program = Path(options.decoder).suffix.lower() == PROGRAM
    inputs = [*options.paths, *([options.decoder] if is_program else []), *filter(None, [options.ids])]
    check_outputs([options.json, options.report], inputs)
    check_page(options.report)
    # What the user's code prints must not end up in the result.
    with redirect_stdout(sys.stderr), progress_bar(options) as bar:
        found = bilipschitz(
            options.decoder if is_program else imported(options.decoder, "--decoder"),
            options.paths[0],
            shape=shape,
            directions=options.directions,
            seed=options.seed,
            ids=options.ids,
            name=options.decoder,
            progress=bar,
            provenance=default_provenance(options.seed, recorded("bilipschitz", options, DEFAULTS)),
        )
    failed = [sentence for condition in conditions for sentence in condition.failures(found)]
    deliver(found, options)
    return exit_code(failed)


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--shape {text!r}: expected whole numbers with commas, for example 8,4,4.") from None
