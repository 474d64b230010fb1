"""One ordered pair: its verdict, its ladder of groups, its errors row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from identifiable.report.frame import marks
from identifiable.report.page import (
    Block,
    Card,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Heading,
    LegendKind,
    Table,
    Terms,
    Text,
    Tone,
    columns,
)
from identifiable.report.words import (
    MISSING,
    NESTED,
    UP_TO,
    arrow,
    beside,
    count,
    display_name,
    group_name,
    interval,
    known,
    number,
    one_line,
    percent,
    percent_interval,
    probability,
    ratio,
    rows,
    short,
)
from identifiable.results import Efficiency, Errors, Null, PairResult, Rung

CURVES_IN_COLOUR = 8
BEYOND = "a maximum off the scale"
ROUNDING = 1e-6  # errors below it are those of float32 arithmetic and nothing to explain
FEW_ROWS = 20  # rows per dimension below which a linear map fits its training rows too well


@dataclass(frozen=True)
class Headline:
    """Which error is shown first and which one decides, in words: that of held-out rows, or the paper's."""

    protocol: str
    first: str
    second: str
    judged: str
    judged_title: str
    mean_title: str
    unit: str
    guide: str

    def errors(self, rung: Rung) -> tuple[Errors, Errors]:
        """Those shown first, and the others."""
        both = (rung.held_out, rung.in_sample)
        return both[::-1] if self is PAPER else both

    def mean(self, errors: Errors) -> float:
        return errors.mean_over_diameter if self is PAPER else errors.mean

    def of(self, rung: Rung) -> float:
        """The number that the verdict compares with epsilon."""
        return rung.judged(self.protocol)


HELD_OUT = Headline(
    "default", "held-out", "in-sample", "q95", "held-out 95 % quantile (q95)", "held-out mean error", "rms distance",
    "Errors are in units of the rms distance between target rows: 0 means the same, and predicting the mean gives at most 0.71. "
    "The verdict is the smallest group whose q95, the error that 95 % of held-out rows stay within, is below the tolerance ε.",
)  # fmt: skip
PAPER = Headline(
    "paper", "in-sample", "held-out", "mean / diameter", "in-sample mean / diameter, as in the paper",
    "in-sample mean error / diameter, as in the paper", "diameter",
    "The headline is the in-sample mean error over the target's diameter, as in the paper: 0 means the same. Other errors are "
    "in units of the rms distance between target rows. The verdict is the smallest group whose headline is below the tolerance ε.",
)  # fmt: skip


# -- the verdict


def card(pair: PairResult, told: Headline, *, brief: bool = False) -> Card:
    rung, epsilon = _verdict_rung(pair, told), pair.verdict.epsilon
    facts: list[tuple[str, str]] = []
    if rung is not None:
        facts += [(f"{group_name(rung.group)}, {told.first} {told.judged}", beside(told.of(rung), epsilon))]
        facts += [("tolerance ε", short(epsilon)), ("held-out mean", number(rung.held_out.mean))]
        facts += [("its 95 % interval", interval(rung.held_out.ci95)), ("held-out max", number(rung.held_out.max))]
    facts += [("rows n", count(pair.n)), ("rows dropped", count(pair.dropped))]
    facts += [("dimensions d", count(pair.width)), ("n / d", ratio(pair.n, pair.width))]
    facts += [("compared", part)] if (part := projection(pair)) else []
    group = pair.verdict.group
    reached: Tone = "caution" if group is None else "good"
    return Card(arrow(pair), verdict_name(group), sentence(pair, told), reached, tuple(facts), brief=brief)


def verdict_name(group: str | None) -> str:
    return "none of the groups" if group is None else group_name(group)


def verdict_words(pair: PairResult, told: Headline) -> str:
    """The verdict in a few words, with its number."""
    rung, name = _verdict_rung(pair, told), verdict_name(pair.verdict.group)
    if rung is None:
        return name
    best = "" if pair.verdict.group else f"best: {group_name(rung.group)}, "
    return f"{name} ({best}{told.judged} {beside(told.of(rung), pair.verdict.epsilon)})"


def _verdict_rung(pair: PairResult, told: Headline) -> Rung | None:
    """The verdict's rung; where no group is close enough, the group that comes closest."""
    if found := [rung for rung in pair.rungs if rung.group == pair.verdict.group]:
        return found[0]
    tried = [rung for rung in pair.rungs if known(told.of(rung))]
    eligible = NESTED[1:] if projection(pair) else NESTED  # a projection's axes are not the model's
    return min([r for r in tried if r.group in eligible] or tried, key=told.of, default=None)


