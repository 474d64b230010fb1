"""A command that measures something: declared here, run the same way for all of them.

Parse, check every output and condition before the work, one call, write all or nothing, print, pick an exit code.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from identifiable.cli.conditions import Condition
from identifiable.cli.options import add_options, add_result_options, command, given, recorded
from identifiable.cli.output import check_outputs, check_page, check_suffix, deliver, exit_code, progress_bar, tell
from identifiable.options import Options


@dataclass
class Job:
    """One call of a command: what was typed, the options it gives, and the names of the tables."""

    typed: argparse.Namespace
    options: Any
    paths: list[str] = field(default_factory=list)

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of the Python call."""
        return dict(vars(self.options))


@dataclass(frozen=True)
class Output:
    """A file that a command writes if asked: its flags, what it holds, how its name may end, and `write(job, found, path)`."""

    flags: tuple[str, ...]
    text: str
    suffixes: tuple[str, ...]
    write: Callable[[Job, Any, str], object]

    def path(self, typed: argparse.Namespace) -> str | None:
        found: str | None = getattr(typed, self.flags[-1].removeprefix("--").replace("-", "_"))
        return found


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a command is called, what it is given and can be told, the call that does the work, and the class of its result.

    `call` takes the job and returns a result, or something that holds one in `result`. `inputs` are files it reads besides its
    tables; `outputs` and `save` are those it writes besides page and JSON, `writes` the words that name them. `withheld` says why
    none of `files` is written, if so.
    `kept` is a folder that only a run that was stopped needs. `gate` shows examples of a condition on the result.
    """

    name: str
    text: str
    example: str
    options: type[Options]
    tables: Mapping[str, Mapping[str, Any]]
    call: Callable[[Job], Any]
    result: Callable[[Job], type]
    gate: str
    more: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    check: Callable[[Job], None] = lambda job: None
    inputs: Callable[[Job], Iterable[str | None]] = lambda job: ()
    outputs: Callable[[Job], Iterable[str | None]] = lambda job: ()
    writes: Callable[[Job], Sequence[str]] = lambda job: ()
    save: Callable[[Job, Any], Mapping[str, Callable[[str], object]]] = lambda job, found: {}
    files: tuple[Output, ...] = ()
    withheld: Callable[[Job, Any], str] = lambda job, found: ""
    kept: Callable[[Job], str | None] = lambda job: None
    gate_last: bool = False  # a condition that cannot be decided must not cost what took hours

    @property
    def OPTIONS(self) -> Mapping[str, type[Options]]:
        """The options of every command that is declared here, as a module with several of them has it."""
        return {self.name: self.options}

    def add_to(self, commands: Any) -> None:
        parser = command(commands, self.name.split()[-1], self.text, self.example)
        for name, form in self.tables.items():
            parser.add_argument(name, **form)
        for file in self.files:
            parser.add_argument(*file.flags, metavar="PATH", help=f"{file.text} ({' or '.join(file.suffixes)})")
        self.more(parser)
        add_options(parser, self.options)
        parser.add_argument(
            "--fail-if",
            action="append",
            default=[],
            metavar="COND",
            help=f"exit 1 if it holds, for example {self.gate}; any number or word of the JSON by its path; may repeat",
        )
        add_result_options(parser)
        parser.set_defaults(run=partial(run, self))


def run(wanted: Command, typed: argparse.Namespace) -> int:
    """Run a command; the exit code."""
    given_tables = [getattr(typed, name) for name in wanted.tables]
    paths = [path for given_ in given_tables for path in (given_ if isinstance(given_, list) else [given_]) if path]
    job = Job(typed, given(wanted.options, typed), paths)
    conditions = [Condition.parse(text, wanted.result(job), wanted.gate, job.options) for text in typed.fail_if]
    wanted.check(job)
    files = {path: file for file in wanted.files if (path := file.path(typed)) is not None}
    for path, file in files.items():
        check_suffix(path, file.suffixes)
    inputs = [*paths, *filter(None, wanted.inputs(job))]
    named = [file.path(typed) for file in wanted.files]
    check_outputs([typed.json, typed.report, *named, *wanted.outputs(job)], inputs)
    check_page(typed.report)
    written = [word for path, file in files.items() for word in (file.flags[0], path)] + [*wanted.writes(job)]
    words = recorded(wanted.name, paths, job.options, written)
    with progress_bar(typed) as bar:
        job.options = replace(job.options, progress=bar, command=words)
        found = wanted.call(job)
    result = getattr(found, "result", found)

    def failures() -> list[str]:
        return [sentence for condition in conditions for sentence in condition.failures(result)]

    # Before anything is written: a gate that cannot decide is wrong usage, which leaves no output.
    failed = [] if wanted.gate_last else failures()
    kept_back = wanted.withheld(job, found) if files else ""
    save = {} if kept_back else {path: partial(file.write, job, found) for path, file in files.items()}
    deliver(result, typed, save={**save, **wanted.save(job, found)})
    if not typed.quiet and (kept := wanted.kept(job)) and os.path.isdir(kept):
        tell(f"{kept}: the run is complete; this folder can be deleted")
    return exit_code([*(failures() if wanted.gate_last else failed), *filter(None, [kept_back])])


def listed_ids(options: Any) -> list[str]:
    """The values of `--ids`: sidecar files are inputs, too."""
    given_ = options.ids
    return [] if given_ is None else [given_] if isinstance(given_, str) else list(given_)
