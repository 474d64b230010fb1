"""How options are declared and read: parsers, options of one meaning everywhere, the recorded command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from identifiable._checks import UsageError

Name = TypeVar("Name", bound=str)

TABLE_FORMATS = ".npy .npz .csv .tsv .safetensors .parquet .h5ad (file:part names a part)"


class Parser(argparse.ArgumentParser):
    """Errors of one line, like every other error of this command; no guessing of shortened options."""

    def __init__(self, **options: Any):
        super().__init__(**{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'.")


def command(commands: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
    """The parser of one command; `text` and the runnable `example` are its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ("" if text.endswith("?") else "."),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Where the result goes."""
    parser.add_argument("--json", metavar="PATH", help="write the result as JSON (- for stdout)")
    parser.add_argument("--report", metavar="PATH", help="write a self-contained HTML page (or .md)")
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")


def add_ids_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ids",
        action="append",
        metavar="NAME",
        help="column, key or sidecar file with sample ids to join rows on; once for all, or once per table",
    )


def add_blocks_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--blocks", type=int, metavar="ROWS", help="rows to read from storage at once; changes no figure"
    )


def add_running_options(parser: argparse.ArgumentParser) -> None:
    """Where and how the work runs."""
    add_blocks_option(parser)
    add = parser.add_argument
    add("--scheduler", metavar="ADDRESS", help="let the workers of a Dask cluster read the rows; changes no figure")
    add("--workers", type=int, metavar="N", help="threads (default: all cores); changes no figure")


def check_running_options(options: argparse.Namespace) -> None:
    for name in ("blocks", "workers"):
        value = getattr(options, name, None)
        if value is not None and value < 1:
            raise UsageError(f"--{name} {value}: expected a whole number of at least 1.")


def one_or_each(ids: list[str] | None) -> str | list[str] | None:
    """What `--ids` means to the API: one name for all tables, or a list with one for each."""
    return ids[0] if ids and len(ids) == 1 else ids


def listed(text: str, choices: Sequence[Name], flag: str) -> tuple[Name, ...]:
    """The names in a comma-separated list, each one of `choices`."""
    known = {str(choice): choice for choice in choices}
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or not set(names) <= set(known):
        raise UsageError(f"{flag} {text!r}: expected a list of {', '.join(choices)}.")
    return tuple(known[name] for name in names)


def recorded(name: str, options: argparse.Namespace, defaults: Mapping[str, Any]) -> str:
    """The command that gives these figures again: the options in `defaults` that differ from them, nothing else."""
    words = ["identifiable", name, *options.paths]
    for option, default in defaults.items():
        value = getattr(options, option)
        for word in value if isinstance(value, list) else [value]:
            if word != default:
                words += ["--" + option.replace("_", "-"), str(word)]
    return shlex.join(words)
