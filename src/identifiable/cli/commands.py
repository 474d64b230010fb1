"""The command line: find the command, run it, turn an error into one line and an exit code."""

from __future__ import annotations

import argparse
import atexit
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from identifiable import __version__, _stopping
from identifiable._checks import IdentifiableError
from identifiable._stopping import complete, last_words, printable
from identifiable.cli.options import Parser
from identifiable.cli.output import EXIT_BUG, EXIT_USAGE, check_folder

DEBUG = "IDENTIFIABLE_DEBUG"  # an environment variable
NAMES = (  # of the files here, in the order of --help
    "compare",
    "resolve",
    "transform",
    "align",
    "bilipschitz",
    "mechanisms",
    "disentangle",
    "heads",
    "layers",
    "match",
    "extract",
    "deconfound",
    "simulate",
    "reproduce",
    "report",
    "demo",
)


def _command(name: str) -> Any:
    """What adds a command to the parser: the `COMMAND` of a file, or a file with an `add_to` of its own."""
    file = import_module(f"identifiable.cli.{name}")
    return file if hasattr(file, "add_to") else file.COMMAND


COMMANDS = tuple(map(_command, NAMES))


def run(arguments: Sequence[str] | None) -> int:
    """Run the command line and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started with it closed
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (it lives as long as the process)
            setattr(sys, name, nowhere)
            atexit.register(nowhere.close)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an arrow on an ASCII terminal is a question mark, not a failure
    complete.clear()
    parser = _parser(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser.parse_args(arguments)
        if options.run is None:
            parser.print_help()
            return EXIT_USAGE
        check_folder()
        code: int = options.run(options)
        return code
    except IdentifiableError as error:
        _wait_if_stopped()
        if os.environ.get(DEBUG):
            traceback.print_exc()
        print(printable(f"identifiable: {' '.join(str(error).split())}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # of a caller in Python; a process of ours does not raise it
        print(last_words("interrupted"), file=sys.stderr)
        return 130
    except MemoryError:
        print("identifiable: out of memory; pass fewer dimensions, or --workers 1.", file=sys.stderr)
        return 3
    except Exception as error:  # 1 means that a --fail-if condition holds, so it must not end as Python ends
        _wait_if_stopped()
        if os.environ.get(DEBUG):
            traceback.print_exc()
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        what = printable(what)
        print(f"identifiable: this is a bug ({what}); set {DEBUG}=1 to see where, and report it.", file=sys.stderr)
        return EXIT_BUG


def _wait_if_stopped() -> None:
    """Not to return once a signal is ending this process: it holds `steady` for ever, and the error is that it removes our files."""
    with _stopping.steady:
        pass


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of these arguments. All after the name of a command is read by that command: the others have nothing to add."""
    asked = COMMANDS
    if arguments and arguments[0] in NAMES:
        asked = (COMMANDS[NAMES.index(arguments[0])],)
    parser = Parser(
        prog="identifiable",
        description="If I trained this model again, would I get the same representation?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  identifiable demo",
    )
    parser.add_argument("--version", action="version", version=f"identifiable {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for command in asked:
        command.add_to(commands)
    return parser
