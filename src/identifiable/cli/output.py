"""What leaves a command: files (all or none), the table, the exit code. Checked before the work, not after it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from identifiable._checks import OutputError, UsageError
from identifiable._stopping import printable
from identifiable.cli.progress import Bar, Lines
from identifiable.results import Alert
from identifiable.results.writing import together, write_texts

EXIT_FINE, EXIT_CONDITION, EXIT_USAGE = 0, 1, 2
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h
BASIS = ".safetensors"
PAGE_SUFFIXES = (".html", ".htm", ".md")


def progress_bar(options: argparse.Namespace) -> AbstractContextManager[Bar | Lines | None]:
    """A bar on stderr where someone looks; elsewhere a line now and then, of long work, for its log."""
    if options.quiet:
        return nullcontext()
    return Bar() if sys.stderr.isatty() else nullcontext(Lines())


class _Stderr:
    """stderr of a command: what cannot be said there, because a disk is full or its reader is gone, is lost and changes nothing else."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with self._lost():
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        with self._lost():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # ValueError: the user's code has closed it
            with suppress(OSError, ValueError):  # what waits in its buffer would fail again when Python ends
                _to_nowhere(self._stream)


def Stderr(stream: TextIO) -> TextIO:
    """`stream` as a command writes to it: nothing fails that is written there, be it by the code of a user."""
    return cast(TextIO, _Stderr(stream))


def tell(text: str, end: str = "\n") -> None:
    """Print to stderr, at once: the last words of a signal must not come between a line and its end."""
    print(printable(text) + end, end="", file=sys.stderr, flush=True)


@contextmanager
def prints_aside() -> Iterator[None]:
    """What the user's code prints goes to stderr: it must not end up in the result. So does what it writes to our stdout by its number."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        sys.stdout.flush()
        kept = os.dup(out)
    except (OSError, ValueError):  # not files, as in a notebook
        out = kept = -1
    try:
        if kept >= 0:
            os.dup2(err, out)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, out)
            os.close(kept)


def _to_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def say(text: str, end: str = "\n") -> None:
    """Print to stdout. A reader that has seen enough is not an error; a full disk is."""
    try:
        print(printable(text), end=end, flush=True)
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
    except OSError as error:
        _to_nowhere(sys.stdout)
        raise OutputError(f"stdout: cannot be written ({error.strerror}); free some space.") from None


def warn(alerts: Sequence[Alert]) -> None:
    """What a user must know of a command that has no result to carry it, on stderr."""
    from identifiable.report.frame import notices
    from identifiable.report.render.terminal import printed

    if alerts:
        tell(printed(notices(alerts)), end="")


def deliver(
    result: Any,
    options: argparse.Namespace,
    *,
    save: Mapping[str, Callable[[str], object]] | None = None,
    always_path: bool = False,
) -> None:
    """Write what was asked for, all or nothing, and print the table unless stdout carries the JSON.

    `save` has a function for every further file, which writes it to the path it is given (through `whole_file`).
    """
    texts = {}
    if options.report:
        texts[options.report] = page(result, options.report)
    if options.json and options.json != "-":
        texts[options.json] = result.to_json()
    with together():
        saved = {path: write(path) for path, write in (save or {}).items()}
        write_texts(texts)
        # Before the files take their names: they must not appear if stdout is a full disk.
        if options.json == "-":
            say(result.to_json(), end="")
        elif not options.quiet:
            say(result.table())
    if options.json == "-":
        return
    if not options.quiet:
        for path in saved:
            what = getattr(result, "written", "basis" if Path(path).suffix.lower() == BASIS else "table")
            say(f"{what}: {path}")
    if options.report and (always_path or not options.quiet):
        say(f"page: {Path(options.report).resolve() if always_path else options.report}")
    for file in saved.values():
        if not options.quiet and (said := getattr(file, "said", None)):
            say(said)


def exit_code(failed: Iterable[str]) -> int:
    """Say which `--fail-if` conditions hold; 1 if any does."""
    code = EXIT_FINE
    for sentence in failed:
        tell(f"identifiable: failed: {sentence}")
        code = EXIT_CONDITION
    return code


def page(result: Any, path: str) -> str:
    """HTML, or Markdown where the name ends in .md."""
    from identifiable import report

    return report.markdown(result) if path.lower().endswith(".md") else report.html(result)


def check_page(path: str | None) -> None:
    """Refuse a page whose name does not say what it is. One for stdout would stand between the lines of the table."""
    if path is not None and not _is_device(Path(path)):
        check_suffix(path, PAGE_SUFFIXES)


def check_suffix(path: str, suffixes: Sequence[str]) -> None:
    """Refuse a name that does not end as files of its kind do."""
    found = Path(path).suffix
    if found.lower() not in suffixes:
        example = f"{path.removesuffix(found) if found else path}{suffixes[0]}"
        raise UsageError(
            f"{path}: expected a name that ends in {' or '.join(suffixes)}, got {found or 'none'}; for example {example}."
        )


def check_folder() -> None:
    """Refuse to run in a folder that was removed: no path can be made absolute there, not even for what goes elsewhere."""
    try:
        os.getcwd()
    except OSError as error:
        raise OutputError(
            f"the current folder cannot be used ({error.strerror}); change to one that is there."
        ) from None


def check_outputs(paths: Sequence[str | None], inputs: Iterable[str]) -> None:
    """Say that an output cannot be written before an hour of work, not after; and never write over an input."""
    named = [path for path in paths if path is not None and path != "-"]
    places = [os.path.realpath(path) for path in named]
    sources = list(inputs)
    for path, place in zip(named, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path}: two outputs cannot go to one file; choose two names.")
    for path in named:
        target = Path(path)
        folder = target.parent
        opened = [target] * target.exists() + [folder] * (not _is_device(target))
        why = None
        if target.is_dir():
            why = "it is a directory"
        elif not folder.is_dir():
            why = f"there is no folder {folder}"
        elif not all(os.access(place, os.W_OK) for place in opened):
            why = "permission denied"
        elif target.is_file() and any(_same_file(target, source) for source in sources):
            why = "it is one of the inputs"
        if why:
            raise OutputError(f"{path}: cannot write there ({why}); choose another path.")


def _is_device(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:  # a name no file can have: said when it is written
        return False


def _same_file(target: Path, source: str) -> bool:
    """Whether `source`, perhaps with a part after a colon, is the file `target`."""
    names = [source, *(source[:i] for i, character in enumerate(source) if character == ":")]
    return any(name and os.path.exists(name) and os.path.samefile(target, name) for name in names)