def sentence(pair: PairResult, told: Headline) -> str:
    """The verdict to take away: the one recorded in the result, or the same said from its numbers."""
    rung, found = _verdict_rung(pair, told), pair.verdict
    if rung is None:
        return one_line(found.text) or "No group was fitted, so there is no verdict."
    up_to = UP_TO.get(rung.group, group_name(rung.group))
    if found.group is not None and rung.held_out.max < ROUNDING and not projection(pair):
        return f"Identical up to {up_to}: every held-out row lands on its partner."
    if found.text:
        return one_line(found.text)
    same = f"The same up to {up_to}"
    none = f"Not the same up to any group tried. The best is {group_name(rung.group)}"
    reached = f"{told.judged_title} {beside(told.of(rung), found.epsilon)}, ε = {short(found.epsilon)}"
    return f"{none if found.group is None else same}: {reached}."


def projection(pair: PairResult) -> str:
    """What of a wider side was compared; empty where both sides were compared whole."""
    return " and ".join(
        f"the first {count(pair.width)} principal components of {display_name(name)} "
        f"({'above 99 %' if kept > 0.99 else percent(kept)} of its variance)"
        for name, kept in ((pair.source, pair.kept_source), (pair.target, pair.kept_target))
        if kept < 1
    )


# -- the ladder


def pair_blocks(
    pair: PairResult, settings: Mapping[str, Any], told: Headline, *, in_full: bool, brief: bool = False
) -> Iterator[Block]:
    """Everything about one pair but its card; what `brief` marks is printed too."""
    yield _forest(pair, told, in_full=in_full)
    yield _ladder(pair, told, brief=brief)
    yield from (Text(note, note=True, brief=brief) for note in _ladder_notes(pair, settings))
    yield Terms((("ICA efficiency", efficiency_line(pair.ica_efficiency)),), brief=brief)
    if in_full:
        yield Fold("All errors, and what chance gives", (_all_errors(pair, told), *_nulls(pair)))
        yield from _curves(pair, told)
    if pair.worst:
        largest = [g for g in NESTED if any(r.group == g for r in pair.rungs)] or [r.group for r in pair.rungs]
        used = group_name(pair.verdict.group or largest[-1]) + ("" if pair.verdict.group else ", the largest tried")
        yield Table(
            f"Rows with the largest held-out errors ({used})",
            columns("row", "error"),
            tuple((one_line(w.row), number(w.error)) for w in pair.worst[: None if in_full else 3]),
        )
    if in_full:
        solver = pair.solver
        passes = "two passes, the second in whitened coordinates" if solver.refined else "one pass"
        yield Text(
            f"Solver: ranks {solver.rank_source} and {solver.rank_target} of {pair.width}; condition numbers "
            f"{number(solver.condition_source, 1)} and {number(solver.condition_target, 1)} (source, target); {passes}; "
            f"errors in {one_line(solver.error_dtype)}.",
            note=True,
        )


def _forest(pair: PairResult, told: Headline, *, in_full: bool) -> Dots:
    return Dots(
        f"Error by group, {arrow(pair)}" if in_full else "Error by group",
        f"One line per group. The filled dot is the {told.first} mean error; {told.judged} must stay below the dashed line."
        if in_full
        else "",
        f"error / {told.unit} of {display_name(pair.target)} (0 = the same)" if in_full else "",
        tuple(_forest_row(rung, pair, told) for rung in pair.rungs),
        legend(told) if in_full else (),
        (f"ε = {short(pair.verdict.epsilon)} for {told.judged}", pair.verdict.epsilon),
    )


def _forest_row(rung: Rung, pair: PairResult, told: Headline) -> DotRow:
    first, second = told.errors(rung)
    diameter = pair.scale.diameter or math.nan
    unit = pair.scale.rms / diameter if told is PAPER else 1.0
    shuffle, rotation = rung.null.get("shuffle"), rung.null.get("rotation")
    return DotRow(
        group_name(rung.group),
        number(told.mean(first), 4 if told is PAPER else 3),
        marks(
            ("main", told.mean(first)),
            ("hollow", told.mean(second)),
            ("q95", first.q95 * unit),
            ("max", first.max * unit),
            ("shuffle", shuffle.mean * unit if shuffle else math.nan),
            ("rotation", rotation.mean * unit if rotation else math.nan),
        ),
        "" if told is PAPER else f"q95 {beside(first.q95, pair.verdict.epsilon)}",
        first.ci95,
        rung.group == pair.verdict.group,
    )


