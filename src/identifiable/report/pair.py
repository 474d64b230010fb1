"""One ordered pair: its verdict, its ladder, its errors row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from identifiable.report.figures import drawn_marks
from identifiable.report.page import (
    Block,
    Card,
    Column,
    Curve,
    Curves,
    DotRow,
    Dots,
    Heading,
    LegendKind,
    Mark,
    MarkKind,
    Table,
    Terms,
    Text,
    Tone,
)
from identifiable.report.reading import (
    ICA_NOTE,
    efficiency_line,
    headline,
    is_paper,
    judged_name,
    ladder_notes,
    null_rows,
    projection,
    sentence,
    verdict_name,
    verdict_rung,
)
from identifiable.report.wording import (
    NESTED,
    arrow,
    beside,
    count,
    display_name,
    group_name,
    interval,
    known,
    number,
    one_line,
    probability,
    ratio,
    short,
)
from identifiable.results import (
    Comparison,
    Errors,
    Null,
    PairResult,
    Rung,
)

CURVES_IN_COLOUR = 8
BEYOND = "a maximum off the scale"


def verdict_card(pair: PairResult, paper: bool) -> Card:
    rung = verdict_rung(pair, paper)
    facts: list[tuple[str, str]] = []
    if rung is not None:
        name, epsilon = group_name(rung.group), pair.verdict.epsilon
        if paper:
            facts += [
                (f"{name}, in-sample mean / diam.", beside(rung.in_sample.mean_over_diameter, epsilon)),
                ("tolerance ε", short(epsilon)),
                ("held-out mean / diam.", number(rung.held_out.mean_over_diameter, 4)),
            ]
        else:
            facts += [
                (f"{name}, held-out q95", beside(rung.held_out.q95, epsilon)),
                ("tolerance ε", short(epsilon)),
                ("held-out mean", number(rung.held_out.mean)),
                ("its 95 % interval", interval(rung.held_out.ci95)),
                ("held-out max", number(rung.held_out.max)),
            ]
    facts += [
        ("rows n", count(pair.n)),
        ("rows dropped", count(pair.dropped)),
        ("dimensions d", count(pair.width)),
        ("n / d", ratio(pair.n, pair.width)),
    ]
    facts += [("compared", part)] if (part := projection(pair)) else []
    reached = pair.verdict.group
    tone: Tone = "caution" if reached is None else "good"
    return Card(arrow(pair), verdict_name(reached), sentence(pair, paper), tone, tuple(facts))


def pair_blocks(pair: PairResult, result: Comparison, *, in_full: bool, curves: bool = True) -> list[Block]:
    paper = is_paper(result)
    table = _ladder_table(pair, paper) if in_full else _brief_table(pair, paper)
    blocks: list[Block] = [Heading("The ladder")] if in_full else []
    blocks += [_forest(pair, paper, in_full=in_full), table]
    if in_full and any(r.group == "ica" for r in pair.rungs):
        blocks.append(Text(ICA_NOTE, note=True))
    blocks += [Text(note, note=True) for note in ladder_notes(pair, result)]
    if in_full:
        blocks += _null_table(pair)
    blocks.append(Terms((("ICA efficiency", efficiency_line(pair.ica_efficiency)),)))
    if curves:
        blocks += _error_curves(pair, paper, in_full=in_full)
    blocks += _worst_rows(pair, limit=len(pair.worst) if in_full else 3)
    if in_full:
        blocks.append(_solver(pair))
    return blocks


def known_marks(*candidates: tuple[MarkKind, float]) -> tuple[Mark, ...]:
    return tuple(Mark(kind, value) for kind, value in candidates if known(value))


def _forest(pair: PairResult, paper: bool, *, in_full: bool) -> Dots:
    epsilon = (f"ε = {short(pair.verdict.epsilon)} for {judged_name(paper)}", pair.verdict.epsilon)
    lines = tuple(_forest_row(rung, pair, paper) for rung in pair.rungs)
    if not in_full:
        return Dots("Error by group", "", "", lines, (), epsilon)
    unit = "diameter" if paper else "rms distance"
    part = projection(pair)
    return Dots(
        f"Error by group, {arrow(pair)}" + (" (in-sample, as in the paper)" if paper else ""),
        f"One line per group. The filled dot is the {'in-sample' if paper else 'held-out'} mean error; the dashed line is "
        f"the tolerance that {judged_name(paper)} must stay below." + (f" Compared: {part}." if part else ""),
        f"error / {unit} of {display_name(pair.target)} (0 = the same)",
        lines,
        forest_legend([pair], paper),
        epsilon,
    )


def _forest_row(rung: Rung, pair: PairResult, paper: bool) -> DotRow:
    shuffle, rotation = (rung.null.get(kind) for kind in ("shuffle", "rotation"))
    if paper:
        first, second = rung.in_sample, rung.held_out
        unit = pair.scale.rms / pair.scale.diameter if pair.scale.diameter else math.nan
        bounds = None
    else:
        first, second = rung.held_out, rung.in_sample
        unit = 1.0
        bounds = rung.held_out.ci95
    marks = known_marks(
        ("main", headline(rung, paper)),
        ("hollow", second.mean_over_diameter if paper else second.mean),
        ("q95", first.q95 * unit),
        ("max", first.max * unit),
        ("shuffle", shuffle.mean * unit if shuffle else math.nan),
        ("rotation", rotation.mean * unit if rotation else math.nan),
    )
    reading = number(headline(rung, paper), 4 if paper else 3)
    judged_too = "" if paper else f"q95 {beside(rung.held_out.q95, pair.verdict.epsilon)}"
    return DotRow(group_name(rung.group), reading, marks, judged_too, bounds, rung.group == pair.verdict.group)


def forest_legend(pairs: Sequence[PairResult], paper: bool) -> tuple[tuple[LegendKind, str], ...]:
    """What the marks mean, for those that are drawn."""
    first, second = ("in-sample", "held-out") if paper else ("held-out", "in-sample")
    meanings: list[tuple[LegendKind, str]] = [
        ("main", f"{first} mean"),
        ("whisker", "its 95 % interval"),
        ("hollow", f"{second} mean"),
        ("q95", f"{first} 95 % quantile"),
        ("max", f"{first} maximum"),
        ("shuffle", "chance: rows shuffled"),
        ("rotation", "chance: random rotation"),
        ("limit", f"ε, for {judged_name(paper)}"),
        ("beyond", BEYOND),
    ]
    drawn: set[LegendKind] = {"limit"}
    for pair in pairs:
        lines = [_forest_row(rung, pair, paper) for rung in pair.rungs]
        drawn |= drawn_marks(lines, pair.verdict.epsilon)
    return tuple((kind, meaning) for kind, meaning in meanings if kind in drawn)


def _ladder_table(pair: PairResult, paper: bool) -> Table:
    def line(rung: Rung, name: str, errors: Errors) -> tuple[str, ...]:
        cells = [errors.mean, errors.q50, errors.q95, errors.q99, errors.max]
        over = number(errors.mean_over_diameter, 4)
        shown = [number(cells[0]), interval(errors.ci95), *map(number, cells[1:])]
        return (group_name(rung.group), name, *([over, *shown] if paper else [*shown, over]))

    lines: list[tuple[str, ...]] = []
    strong = None
    for rung in pair.rungs:
        both = [("held-out", rung.held_out), ("in-sample", rung.in_sample)]
        if rung.group == pair.verdict.group:
            strong = len(lines)
        lines += [line(rung, name, errors) for name, errors in (both[::-1] if paper else both)]
    figures = ["mean", "95 % interval", "median", "q95", "q99", "max"]
    figures = ["mean / diameter", *figures] if paper else [*figures, "mean / diameter"]
    return Table(
        f"Errors of {arrow(pair)}: Euclidean norms over the rms distance between rows of {display_name(pair.target)}, "
        f"{number(pair.scale.rms)}; mean / diameter: over the largest distance, {number(pair.scale.diameter)}"
        + (f". Compared: {part}" if (part := projection(pair)) else ""),
        (Column("group", "text"), Column("rows", "text"), *map(Column, figures)),
        tuple(lines),
        strong,
    )


def _brief_table(pair: PairResult, paper: bool) -> Table:
    """One line per group, for pages with many pairs."""

    def line(rung: Rung) -> tuple[str, ...]:
        errors = rung.in_sample if paper else rung.held_out
        shuffle = rung.null.get("shuffle")
        return (
            group_name(rung.group),
            *map(number, (errors.mean, errors.q50, errors.q95, errors.q99, errors.max)),
            number((rung.held_out if paper else rung.in_sample).mean),
            number(rung.in_sample.mean_over_diameter, 4),
            number(shuffle.mean if shuffle else None),
            probability(shuffle.p if shuffle else None),
        )

    other = "held-out mean" if paper else "in-sample mean"
    figures = ("mean", "median", "q95", "q99", "max", other, "mean / diameter", "shuffled", "p")
    return Table(
        f"{'In-sample' if paper else 'Held-out'} errors over the rms distance"
        + (f"; shuffled and p on {subset}" if (subset := null_rows(_shuffles(pair), pair.n)) else "")
        + (f". Compared: {part}" if (part := projection(pair)) else ""),
        (Column("group", "text"), *map(Column, figures)),
        tuple(map(line, pair.rungs)),
        next((i for i, r in enumerate(pair.rungs) if r.group == pair.verdict.group), None),
    )


def _shuffles(pair: PairResult) -> list[Null | None]:
    return [rung.null.get("shuffle") for rung in pair.rungs]


def _null_table(pair: PairResult) -> list[Block]:
    lines = [
        (group_name(rung.group), kind, number(null.mean), number(null.observed), probability(null.p), count(null.draws))
        for rung in pair.rungs
        for kind, null in rung.null.items()
        if null is not None
    ]
    if not lines:
        return []
    subset = null_rows((null for rung in pair.rungs for null in rung.null.values()), pair.n)
    caption = "What chance gives: held-out mean with the link between the two sides broken"
    if subset:
        caption += f"; null and observed on {subset}, drawn by the seed"
    columns = (Column("group", "text"), Column("null", "text"), *map(Column, ("mean", "observed", "p", "draws")))
    blocks: list[Block] = [Table(caption, columns, tuple(lines))]
    silent = [f"{kind} for {group_name(r.group)}" for r in pair.rungs for kind, null in r.null.items() if null is None]
    if silent:
        reason = "a null says nothing about a group that can undo it"
        blocks.append(Text(f"Left out ({reason}): {', '.join(silent)}.", note=True))
    return blocks


def _error_curves(pair: PairResult, paper: bool, *, in_full: bool) -> list[Block]:
    curves = []
    for style, rung in enumerate(pair.rungs):
        errors = rung.in_sample if paper else rung.held_out
        last = len(errors.quantiles) - 1
        if last < 1:
            continue
        percents = sorted({*range(0, last + 1, 1 if in_full else 10), last})
        points = [(100 * i / last, errors.quantiles[i]) for i in percents if known(errors.quantiles[i])]
        curves.append(Curve(group_name(rung.group), tuple(points), style % CURVES_IN_COLOUR))
    heading = Heading("Errors row by row")
    if not any(curve.points for curve in curves):
        return [heading, Text("No quantiles were saved with this result, so there is no curve to draw.", note=True)]
    ends = [(rung.in_sample if paper else rung.held_out) for rung in pair.rungs]
    largest = max((e.max for e in ends if known(e.max)), default=0.0)
    usual = max((e.q99 for e in ends if known(e.q99)), default=0.0)
    cut = 1.3 * usual if usual > 0 and largest > 2 * usual else None
    which = "in-sample" if paper else "held-out"
    tail = f" The axis stops at {number(cut)}; the largest error is {number(largest)}." if cut is not None else ""
    return [
        heading,
        Curves(
            f"Errors of the {which} rows, from the best to the worst" + (f", {arrow(pair)}" if in_full else ""),
            f"One line per group, over the share of rows with at most this error: a flat line is an error shared by all "
            f"rows, a late rise a few bad ones.{tail}",
            "per cent of rows",
            "error / rms distance",
            tuple(curves),
            top=cut,
            threshold=None if paper else (f"ε = {short(pair.verdict.epsilon)}", pair.verdict.epsilon),
        ),
    ]


def _worst_rows(pair: PairResult, *, limit: int) -> list[Block]:
    if not pair.worst or limit == 0:
        return []
    largest = [g for g in NESTED if any(r.group == g for r in pair.rungs)] or [r.group for r in pair.rungs]
    used = group_name(pair.verdict.group or largest[-1]) + ("" if pair.verdict.group else ", the largest tried")
    return [
        Table(
            f"Rows served worst on held-out data ({used})",
            (Column("row", "text"), Column("error")),
            tuple((one_line(w.row), number(w.error)) for w in pair.worst[:limit]),
        )
    ]


def _solver(pair: PairResult) -> Text:
    solver = pair.solver
    ranks = f"{solver.rank_source} and {solver.rank_target} of {pair.width}"
    conditions = f"{number(solver.condition_source, 1)} and {number(solver.condition_target, 1)}"
    second = "a second pass in whitened coordinates was needed" if solver.refined else "one pass was enough"
    return Text(
        f"Solver: ranks {ranks}; condition numbers {conditions} (source, target); {second}; "
        f"errors in {one_line(solver.error_dtype)}.",
        note=True,
    )
