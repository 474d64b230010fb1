"""What the page of `identifiable demo` shows besides: what its data are, the digits that moved most, what to try next."""

from __future__ import annotations

from collections.abc import Iterator

from identifiable.report.page import Block, Code, Gallery, Image, Text
from identifiable.report.words import count, group_name, number, one_line, percent
from identifiable.results import Comparison, Demo

SIDE = 8  # pixels of a digit
COMMANDS = (
    "identifiable compare run1.npy run2.npy --report page.html\n"
    "identifiable resolve run1.npy -o basis.safetensors --report components.html"
)


def demo_data(result: Comparison) -> Iterator[Block]:
    """What the data are."""
    if result.demo is not None:
        first = result.inputs[0]
        yield Text(
            f"The data: {count(len(result.inputs))} autoencoders of {count(first.n)} handwritten digits, trained with "
            f"{count(len(result.inputs))} seeds, {count(first.d)} latents each.",
            brief=True,
        )


def demo_lesson(result: Comparison) -> Iterator[Block]:
    """What retraining kept, over all pairs; nothing where the numbers do not say so."""
    turned, reordered = (
        [r.r2.value for pair in result.pairs for r in pair.rungs if r.group == group and r.r2 is not None]
        for group in ("similarity", "signed_permutation")
    )
    if result.demo is not None and turned and reordered and min(turned) > 0.9 > 2 * max(reordered, default=0.0):
        yield Text(
            f"Training again kept the geometry: a rotation explains at least {percent(min(turned))} of the variance, in every pair. "
            f"It did not keep the axes: reordering and flipping them explains at most {percent(max(0.0, *reordered))}.",
            brief=True,
        )


def demo_pictures(demo: Demo | None) -> Iterator[Block]:
    """The digits that moved most."""
    if demo is not None and demo.pictures:
        yield Gallery(
            f"The digits that moved most, {one_line(demo.source)} → {one_line(demo.target)}",
            f"Images whose latents have the largest held-out errors ({group_name(demo.group)}). Above each digit: its row, "
            "the digit, and its error over the rms distance between rows.",
            tuple(
                Image(
                    f"{one_line(p.row)}, a {one_line(p.label)}: {number(p.error, 2)}",
                    f"{one_line(p.row)}, a {one_line(p.label)}",
                    p.png,
                    SIDE,
                    SIDE,
                )
                for p in demo.pictures
            ),
            small=True,
        )


def demo_commands(demo: Demo | None) -> Iterator[Block]:
    """Two commands for tables of one's own."""
    if demo is not None:
        yield Text(
            "Try these next on your own tables, with one row for each sample. The second says which components of ICA repeat on "
            "other rows, and saves them as a basis for identifiable transform. If the shell does not find identifiable, activate the "
            "environment it is in (. .venv/bin/activate).",
            brief=True,
        )
        yield Code("Commands", COMMANDS, brief=True)