def legend(told: Headline) -> tuple[tuple[LegendKind, str], ...]:
    return (
        ("main", f"{told.first} mean"),
        ("whisker", "its 95 % interval"),
        ("hollow", f"{told.second} mean"),
        ("q95", f"{told.first} 95 % quantile"),
        ("max", f"{told.first} maximum"),
        ("shuffle", "chance: rows shuffled"),
        ("rotation", "chance: random rotation"),
        ("limit", f"ε, for {told.judged}"),
        ("beyond", BEYOND),
    )


def _ladder(pair: PairResult, told: Headline, *, brief: bool) -> Table:
    """One line per group: the errors that decide, the others beside them, and what shuffled rows give."""
    drawn = [rung.null.get("shuffle") for rung in pair.rungs]

    def line(rung: Rung, null: Null | None) -> tuple[str, ...]:
        first, _ = told.errors(rung)
        held_out = (number(rung.held_out.mean), interval(rung.held_out.ci95))
        spread = (beside(first.q95, pair.verdict.epsilon), number(first.max))
        in_sample = (number(rung.in_sample.mean), number(rung.in_sample.mean_over_diameter, 4))
        shown = (*in_sample[::-1], *spread, *held_out) if told is PAPER else (*held_out, *spread, *in_sample)
        chance = (number(null.mean), probability(null.p)) if null else (MISSING, MISSING)
        return (group_name(rung.group), *shown, *(chance if any(drawn) else ()))

    heads = ("held-out", "95 % interval", "q95", "max", "in-sample", "mean/diam")
    heads = (*heads[:3:-1], *heads[2:4], *heads[:2]) if told is PAPER else heads
    subset = null_rows(drawn, pair.n)
    return Table(
        f"{arrow(pair)}: mean errors over the rms distance between rows of {display_name(pair.target)}, {number(pair.scale.rms)}; "
        f"mean/diam: in-sample, over their largest distance, {number(pair.scale.diameter)}"
        + (f"; shuffled and p: on {subset}" if subset else ""),
        columns("group", *heads, *(("shuffled", "p") if any(drawn) else ())),
        tuple(map(line, pair.rungs, drawn)),
        next((i for i, rung in enumerate(pair.rungs) if rung.group == pair.verdict.group), None),
        brief=brief,
    )


def _all_errors(pair: PairResult, told: Headline) -> Table:
    def line(rung: Rung, name: str, errors: Errors) -> tuple[str, ...]:
        shown = map(number, (errors.mean, errors.q50, errors.q95, errors.q99, errors.max))
        return (group_name(rung.group), name, *shown, number(errors.mean_over_diameter, 4))

    heads = ("mean", "median", "q95", "q99", "max", "mean / diameter")
    return Table(
        "Errors over the rms distance, held-out and in-sample",
        columns("group", "rows", *heads, words=("rows",)),
        tuple(
            line(rung, name, errors)
            for rung in pair.rungs
            for name, errors in zip((told.first, told.second), told.errors(rung), strict=True)
        ),
    )


def _nulls(pair: PairResult) -> Iterator[Block]:
    drawn = [(rung.group, kind, null) for rung in pair.rungs for kind, null in rung.null.items()]
    found = [(group, kind, null) for group, kind, null in drawn if null is not None]
    if not found:
        return
    subset = null_rows((null for *_, null in found), pair.n)
    yield Table(
        "Chance: held-out mean with the link between the two sides broken"
        + (f"; null and observed on {subset}, drawn by the seed" if subset else ""),
        columns("group", "null", "mean", "observed", "p", "draws", words=("null",)),
        tuple(
            (group_name(g), kind, number(n.mean), number(n.observed), probability(n.p), count(n.draws))
            for g, kind, n in found
        ),
    )
    if silent := [f"{kind} for {group_name(group)}" for group, kind, null in drawn if null is None]:
        yield Text(f"Left out, because the group can undo the null: {', '.join(silent)}.", note=True)


