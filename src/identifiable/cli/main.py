"""Commands and their options."""

from __future__ import annotations

import argparse
import atexit
import io
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from identifiable import __version__
from identifiable._checks import IdentifiableError, OutputError, UsageError
from identifiable.cli.conditions import Condition
from identifiable.cli.progress import Bar
from identifiable.identifiability.nulls import NULLS
from identifiable.identifiability.settings import DEFAULT, PROTOCOLS, RUNGS
from identifiable.intake import default_provenance

EXIT_FINE, EXIT_CONDITION, EXIT_USAGE = 0, 1, 2
PAGE_SUFFIXES = (".html", ".htm", ".md")
DEMO_PAGE = "identifiable-demo.html"

# Options of `compare` that move a number, with their defaults: what a recorded command repeats.
COMPARE_DEFAULTS: dict[str, Any] = {
    "ids": None,
    **{name: ",".join(value) if isinstance(value, tuple) else value for name, value in vars(DEFAULT).items()},
}


class _Parser(argparse.ArgumentParser):
    """Errors of one line, like every other error of this command; no guessing of shortened options."""

    def __init__(self, **options: Any):
        super().__init__(**{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if sys.stdout is None:  # started with a closed stdout
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (it lives as long as the process)
        atexit.register(sys.stdout.close)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an arrow on an ASCII terminal is a question mark, not a failure
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        if options.run is None:
            parser.print_help()
            return EXIT_USAGE
        code: int = options.run(options)
        return code
    except IdentifiableError as error:
        print(f"identifiable: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("identifiable: interrupted; nothing was written.", file=sys.stderr)
        return 130
    except MemoryError:
        print("identifiable: out of memory; pass fewer dimensions, or --workers 1.", file=sys.stderr)
        return 3


def _say(text: str, end: str = "\n") -> None:
    """Print to stdout. A reader that has seen enough is not an error; a full disk is."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"stdout: cannot be written ({error.strerror}); free some space.") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="identifiable",
        description="If I trained this model again, would I get the same representation?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  identifiable demo",
    )
    parser.add_argument("--version", action="version", version=f"identifiable {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    _add_compare(commands)
    _add_report(commands)
    _add_demo(commands)
    return parser


def _command(commands: Any, name: str, text: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ("" if text.endswith("?") else "."),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="PATH", help="write the result as JSON (- for stdout)")
    parser.add_argument("--report", metavar="PATH", help="write a self-contained HTML page (or .md)")
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")


def _add_compare(commands: Any) -> None:
    parser = _command(
        commands,
        "compare",
        "are these the same representation, and up to what?",
        "identifiable compare run1.npy run2.npy --report page.html --fail-if 'rigid.held_out.q95 > 0.2'",
    )
    add = parser.add_argument
    d = COMPARE_DEFAULTS
    add(
        "paths",
        nargs="+",
        metavar="X",
        help="two or more tables: .npy .npz .csv .tsv .safetensors (file:part names a part)",
    )
    add(
        "--ids",
        action="append",
        metavar="NAME",
        help="column, key or sidecar file with sample ids to join rows on; once for all, or once per table",
    )
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
    add("--blocks", type=int, metavar="ROWS", help="rows to read from storage at once; changes no figure")
    add("--scheduler", metavar="ADDRESS", help="let the workers of a Dask cluster read the rows; changes no figure")
    add("--workers", type=int, metavar="N", help="threads (default: all cores); changes no figure")
    _add_output_options(parser)
    parser.set_defaults(run=_compare)


def _add_report(commands: Any) -> None:
    parser = _command(
        commands, "report", "draw a page again from a saved result", "identifiable report result.json -o page.html"
    )
    parser.add_argument("result", metavar="RESULT.json")
    parser.add_argument(
        "-o", "--output", required=True, metavar="PATH", help="page to write (.html, or .md for Markdown)"
    )
    parser.set_defaults(run=_report)


def _add_demo(commands: Any) -> None:
    parser = _command(
        commands,
        "demo",
        "compare three autoencoders of handwritten digits that ship with the package",
        "identifiable demo",
    )
    parser.add_argument("--seed", type=int, default=0)
    _add_output_options(parser)
    parser.set_defaults(run=_demo)


def _compare(options: argparse.Namespace) -> int:
    groups = _listed(options.groups, RUNGS, "--groups")
    conditions = [Condition.parse(text, groups) for text in options.fail_if]
    if len(options.paths) < 2:
        raise UsageError(f"compare needs at least two tables, got {len(options.paths)}; name another file.")
    for flag, value in (("--blocks", options.blocks), ("--workers", options.workers)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} {value}: expected a whole number of at least 1.")
    result = _compared(
        options,
        options.paths,
        _recorded(options),
        ids=options.ids[0] if options.ids and len(options.ids) == 1 else options.ids,
        groups=groups,
        folds=options.folds,
        group_by=options.group_by,
        bootstrap=options.bootstrap,
        nulls=() if options.nulls == "none" else _listed(options.nulls, NULLS, "--nulls"),
        null_draws=options.null_draws,
        epsilon=options.epsilon,
        protocol=options.protocol,
        blocks=options.blocks,
        workers=options.workers,
        scheduler=options.scheduler,
    )
    # Before anything is written: a gate that cannot decide is wrong usage, which leaves no output.
    failed = [sentence for c in conditions for sentence in c.failures(result)]
    _deliver(result, options)
    for sentence in failed:
        print(f"identifiable: failed: {sentence}", file=sys.stderr)
    return EXIT_CONDITION if failed else EXIT_FINE


def _compared(options: argparse.Namespace, paths: Sequence[Any], command: str, **settings: Any) -> Any:
    """Check the outputs, then one call of the API with a progress bar where someone looks."""
    from identifiable.api import compare

    _check_outputs([options.json, options.report], [*paths, *filter(None, [getattr(options, "group_by", None)])])
    _check_page(options.report)
    visible = not options.quiet and sys.stderr.isatty()
    with Bar() if visible else nullcontext() as bar:
        return compare(
            *paths,
            seed=options.seed,
            progress=bar,
            provenance=default_provenance(options.seed, command),
            **settings,
        )


def _deliver(result: Any, options: argparse.Namespace, *, always_path: bool = False) -> None:
    """Write what was asked for, all or nothing, then print the table unless stdout carries the JSON."""
    from identifiable.results import write_texts

    texts = {}
    if options.report:
        texts[options.report] = page(result, options.report)
    if options.json and options.json != "-":
        texts[options.json] = result.to_json()
    write_texts(texts)
    if options.json == "-":
        _say(result.to_json(), end="")
        return
    if not options.quiet:
        _say(result.table())
    if options.report and (always_path or not options.quiet):
        _say(f"page: {Path(options.report).resolve() if always_path else options.report}")


def _report(options: argparse.Namespace) -> int:
    from identifiable.api import load
    from identifiable.results import write_text

    _check_outputs([options.output], [options.result])
    _check_page(options.output)
    text = page(load(options.result), options.output)
    if options.output == "-":
        _say(text, end="")
    else:
        write_text(options.output, text)
        _say(options.output)
    return EXIT_FINE


def _demo(options: argparse.Namespace) -> int:
    from importlib.resources import as_file, files

    options.report = options.report or DEMO_PAGE
    with as_file(files("identifiable") / "data" / "digits_autoencoders.npz") as data:
        result = _compared(
            options, [f"{data}:{run}" for run in ("run1", "run2", "run3")], "identifiable demo", ids="ids"
        )
    _deliver(result, options, always_path=True)
    return EXIT_FINE


def page(result: Any, path: str) -> str:
    """HTML, or Markdown where the name ends in .md."""
    from identifiable import report

    return report.markdown(result) if path.lower().endswith(".md") else report.html(result)


def _check_page(path: str | None) -> None:
    if path is None or path == "-" or _is_device(Path(path)):
        return
    if Path(path).suffix.lower() not in PAGE_SUFFIXES:
        raise UsageError(f"{path}: a page is written as {' or '.join(PAGE_SUFFIXES)}; choose a name that says which.")


def _is_device(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:  # a name no file can have: said when it is written
        return False


def _check_outputs(paths: Sequence[str | None], inputs: Sequence[str]) -> None:
    """Say that an output cannot be written before an hour of work, not after; and never write over an input."""
    named = [path for path in paths if path is not None and path != "-"]
    if len({os.path.realpath(path) for path in named}) < len(named):
        raise UsageError(f"{named[0]}: the JSON and the page cannot go to one file; choose two names.")
    for path in named:
        target = Path(path)
        folder = target.parent
        why = None
        if target.is_dir():
            why = "it is a directory"
        elif not folder.is_dir():
            why = f"there is no folder {folder}"
        elif not os.access(target if _is_device(target) else folder, os.W_OK):
            why = "permission denied"
        elif target.is_file() and any(_same_file(target, source) for source in inputs):
            why = "it is one of the inputs"
        if why:
            raise OutputError(f"{path}: cannot write there ({why}); choose another path.")


def _same_file(target: Path, source: str) -> bool:
    """Whether `source`, perhaps with a part after a colon, is the file `target`."""
    names = [source, source.rpartition(":")[0]]
    return any(name and os.path.exists(name) and os.path.samefile(target, name) for name in names)


def _listed(text: str, choices: Sequence[str], flag: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    wrong = [name for name in names if name not in choices]
    if wrong or not names:
        raise UsageError(f"{flag} {text!r}: expected a list of {', '.join(choices)}.")
    return names


def _recorded(options: argparse.Namespace) -> str:
    """The command that gives these figures again: everything that moves a number, nothing else."""
    words = ["identifiable", "compare", *options.paths]
    for name, default in COMPARE_DEFAULTS.items():
        value = getattr(options, name)
        for word in value if isinstance(value, list) else [value]:
            if word != default:
                words += ["--" + name.replace("_", "-"), str(word)]
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
