"""The command line: find the command, run it, turn an error into one line and an exit code."""

from __future__ import annotations

import argparse
import atexit
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from typing import Any

from identifiable import __version__, _stopping
from identifiable._checks import IdentifiableError, OutputError, one_line, words_of
from identifiable._stopping import complete, last_words
from identifiable.cli.options import Parser
from identifiable.cli.output import EXIT_BUG, EXIT_USAGE, Stderr, check_folder, tell

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
    with redirect_stderr(Stderr(sys.stderr)):
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    parser, options = _parser(sys.argv[1:] if arguments is None else arguments), None
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
        tell(f"identifiable: {' '.join(str(error).split())}")
        return error.exit_code
    except KeyboardInterrupt:  # of a caller in Python; a process of ours does not raise it
        tell(last_words("interrupted"))
        return 130
    except MemoryError:
        tell("identifiable: out of memory; pass fewer dimensions, or --workers 1.")
        return 3
    except BaseException as error:  # 1 means that a --fail-if condition holds, so it must not end as Python ends
        if isinstance(error, SystemExit) and options is None:  # --help, --version
            raise
        _wait_if_stopped()
        if os.environ.get(DEBUG):
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # wherever it is looked for
            name = one_line(str(error.filename or "a path"))
            tell(f"identifiable: {name}: no file can have this name ({error.strerror}); choose a shorter one.")
            return OutputError.exit_code
        tell(f"identifiable: this is a bug ({words_of(error)}); set {DEBUG}=1 to see where, and report it.")
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
