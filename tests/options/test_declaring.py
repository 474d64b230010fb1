"""Options are declared once: what is derived from a declaration, and that derived pages are current."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

import identifiable
from identifiable import UsageError, deconfound
from identifiable.cli import commands
from identifiable.cli.options import Parser, add_options, given, recorded
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.disentanglement import METRICS, MODES, PROFILES
from identifiable.groups import GROUPS
from identifiable.options import RUNGS, DisentangleOptions, EvaluateOptions, Option, Options, declared, takes
from identifiable.options.running import Threaded

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class TrialOptions(Threaded):
    """A trial."""

    depth: Annotated[int, Option("how deep to look", least=1, metavar="N")] = 3
    share: Annotated[float, Option("a share", above=0, below=1)] = 0.5
    modes: Annotated[tuple[Literal["fast", "slow"], ...], Option("ways to look")] = ("fast",)
    rank: Annotated[int | Literal["auto"], Option("a rank", least=1)] = "auto"
    deep: Annotated[bool | None, Option("whether deep", negative="--flat")] = None


@takes(TrialOptions)
def trial(source: object, /, *, options: TrialOptions) -> TrialOptions:
    """Try it.

    >>> 1
    1
    """
    return options


def parsed(*words: str) -> TrialOptions:
    parser = Parser(prog="trial")
    add_options(parser, TrialOptions)
    return given(TrialOptions, parser.parse_args(words))


def test_one_declaration_gives_signature_parser_settings_and_command():
    assert inspect.signature(trial).parameters["depth"].default == 3
    assert "How deep to" in trial.__doc__
    assert trial("x", depth=5).depth == 5
    words = ["--depth", "5", "--modes", "slow,fast", "--rank", "2", "--flat", "--workers", "2"]
    found = parsed(*words)
    assert (found.depth, found.modes, found.rank, found.deep, found.workers) == (5, ("slow", "fast"), 2, False, 2)
    assert found.settings() == {"depth": 5, "share": 0.5, "modes": ["slow", "fast"], "rank": 2, "deep": False}
    assert shlex.split(recorded("trial", ["x"], found)) == ["identifiable", "trial", "x", *words[:7]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 0),
        ("depth", 2.5),
        ("depth", True),
        ("share", 0),
        ("share", 1.0),
        ("modes", ["odd"]),
        ("modes", 3),
        ("rank", "x"),
    ],
)
def test_values_outside_the_declaration_are_refused_by_name(name, value):
    with pytest.raises(UsageError, match=rf"^{name}\b"):
        trial("x", **{name: value})


def test_the_shell_names_the_flag():
    with pytest.raises(UsageError, match=r"^--depth 0\b"):
        parsed("--depth", "0")


def test_unknown_keywords_are_refused_with_the_known_ones():
    with pytest.raises(TypeError, match=r"'dept'.*depth"):
        trial("x", dept=1)


def test_a_field_without_a_declaration_is_refused():
    @dataclass(frozen=True)
    class Bare(Options):
        depth: int = 1

    with pytest.raises(TypeError, match=r"Bare\.depth"):
        Bare()


CALLS = [
    identifiable.compare,
    identifiable.structural,
    identifiable.resolve,
    identifiable.disentangle,
    identifiable.bilipschitz,
    deconfound.audit,
    deconfound.evaluate,
    deconfound.attribute,
    deconfound.clean,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_public_calls_show_every_option_with_its_default(call):
    parameters = inspect.signature(call).parameters.values()
    assert not [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    keywords = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert len(keywords) > 4
    assert all(p.default is not inspect.Parameter.empty and f"\n{p.name}\n" in call.__doc__ for p in keywords)


def test_declared_choices_are_those_of_the_rooms_that_know_them():
    choices = {(kind, d.name): set(d.choices) for kind in (DisentangleOptions, EvaluateOptions) for d in declared(kind)}
    assert set(RUNGS) == {*GROUPS, "ica"}
    assert choices[DisentangleOptions, "metrics"] == {*METRICS, "all"}
    assert choices[DisentangleOptions, "profile"] == set(PROFILES)
    assert choices[DisentangleOptions, "resolve"] == set(MODES)
    assert choices[EvaluateOptions, "corrections"] == set(CORRECTIONS)


def test_the_reference_page_is_what_the_declarations_say():
    script = ROOT / "scripts" / "reference.py"
    assert subprocess.run([sys.executable, str(script), "--check"], timeout=60, check=False).returncode == 0
    assert commands.COMMANDS
