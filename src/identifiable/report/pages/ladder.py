"""One ordered pair: its answer, its ladder of groups, its errors row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from identifiable.report.answer import answer, degree_name, dimensions, form_group, loud, verdict_name
from identifiable.report.frame import marks, thinned
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
    arrow,
    beside,
    count,
    display_name,
    estimate,
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
from identifiable.results import Alert, Efficiency, Errors, Null, PairResult, Rung

CURVES_IN_COLOUR = 8
BEYOND = "a maximum off the scale"
ROUNDING = 1e-6  # errors below it are those of float32 arithmetic and nothing to explain
RHO_POINTS = 128
SEARCHED = {
    "as_given": "rows as given, in the other model",
    "signed_permutation": "after reordering the axes",
    "similarity": "after a rotation",
    "linear": "after a linear map",
}
SCALED = "A scale is fitted in every group but the rigid one."
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
    "R² is the share of the target's variance that a map explains on held-out rows: 1 means the same, 0 no better than the mean. "
    "Errors are in units of the rms distance between target rows: 0 means the same.",
)  # fmt: skip
PAPER = Headline(
    "paper", "in-sample", "held-out", "mean / diameter", "in-sample mean / diameter, as in the paper",
    "in-sample mean error / diameter, as in the paper", "diameter",
    "The headline is the in-sample mean error over the target's diameter, as in the paper: 0 means the same. Other errors are "
    "in units of the rms distance between target rows. R² is the share of the target's variance explained on held-out rows.",
)  # fmt: skip


# -- the answer


def card(pair: PairResult, alerts: Sequence[Alert] = (), *, brief: bool = False) -> Card:
    """The sentence to take away, and the numbers behind it."""
    verdict = pair.verdict
    facts = list(_facts(pair))
    facts += [("rows", count(pair.n))] + ([("rows dropped", count(pair.dropped))] if pair.dropped else [])
    facts += [("rows per dimension", ratio(pair.n, pair.width))]
    tone: Tone = (
        "plain"
        if verdict.degree == "partly"
        else "good"
        if verdict.degree in ("nearly", "largely") and not loud(pair)
        else "caution"
    )
    return Card(arrow(pair), degree_name(pair), answer(pair, alerts), tone, tuple(facts), brief=brief)


def _facts(pair: PairResult) -> Iterator[tuple[str, str]]:
    verdict, shared = pair.verdict, pair.shared
    linear = next((r.r2 for r in pair.rungs if r.group == "linear" and r.r2 is not None), None)
    if linear is not None:
        yield "R² of a linear map", estimate(linear.value, linear.ci95)
    if verdict.r2_back is not None:
        yield "the other way", number(verdict.r2_back)
    if shared is not None:
        counted_as = f"{count(shared.strong)} of {count(shared.possible)}, {count(shared.partly)} partly"
        yield "shared dimensions", "not counted: too few rows" if shared.withheld else counted_as
        if shared.strong:
            carried = f"{percent(shared.variance_source)} and {percent(shared.variance_target)}"
            yield "their share of the variance (source, target)", carried
    if verdict.form is not None and verdict.form.group is not None and known(verdict.form.scale):
        said = {"one": "compatible with 1", "other": "not 1", "unknown": "uncertain"}
        yield "scale of target to source", f"{number(verdict.form.scale)} ({said[verdict.form.scale_state]})"
    if verdict.degree is not None:
        yield "verdict.group, for gates", "none" if verdict.group is None else group_name(verdict.group)
    else:  # of an older version, which had one rule
        yield f"smallest group with an error below ε = {short(verdict.epsilon)}", verdict_name(verdict.group)


def verdict_words(pair: PairResult) -> str:
    """The answer in a few words, with R² of the group it names and of the linear map."""
    group = form_group(pair)
    if pair.verdict.degree is None or group is None:
        return degree_name(pair)
    found = {rung.group: rung.r2.value for rung in pair.rungs if rung.r2 is not None}
    shown = [f"{group_name(g)} {number(found[g], 2)}" for g in dict.fromkeys((group, "linear")) if g in found]
    return f"{degree_name(pair)}, {', '.join(shown) or group_name(group)}"


def _keeps(share: float) -> str:
    return "keeps all" if share > 0.995 else f"keeps {percent(max(share, 0.0))}"


def ladder_picture(pair: PairResult, back: PairResult | None = None) -> Iterator[Block]:
    """R² of every group, both ways."""
    there = [rung for rung in pair.rungs if rung.r2 is not None]
    if not there:
        return
    others = {rung.group: rung.r2.value for rung in back.rungs if rung.r2 is not None} if back is not None else {}
    reverse = (("hollow", f"R², {arrow(back)}"),) if back is not None else ()
    yield Dots(
        f"How much each group explains, {arrow(pair)}",
        f"One line per group. {SCALED} Values below 0 are drawn at 0.",
        "held-out R² (1 = the same, 0 = no better than the mean)",
        tuple(
            DotRow(
                group_name(rung.group),
                number(rung.r2.value),
                marks(("main", max(rung.r2.value, 0.0)), ("hollow", max(others.get(rung.group, math.nan), 0.0))),
                "" if rung.kept is None or rung.group == "linear" else _keeps(rung.kept.value),
                None if rung.r2.ci95 is None else (max(rung.r2.ci95[0], 0.0), max(rung.r2.ci95[1], 0.0)),
                rung.group == form_group(pair),
            )
            for rung in there
            if rung.r2 is not None
        ),
        (("main", f"R², {arrow(pair)}"), ("whisker", "its 95 % interval"), *reverse),
        reach=1.0,
    )


def shared_blocks(pair: PairResult) -> Iterator[Block]:
    """Shared dimensions, one by one."""
    shared = pair.shared
    if shared is None or not any(map(known, shared.rho)):
        return
    kept = thinned(len(shared.rho), RHO_POINTS)
    yield Curves(
        "Correlation of each shared dimension",
        "Canonical pairs from the strongest to the weakest; the correlation is the root of held-out times in-sample. "
        f"Rows paired at random stay below {number(shared.chance)}.",
        "dimension",
        "correlation",
        (Curve("correlation", tuple((k + 1.0, shared.rho[k]) for k in kept if known(shared.rho[k])), 0),),
        threshold=("strongly shared above 0.9", 0.9),
    )
    few = " There are fewer than 4 rows per dimension, so this is a lower bound." if shared.lower_bound else ""
    yield Text(
        f"{dimensions(shared)[0].upper()}{dimensions(shared)[1:]}, with n = {count(pair.n)}. The strong ones carry "
        f"{percent(shared.variance_source)} of the variance of {display_name(pair.source)} and "
        f"{percent(shared.variance_target)} of that of {display_name(pair.target)}.{few}"
    )


def axes_blocks(pair: PairResult) -> Iterator[Block]:
    """Components that the two models have in common."""
    axes = pair.axes
    if axes is None or axes.withheld == "not_asked":
        return
    if axes.withheld == "few_rows":
        yield Text(
            f"Axes were not compared: {count(pair.n)} rows are too few. ICA needs {count(axes.rows_needed)} of them here."
        )
        return
    names = (display_name(pair.source), display_name(pair.target))
    least = "at least " if axes.at_least else ""
    yield Table(
        f"Components of ICA that match with |r| above 0.95, of {count(axes.components)}",
        columns("between", "components"),
        (
            (f"{names[0]} and {names[1]}, on disjoint rows", f"{least}{count(axes.matched or 0)}"),
            (f"two halves of {names[0]}", count(axes.own_source or 0)),
            (f"two halves of {names[1]}", count(axes.own_target or 0)),
            ("random rotations of whitened rows", number(axes.chance, 1)),
        ),
    )
    if axes.withheld == "no_axes":
        yield Text(
            "Neither model repeats a component between its own halves: these data have no axes that ICA can find."
        )
    yield Terms((("ICA efficiency", efficiency_line(pair.ica_efficiency)),))


def neighbour_blocks(pair: PairResult) -> Iterator[Block]:
    """Whether rows keep their nearest neighbours."""
    near = pair.neighbours
    if near is None:
        return
    lines = [("each model's own neighbours", near.mutual)]
    lines += [(SEARCHED.get(name, group_name(name)), overlap) for name, overlap in near.searched.items()]
    yield Table(
        f"Share of the {near.k} nearest neighbours that are the same, among {count(near.rows)} rows",
        columns("searched", "share", "95 % interval", "by chance"),
        tuple((name, percent(o.value), percent_interval(o.ci95), percent(o.chance)) for name, o in lines),
    )
    null = near.null.get("cknna")
    by_chance = f"; rows paired at random give {number(null.mean)}, p {probability(null.p)}" if null else ""
    yield Text(
        f"CKNNA, the kernel alignment of common neighbours, is {number(near.cknna)}{by_chance}. "
        "These shares fall as more rows are searched: compare them at the same number of rows.",
        note=True,
    )


def moved_blocks(pair: PairResult, *, brief: bool = False) -> Iterator[Block]:
    """Labels and rows that a map serves badly."""
    if pair.moved:
        yield Table(
            f"Labels whose rows moved more than shuffled labels would, {arrow(pair)} ({group_name(pair.fitting_group)})",
            columns("label", "rows", "mean error", "times the average", "p"),
            tuple(
                (one_line(g.label), count(g.rows), number(g.error), number(g.ratio, 2), probability(g.p))
                for g in pair.moved
            ),
            brief=brief,
            brief_rows=5,
        )
    if pair.worst:
        yield Table(
            f"Rows with the largest held-out errors, {arrow(pair)} ({group_name(pair.fitting_group)})",
            columns("row", "error"),
            tuple((one_line(w.row), number(w.error)) for w in pair.worst),
        )


# -- the ladder


def pair_blocks(
    pair: PairResult, settings: Mapping[str, Any], told: Headline, *, in_full: bool, brief: bool = False
) -> Iterator[Block]:
    """The ladder of one pair; what `brief` marks is printed too."""
    yield ladder_table(pair, told, brief=brief)
    yield from (Text(note, note=True) for note in _ladder_notes(pair, settings))
    if not in_full:
        return
    solver = pair.solver
    passes = "two passes, the second in whitened coordinates" if solver.refined else "one pass"
    yield Fold(
        "Errors by group and by row, and what chance gives",
        (
            _forest(pair, told, in_full=True),
            _all_errors(pair, told),
            *_nulls(pair),
            *_curves(pair, told),
            Text(
                f"Solver: ranks {solver.rank_source} and {solver.rank_target}; condition numbers "
                f"{number(solver.condition_source, 1)} and {number(solver.condition_target, 1)} (source, target); {passes}; "
                f"errors in {one_line(solver.error_dtype)}.",
                note=True,
            ),
        ),
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


def ladder_table(pair: PairResult, told: Headline, *, brief: bool) -> Table:
    """One line per group: what it explains, its errors, and what shuffled rows give."""
    drawn = [rung.null.get("shuffle") for rung in pair.rungs]
    subset, draws = null_rows(drawn, pair.n), max((null.draws for null in drawn if null), default=0)
    least = "" if _beats_all(pair) else f", p at least {number(1 / (1 + draws), 2)}" if draws else ""
    on = f"; error of shuffled rows{f' (on {subset})' if subset else ''}{least}" if draws else ""
    explained = any(rung.r2 is not None for rung in pair.rungs)

    def line(rung: Rung, null: Null | None) -> tuple[str, ...]:
        r2, kept = rung.r2, rung.kept
        shares = (
            (MISSING, MISSING, MISSING)
            if r2 is None
            else (number(r2.value), interval(r2.ci95), MISSING if kept is None else percent(max(kept.value, 0.0)))
        )
        errors = (number(rung.held_out.mean), beside(rung.held_out.q95, pair.verdict.epsilon))
        shown = (number(rung.in_sample.mean_over_diameter, 4), *errors) if told is PAPER else errors
        chance = (number(null.mean), probability(null.p)) if null else (MISSING, MISSING)
        return (group_name(rung.group), *(shares if explained else ()), *shown, *(chance if any(drawn) else ()))

    heads = ("mean/diam", "error", "q95") if told is PAPER else ("error", "q95")
    shares = ("R²", "95 % interval", "kept") if explained else ()
    return Table(
        f"{arrow(pair)}: held-out R², its share of that of the linear map (kept); mean and 95 % quantile (q95) of errors over the rms "
        f"distance between rows of {display_name(pair.target)}{on}",
        columns(
            "group",
            *shares,
            *heads,
            *(("shuffled", "p") if any(drawn) else ()),
            hidden=("p",) if _beats_all(pair) else (),
        ),
        tuple(map(line, pair.rungs, drawn)),
        next((i for i, rung in enumerate(pair.rungs) if rung.group == form_group(pair)), None),
        brief=brief,
    )


def under_ladder(pair: PairResult) -> Iterator[Block]:
    """What the numbers of a ladder need to be read right, where it is printed."""
    said = [SCALED] if any(rung.group == "rigid" and rung.r2 is not None for rung in pair.rungs) else []
    if draws := _beats_all(pair):
        said.append(f"Every group does better than {'the shuffle' if draws == 1 else f'all {count(draws)} shuffles'}.")
    if said:
        yield Text(" ".join(said), note=True, brief=True)


def _beats_all(pair: PairResult) -> int:
    """The number of shuffles, if every group does better than all of them; else 0."""
    drawn = [rung.null.get("shuffle") for rung in pair.rungs]
    best = all(null is not None and null.p * (1 + null.draws) < 1.5 for null in drawn)
    return max((null.draws for null in drawn if null is not None), default=0) if best else 0


def _all_errors(pair: PairResult, told: Headline) -> Table:
    def line(rung: Rung, name: str, errors: Errors) -> tuple[str, ...]:
        shown = map(number, (errors.q50, errors.q95, errors.q99, errors.max))
        mean = (number(errors.mean), interval(errors.ci95))
        return (group_name(rung.group), name, *mean, *shown, number(errors.mean_over_diameter, 4))

    heads = ("mean", "95 % interval", "median", "q95", "q99", "max", "mean / diameter")
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
    """What a reader would otherwise stumble over in this ladder, each note once."""
    reversals = [
        _reversal(name, smaller, larger, pair)
        for name in ("held-out", "in-sample")
        for smaller, larger in pairwise(group for group in NESTED if known(_mean(pair, name, group)))
        # What the table does not show needs no words.
        if _mean(pair, name, larger) > max(_mean(pair, name, smaller), ROUNDING)
        and number(_mean(pair, name, larger)) != number(_mean(pair, name, smaller))
    ]
    yield from dict.fromkeys(reversals)
    if all(rung.held_out.ci95 is None for rung in pair.rungs):
        yield "No intervals were computed."
    if not any(rung.null for rung in pair.rungs):
        yield "No nulls were drawn, so this page does not say what chance would give."


def _mean(pair: PairResult, name: str, group: str) -> float:
    """The held-out or in-sample mean error of a group; NaN where it was not fitted."""
    found = next((rung for rung in pair.rungs if rung.group == group), None)
    return math.nan if found is None else (found.held_out if name == "held-out" else found.in_sample).mean


def _reversal(name: str, smaller: str, larger: str, pair: PairResult) -> str:
    """A larger group with larger errors than one it contains, and why."""
    form = pair.verdict.form
    if larger == "rigid" and form is not None and form.scale_state == "other":
        return (
            f"Errors of {group_name(larger)} are larger than those of {group_name(smaller)}, because it fits no scale: that of "
            f"{display_name(pair.target)} is {number(form.scale)} times that of {display_name(pair.source)}."
        )
    seen = f"The {name} mean of {group_name(larger)} is larger than that of {group_name(smaller)}, which it contains."
    return f"{seen} {_why_reversed(name, larger, pair)}"


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
        return f"{MISSING} (not computed: it needs the signed permutation, similarity and ICA rungs)"
    shares = [v for v in (efficiency.held_out, efficiency.in_sample) if v is not None and known(v)]
    if not shares:
        return f"{MISSING} (undefined: similarity fits no better than signed permutation)"
    reason = ""
    if max(map(abs, shares)) >= 10:
        reason = " (not meaningful: similarity is hardly better than signed permutation)"
    elif efficiency.held_out is None:
        reason = " (no held-out value: axes are withheld, or similarity is hardly better than signed permutation)"
    elif max(shares) > 1:
        reason = " (above 100 %: ICA may rescale each axis, a similarity may not)"
    elif min(shares) < 0:
        reason = " (below 0: worse than a signed permutation)"
    bounds = "" if efficiency.ci95 is None else f" {percent_interval(efficiency.ci95)}"
    in_sample = "" if efficiency.in_sample is None else f", {percent(efficiency.in_sample)} in-sample"
    return f"{percent(efficiency.held_out)}{bounds} held-out{in_sample}{reason}"


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