def null_rows(nulls: Iterable[Null | None], n: int) -> str:
    """'2,048 of 8,000 rows' where nulls were drawn on fewer rows than there are; empty otherwise."""
    fewer = sorted({null.rows for null in nulls if null is not None and null.rows < n})
    return f"{' or '.join(map(count, fewer))} of {rows(n)}" if fewer else ""


def _ladder_notes(pair: PairResult, settings: Mapping[str, Any]) -> Iterator[str]:
    """What a reader would otherwise stumble over in this ladder."""
    for name, means in (
        ("held-out", {str(rung.group): rung.held_out.mean for rung in pair.rungs}),
        ("in-sample", {str(rung.group): rung.in_sample.mean for rung in pair.rungs}),
    ):
        ladder = [group for group in NESTED if known(means.get(group))]
        for smaller, larger in pairwise(ladder):
            low, high = means[smaller], means[larger]
            if high > max(low, ROUNDING) and number(high) != number(low):  # what the table does not show needs no words
                seen = f"The {name} mean of {group_name(larger)} is larger than that of {group_name(smaller)}, which it contains."
                yield f"{seen} {_why_reversed(name, larger, pair)}"
    if all(rung.held_out.ci95 is None for rung in pair.rungs):
        off = settings.get("bootstrap") == 0
        yield "No intervals: the bootstrap was switched off." if off else "No intervals were computed."
    if not any(rung.null for rung in pair.rungs):
        yield "No nulls were drawn, so this page does not say what chance would give."


def _why_reversed(name: str, larger: str, pair: PairResult) -> str:
    squares = "Maps minimise the squared error, and the mean of the norms need not fall with it."
    if name == "in-sample":
        return squares
    if larger == "linear" and pair.n < FEW_ROWS * pair.width:
        few = f"n/d is only {ratio(pair.n, pair.width)}"
        return f"A linear map has d² = {count(pair.width**2)} numbers to fit and {few}: it overfits its training rows."
    return f"{squares} A larger group also has more to fit, which increases held-out errors."


def efficiency_line(efficiency: Efficiency | None) -> str:
    """ICA efficiency in one line, with the reason where there is none."""
    if efficiency is None:
        return f"{MISSING} (not computed: it needs the signed permutation, rigid and ICA rungs)"
    shares = [v for v in (efficiency.held_out, efficiency.in_sample) if v is not None and known(v)]
    if not shares:
        return f"{MISSING} (undefined: rigid fits no better than signed permutation)"
    reason = ""
    if len(shares) < 2 or max(map(abs, shares)) >= 10:
        reason = " (not meaningful: rigid is hardly better than signed permutation)"
    elif max(shares) > 1:
        reason = " (above 100 %: ICA may rescale axes, a rigid motion may not)"
    elif min(shares) < 0:
        reason = " (below 0: worse than a signed permutation)"
    bounds = "" if efficiency.ci95 is None else f" {percent_interval(efficiency.ci95)}"
    return f"{percent(efficiency.held_out)}{bounds} held-out, {percent(efficiency.in_sample)} in-sample{reason}"


def _curves(pair: PairResult, told: Headline) -> Iterator[Block]:
    ends = [(rung.group, told.errors(rung)[0]) for rung in pair.rungs]
    curves = [
        Curve(
            group_name(group),
            tuple((100 * k / (len(e.quantiles) - 1), v) for k, v in enumerate(e.quantiles) if known(v)),
            style % CURVES_IN_COLOUR,
        )
        for style, (group, e) in enumerate(ends)
        if len(e.quantiles) > 1
    ]
    yield Heading("Errors row by row")
    if not any(curve.points for curve in curves):
        yield Text("The result holds no quantiles, so there is no curve to draw.", note=True)
        return
    largest = max((e.max for _, e in ends if known(e.max)), default=0.0)
    usual = max((e.q99 for _, e in ends if known(e.q99)), default=0.0)
    cut = 1.3 * usual if usual > 0 and largest > 2 * usual else None
    tail = f" The axis stops at {number(cut)}; the largest error is {number(largest)}." if cut is not None else ""
    yield Curves(
        f"Errors of the {told.first} rows, from the best to the worst, {arrow(pair)}",
        "One line per group, over the share of rows with at most this error. A flat line means that all rows share the error; "
        f"a late rise means a few bad rows.{tail}",
        "per cent of rows",
        "error / rms distance",
        tuple(curves),
        top=cut,
        threshold=None if told is PAPER else (f"ε = {short(pair.verdict.epsilon)}", pair.verdict.epsilon),
    )
