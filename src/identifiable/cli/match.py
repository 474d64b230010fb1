"""`identifiable match A B [C ...]`."""

from __future__ import annotations

from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.measuring import Command, Job, Output, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.options import MatchOptions
from identifiable.results import Matches


def _call(job: Job) -> Any:
    from identifiable.api.matching import match

    return match(*job.paths, **job.keywords())


def _check(job: Job) -> None:
    if len(job.paths) < 2:
        raise UsageError(f"match needs at least two dictionaries, got {len(job.paths)}; name another file.")


def _write_matches(job: Job, found: Matches, path: str) -> Any:
    """A line for each feature; in JSON beside what went in and how to get it again."""
    from identifiable.io import save_records

    about = {name: getattr(found, name) for name in ("inputs", "settings", "provenance")}
    return save_records(path, "matches", found.matches(), {"schema": "identifiable/matches/1", **about})


COMMAND = Command(
    name="match",
    text="Which features of two dictionaries are the same, one to one, and how many would be by chance?",
    example="identifiable match sae1.safetensors:W_dec sae2.safetensors:W_dec -o matches.csv --report match.html",
    options=MatchOptions,
    tables={
        "paths": {
            "nargs": "+",
            "metavar": "D",
            "help": f"two or more dictionaries, one feature in each row: {TABLE_FORMATS}; or bases of resolve. All of one space",
        }
    },
    call=_call,
    result=lambda job: Matches,
    gate="'at_chance == true', 'score < 0.5', 'above < 400' or 'cycles.share < 0.5'",
    check=_check,
    inputs=lambda job: listed_ids(job.options),
    files=(Output(("-o", "--output"), "every feature with its partner", (".csv", ".json"), _write_matches),),
)
