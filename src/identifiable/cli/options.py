"""The command line of a declared set of options: its parser, the options that were given, the recorded command."""

from __future__ import annotations

import argparse
import shlex
import typing
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from identifiable._checks import UsageError
from identifiable.cli.output import say
from identifiable.options import Declared, Options, declared

Kind = TypeVar("Kind", bound=Options)

TABLE_FORMATS = (
    ".npy .npz .csv .tsv .safetensors .pt .parquet .arrow .feather .h5ad .h5 .zarr (file:part names a part), many files "
    "('runs/*.npy', a folder), a URL (s3://…)"
)
ALL, NONE = "all", "none"  # in place of a list: every choice, or an empty one


class Parser(argparse.ArgumentParser):
    """Errors of one line, like every other error of this command; no guessing of shortened options."""

    def __init__(self, **options: Any):
        super().__init__(**{**options, "allow_abbrev": False})

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """Nothing is left over: the command that does not know an option says so, and names its own help."""
        found, left = super().parse_known_args(*given, **named)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def _print_message(self, message: str, file: object = None) -> None:
        """Help and the version, as every result: argparse itself would not say that a disk is full."""
        say(message, end="")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'.")


def command(commands: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
    """The parser of one command; `text` and the runnable `example` are its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text[0].lower() + text[1:].rstrip("."),
        description=text,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_options(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """The options of a class. What is not given stays out of the namespace, so defaults are in the class alone."""
    groups: dict[str, Any] = {}
    for option in declared(kind):
        if option.flag is None:
            continue
        place: Any = parser
        if option.option.group is not None:
            place = groups.setdefault(option.option.group, None) or parser.add_argument_group(option.option.group)
            groups[option.option.group] = place
        if option.option.negative is not None:
            place = place.add_mutually_exclusive_group()
        flags = [flag for flag in (option.option.short, option.flag) if flag]
        place.add_argument(*flags, dest=option.name, default=argparse.SUPPRESS, help=_help(option), **_form(option))
        if option.option.negative is not None:
            place.add_argument(
                option.option.negative,
                dest=option.name,
                action="store_false",
                default=argparse.SUPPRESS,
                help=f"switches {option.flag} off",
            )


def given(kind: type[Kind], namespace: argparse.Namespace, **beside: Any) -> Kind:
    """The options of a class as the command line gave them."""
    found = {}
    for option in declared(kind):
        value = getattr(namespace, option.name, None)
        if value is None or option.flag is None:
            continue
        texts = value if isinstance(value, list) else [value]
        values = [text if isinstance(text, bool) else _value(option, text) for text in texts]
        found[option.name] = values if len(values) > 1 else values[0]
    try:
        return kind(**{**found, **beside})
    except UsageError as error:  # in the words of the command line
        name = str(error).partition(" ")[0].rstrip(":")
        flag = next((option.flag for option in declared(kind) if option.name == name), None)
        raise UsageError(str(error).replace(name, flag, 1) if flag else str(error)) from None


def recorded(name: str, paths: Sequence[str], options: Options, written: Sequence[str] = ()) -> str:
    """The command that gives these results again: the options that affect them and differ from their defaults; then `written`, the
    words that name further files, which a page tells what to do with."""
    words = ["identifiable", *name.split(), *paths]
    for option in declared(type(options)):
        value = getattr(options, option.name)
        if not option.option.moves or option.flag is None or value == option.default:
            continue
        if isinstance(value, bool):
            words.append(option.flag if value else typing.cast(str, option.option.negative))
            continue
        if option.option.values > 1:
            words += [option.flag, *map(str, value)]
            continue
        for word in value if option.option.repeat and isinstance(value, list | tuple) else [value]:
            words += [option.flag, ",".join(map(str, word)) or NONE if isinstance(word, list | tuple) else str(word)]
    return shlex.join([*words, *written])


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Where the result goes."""
    parser.add_argument("--json", metavar="PATH", help="write the result as JSON (- for stdout)")
    parser.add_argument("--report", metavar="PATH", help="write a self-contained HTML page (or .md)")
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")


def _help(option: Declared) -> str:
    shown = option.option.shown or (
        ",".join(map(str, option.default)) if isinstance(option.default, tuple) else str(option.default)
    )
    nothing = option.default is None or option.default is False or option.default in ((), "")
    unset = option.option.shown is None and nothing
    more = "; may repeat" if option.option.repeat else ""
    default = "" if unset else " (default)" if option.default is True else f" (default {shown})"
    listed = f": {', '.join(option.choices)}" if option.choices and option.item is not None else ""
    return f"{option.option.help}{listed}{more}{default}".replace("%", "%%")


def _form(option: Declared) -> dict[str, Any]:
    """How argparse reads it. Values stay text here: `given` reads them, so that every error is ours."""
    if option.kind is bool:
        return {"action": "store_true"}
    words = "{" + ",".join(option.choices) + "}" if option.choices and option.item is None else None
    form: dict[str, Any] = {
        "metavar": option.option.metavar or words or option.name.upper(),
        "required": option.option.required,
    }
    if option.option.repeat:
        form["action"] = "append"
    if option.option.values > 1:
        form["nargs"] = option.option.values
    if option.option.bare is not None:
        form |= {"nargs": "?", "const": option.option.bare}
    return form


def _value(option: Declared, text: str) -> Any:
    """The text after a flag as the declared type has it; what does not fit is left for the check of the options to refuse."""
    if option.option.read is not None:
        return option.option.read(text)
    if option.item is None:
        return _number(text, option.kind)
    if text == NONE:
        return ()
    if text == ALL and ALL not in option.choices and option.choices:
        return option.choices
    return tuple(_number(part.strip(), option.item) for part in text.split(",") if part.strip())


def _number(text: str, kind: Any) -> Any:
    kinds = (kind, *typing.get_args(kind))
    for wanted in (int, float):
        if wanted in kinds:
            try:
                return wanted(text)
            except ValueError:
                continue
    return text
