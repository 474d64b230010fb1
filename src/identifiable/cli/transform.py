"""`identifiable transform basis.safetensors X -o Z.npy`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable.cli.options import TABLE_FORMATS, add_blocks_option, check_running_options, command
from identifiable.cli.output import EXIT_FINE, check_outputs, check_suffix, progress_bar, say, warn
from identifiable.io.saving import WRITERS

DTYPES = ("float32", "float64")


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "transform",
        "components of new rows in a saved basis, or rows from components",
        "identifiable transform basis.safetensors new.npy -o components.npy",
    )
    add = parser.add_argument
    add("basis", metavar="BASIS", help="what resolve wrote")
    add("table", metavar="X", help=f"rows with the columns the basis was fitted to: {TABLE_FORMATS}")
    add("-o", "--output", required=True, metavar="PATH", help=f"file to write: {' '.join(WRITERS)}")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--inverse", action="store_true", help="X holds components: go back to the space of the data")
    one.add_argument(
        "--only-identifiable",
        action="store_true",
        help="write only the components that the result of resolve calls reproducible",
    )
    add("--ids", metavar="NAME", help="column, key or sidecar file with sample ids, to write beside the values")
    add_blocks_option(parser)
    add("--dtype", choices=DTYPES, help="of the values written (default: float64, or float32 if X is not finer)")
    add("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.api import load_basis
    from identifiable.api.transforming import apply_basis

    check_running_options(options)
    check_suffix(options.output, tuple(WRITERS), "an array")
    check_outputs([options.output], filter(None, [options.basis, options.table, options.ids]))
    basis = load_basis(options.basis)
    with progress_bar(options) as bar:
        done = apply_basis(
            basis,
            options.table,
            options.output,
            inverse=options.inverse,
            only_identifiable=options.only_identifiable,
            blocks=options.blocks,
            ids=options.ids,
            dtype=options.dtype,
            progress=bar,
        )
    if not options.quiet:
        n, kept = done.shape
        of = f" ({kept} of {basis.result.rank} columns)" if options.only_identifiable else ""
        say(f"{n} x {kept}{of}: {options.output}")
        warn(done.alerts)
    return EXIT_FINE
