"""What the pages of a screen share: its design and roles, the names of what is scored, numbers with intervals, long tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from identifiable.report.frame import section
from identifiable.report.page import Block, Card, Fold, Section, Table, Text, Tone, columns
from identifiable.report.render.terminal import printed
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    known,
    named,
    one_line,
    sentence_of,
    short,
)
from identifiable.results import Attribution, Audit, Cleaning, Recommendation, ScreenDesign, ScreenEvaluation

Screened = Audit | Recommendation | ScreenEvaluation | Attribution | Cleaning

LISTED = 30  # rows of a table before the rest is folded away
MOST_LISTED = 2000  # beyond it a page would not travel by mail
NAME = 40  # characters of a perturbation's or a column's name
EXAMPLES = 5
CHANCE = ("chance", 0.5)
NO_DIFFERENCE = ("no difference", 0.0)


def screen_name(result: Screened) -> str:
    return display_name(result.inputs[0].name) if result.inputs else "screen"


def screen_card(result: Screened, badge: str, tone: Tone, facts: Iterable[tuple[str, str]]) -> Card:
    """The verdict of a result, with the size of its screen as the last fact."""
    size = ("screen", size_words(result.design))
    return Card(screen_name(result), badge, sentence_of(result.text), tone, (*facts, size), brief=True)


def some(names: Iterable[str], most: int = EXAMPLES) -> str:
    """'a, b, c and 4 more'."""
    items = [clip(one_line(name), NAME) for name in names]
    return f"{', '.join(items[:most])} and {count(len(items) - most)} more" if len(items) > most else ", ".join(items)


def long_table(table: Table, what: str) -> Iterator[Block]:
    """A table whose rows after the first are folded away, without pictures; nothing where it has no rows."""
    total = len(table.rows)
    if not total:
        return
    yield replace(
        table,
        rows=table.rows[:LISTED],
        shades=table.shades[:LISTED],
        pictures={place: cells[:LISTED] for place, cells in table.pictures.items()},
        more=max(0, total - LISTED),
    )
    if rest := table.rows[LISTED:MOST_LISTED]:
        shades = table.shades[LISTED:MOST_LISTED]
        folded = replace(table, rows=rest, shades=shades, pictures={}, brief=False)
        yield Fold(counted(len(rest), f"more {what}"), (folded,))
    if total > MOST_LISTED:
        yield Text(f"In the JSON result: {counted(total - MOST_LISTED, f'further {what}')}.", note=True)


# -- the design


def size_words(design: ScreenDesign) -> str:
    """'6,000 wells of 75 plates in 9 batches, 48 features, 40 perturbations, 1,200 control wells'."""
    batches = ""
    if design.batches is not None:
        batches = f" in {count(design.batches)} {'batch' if design.batches == 1 else 'batches'}"
    return (
        f"{counted(design.n, 'well')} of {counted(design.plates, 'plate')}{batches}, {counted(design.d, 'feature')}, "
        f"{counted(design.perturbations, 'perturbation')}, {counted(design.controls, 'control well')}"
    )


def roles_table(name: str, design: ScreenDesign) -> str:
    """Text for the command line: the size of a screen, and which column has which role."""
    return printed([Text(f"{clip(one_line(name), NAME)}: {size_words(design)}"), *_roles(design, brief=True)])


def design_blocks(design: ScreenDesign, *, brief: bool = False) -> Iterator[Block]:
    yield from _roles(design, brief=brief)
    counts: list[tuple[str, int | None]] = [
        ("wells", design.n), ("features", design.d), ("batches", design.batches), ("plates", design.plates),
        ("perturbations", design.perturbations), ("targets", design.targets), ("control wells", design.controls),
    ]  # fmt: skip
    ranges = [
        ("wells per plate", design.wells_per_plate),
        ("controls per plate", design.controls_per_plate),
        ("wells per perturbation", design.wells_per_perturbation),
    ]
    grid = "" if design.grid is None else f"{count(design.grid[0])} rows × {count(design.grid[1])} columns"
    lines = (
        *((what, MISSING if size is None else count(size)) for what, size in counts),
        *((what, _range(*spread)) for what, spread in ranges),
        *([("wells in use", grid)] if grid else []),
    )
    yield Table("Counts", columns("what", "count", words=("count",)), lines)


def _roles(design: ScreenDesign, *, brief: bool) -> Iterator[Table]:
    lines = tuple(
        (named({}, r.role), clip(one_line(r.column), NAME), count(r.values), some(r.examples) or MISSING)
        for r in design.roles
    )
    heads = columns("role", "column", "values", "most frequent", words=("column", "most frequent"))
    yield from [Table("Roles of columns", heads, lines, brief=brief)] if lines else []
    unused = tuple(
        (
            clip(one_line(u.column), NAME),
            count(u.values),
            some(u.examples) or MISSING,
            "yes" if u.candidate else MISSING,
        )
        for u in design.unused
    )
    heads = columns("column", "values", "most frequent", "could be the perturbation", words=("most frequent",))
    yield from [Table("Columns without a role", heads, unused, brief=brief)] if unused else []


def _range(least: int, median: float, most: int) -> str:
    """'60 to 80, median 76'."""
    if least == most:
        return count(least)
    return f"{count(least)} to {count(most)}, median {short(round(median, 1)) if known(median) else MISSING}"


def design_section(design: ScreenDesign) -> Section:
    """Roles and counts, folded."""
    return section("design", "The screen", [Fold("Roles and counts", tuple(design_blocks(design)))])


def skipped_section(skipped: Mapping[str, str]) -> Section:
    """The perturbations that were not evaluated, and why."""
    lines = tuple((clip(one_line(name), NAME), one_line(why)) for name, why in skipped.items())
    caption = f"Not evaluated: {counted(len(lines), 'perturbation')}"
    table = Table(caption, columns("perturbation", "why", words=("why",)), lines, brief=True, brief_rows=EXAMPLES)
    return section("skipped", "Skipped", long_table(table, "perturbation"))
