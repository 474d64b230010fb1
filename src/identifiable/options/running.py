"""What many commands can be told: their rows, their seed, and where the work runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from identifiable.options.declaring import Option, Options

SEED_END = 2**32 - 1
UNMOVED = "does not affect results"
CHECKPOINT = Option(
    f"a folder that keeps finished parts, from which a call after an interruption continues; {UNMOVED}",
    moves=False,
    metavar="FOLDER",
)


SCHEDULER = Option(
    f"address of a Dask scheduler whose workers share the work, in Python also a client of it; {UNMOVED}",
    moves=False,
    metavar="ADDRESS",
)


@dataclass(frozen=True, kw_only=True)
class Recorded(Options):
    """A call that takes time and leaves a result. `command` is what the result records as having made it."""

    progress: Annotated[
        Callable[..., None] | None,
        Option(
            f"called as progress(stage, done, total), where str(stage) says what is being done; {UNMOVED}",
            flag=None,
            moves=False,
        ),
    ] = None
    command: Annotated[str, Option("the command to record in the result", flag=None, moves=False)] = ""


@dataclass(frozen=True, kw_only=True)
class Seeded(Recorded):
    """A call that draws at random."""

    seed: Annotated[int, Option("seed of every random choice", least=0, most=SEED_END, setting=False, metavar="N")] = 0


@dataclass(frozen=True, kw_only=True)
class Threaded(Seeded):
    """A call that works on several threads."""

    workers: Annotated[
        int | None, Option(f"threads; {UNMOVED}", least=1, moves=False, metavar="N", shown="all cores")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Clustered(Threaded):
    """A call that works on several threads, or on the workers of a cluster."""

    scheduler: Annotated[Any, SCHEDULER] = None


@dataclass(frozen=True, kw_only=True)
class Identified(Options):
    """A call of tables whose rows have ids."""

    ids: Annotated[
        Any,
        Option(
            "the column, key or sidecar file with sample ids to join rows on, or the column of a data frame; one for all "
            "tables, or one for each; none: rows are paired by position",
            repeat=True,
            setting=False,
            metavar="NAME",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Named(Identified):
    """A call with several tables."""

    names: Annotated[
        Sequence[str] | None,
        Option("names of the tables, in place of those of their files", setting=False, metavar="LIST"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Streamed(Clustered):
    """A call that makes passes over rows, read from storage or by the workers of a cluster."""

    blocks: Annotated[
        int | None,
        Option(f"for paths: rows to read from storage at once; {UNMOVED}", least=1, moves=False, metavar="ROWS"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Tables(Named, Streamed):
    """A call that opens tables: `api.opening.Opened` reads these options."""
