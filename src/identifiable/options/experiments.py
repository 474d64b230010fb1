"""What the commands that make data and run experiments can be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from identifiable.options.declaring import Option, Options
from identifiable.options.running import UNMOVED, Seeded

Scale = Literal["smoke", "small", "paper"]
Kind = Literal["super", "sub", "near_gaussian", "gaussian", "skewed"]  # of the law of a source


def _layout(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, kw_only=True)
class CellsOptions(Options):
    """A screen of cells on plates: embeddings in which biology and technique are mixed."""

    preset: Annotated[
        str,
        Option(
            "tiny (500 wells x 24), small (6k x 48), medium (40k x 128) or rxrx3core (222k x 384)", metavar="PRESET"
        ),
    ] = "small"
    layout: Annotated[
        Any,
        Option(
            "addresses: random, one for each treatment, or a share P of those", read=_layout, metavar="random|fixed|P"
        ),
    ] = None
    patches: Annotated[
        int | None, Option("patches of each well, for --pooled or --keep-patches", least=1, metavar="M")
    ] = None
    pooled: Annotated[bool, Option("a row is the mean over the patches of a well, not one patch")] = False
    keep_patches: Annotated[bool, Option("write all patches too, well after well")] = False
    no_biology: Annotated[bool, Option("no treatment has any effect")] = False
    seed: Annotated[int, Option("seed of every random choice", least=0, metavar="N")] = 0


@dataclass(frozen=True, kw_only=True)
class SourcesOptions(Options):
    """Independent sources of known laws, mixed by a known map."""

    rows: Annotated[int, Option("number of rows", least=1, metavar="N")] = 10_000
    columns: Annotated[int, Option("number of sources", least=1, metavar="D")] = 16
    kinds: Annotated[
        Sequence[Kind] | None,
        Option("laws of the sources, in turn", metavar="LIST", shown="65 % super, 15 % sub, 20 % near_gaussian"),
    ] = None
    nonlinearity: Annotated[float, Option("how much sources bend each other before mixing", metavar="A")] = 0.0
    decades: Annotated[float, Option("decades of variance between first and last axis", metavar="A")] = 4.0
    workers: Annotated[
        int | None, Option(f"threads; {UNMOVED}", least=1, moves=False, metavar="N", shown="all cores")
    ] = None
    seed: Annotated[int, Option("seed of every random choice", least=0, metavar="N")] = 0


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Seeded):
    """Run an experiment of the paper again, and show our numbers beside the published ones."""

    scale: Annotated[Scale, Option("how much of it")] = "smoke"
    data: Annotated[
        str | None,
        Option(
            "mnist.npz, train-images-idx3-ubyte(.gz), a text file, or a folder of data sets; see --list",
            setting=False,
            metavar="PATH",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        Option(
            f"a folder that keeps the state of training and from which it continues; {UNMOVED}",
            moves=False,
            metavar="FOLDER",
        ),
    ] = None
    changes: Annotated[
        Any,
        Option(
            "change a setting, for example max_epochs=50, leaks=0.1,0.5,1 or reference_leak=0.5",
            flag="--set",
            repeat=True,
            metavar="NAME=VALUE",
        ),
    ] = ()
    say: Annotated[
        Callable[[str], None] | None, Option("called with a line about each finished part", flag=None, moves=False)
    ] = None
