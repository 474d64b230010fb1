"""What the page of Table 2 and its terminal table both say: the result in words, and the published table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from identifiable.report.table2_methods import LAW, row_name
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    interval,
    known,
    listed,
    number,
    one_line,
    short,
)
from identifiable.results import Cell, Estimate, Table2
from identifiable.results.table2 import ALL_DATA

PLAIN, WITH_ICA = "AE", "AE + ICA"
MOVED = 0.01  # change of InfoE from which on it is explained
SCORES = 3  # InfoM, InfoE, InfoC
SCORE_HEADS = ("InfoM [95 %]", "InfoE [95 %]", "InfoC [95 %]", "PSNR", "seeds")
LIFT_HEADS = ("before", "after", "lift [95 %]", "of the rows [95 %]", "change of InfoE [95 %]", "seeds")

Triple = tuple[float, float, float]
Latents = Literal["continuous", "discrete"]


def sentence(result: Table2) -> str:
    """The headline as a sentence."""
    found = result.lift()
    if found is not None and known(found.difference.mean) and not bounded(found.difference):
        return (
            f"With ICA InfoM of the plain autoencoder goes from {number(found.before.mean, 2)} to {number(found.after.mean, 2)}, by "
            f"{signed(found.difference.mean)}, over {counted(found.difference.n, 'seed')}: too few for an interval."
        )
    headline = one_line(result.headline)
    return f"{headline[0].upper()}{headline[1:]}."


def scale_words(result: Table2) -> str:
    """What was run, in one line."""
    seeds = counted(len({run.seed for run in result.runs}), "seed")
    names = listed(map(display_name, result.data)) or MISSING
    return f"{names}, {seeds}, {counted(len(result.runs), 'model')}, scale {one_line(result.scale)}"


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"+{number(value)}" if known(value) and value > 0 else number(value)


def data_name(data: str) -> str:
    """A data set in a table."""
    return "all" if data == ALL_DATA else clip(one_line(data), 24)


def shown_data(result: Table2) -> list[str]:
    """All data together first, unless that is one data set; then each."""
    found = list(dict.fromkeys(cell.data for cell in result.cells))
    apart = [data for data in found if data != ALL_DATA]
    return apart if len(apart) == 1 else sorted(found, key=lambda data: data != ALL_DATA)


def cells_of(result: Table2, data: str, latents: Latents) -> list[Cell]:
    """The rows of a data set. What is not known to be continuous does not stand among what is."""
    return [
        cell
        for cell in result.cells
        if cell.data == data and (cell.latents == "continuous") == (latents == "continuous")
    ]


def estimate_words(estimate: Estimate) -> str:
    """Mean and interval."""
    if not known(estimate.mean):
        return MISSING
    return f"{number(estimate.mean)} {interval(estimate.ci95)}" if bounded(estimate) else number(estimate.mean)


def change_words(estimate: Estimate) -> str:
    """A difference and its interval."""
    if not known(estimate.mean):
        return MISSING
    return f"{signed(estimate.mean)} {interval(estimate.ci95)}" if bounded(estimate) else signed(estimate.mean)


def bounded(estimate: Estimate) -> bool:
    return all(map(known, estimate.ci95))


def cell_line(cell: Cell) -> tuple[str, ...]:
    """A row of our table."""
    scores = (cell.infom, cell.infoe, cell.infoc)
    return (
        row_name(cell.row),
        *map(estimate_words, scores),
        number(cell.psnr.mean, 1),
        count(cell.infom.n) if known(cell.infom.mean) else MISSING,
    )


def lift_lines(result: Table2) -> list[tuple[str, ...]]:
    """ICA on each data set in each mode: before, after, their difference, that of InfoE, seeds."""
    order = {data: i for i, data in enumerate(shown_data(result))}
    lifts = [lift for lift in result.lifts if lift.data in order]
    return [
        (
            data_name(lift.data),
            one_line(lift.ica),
            number(lift.before.mean),
            number(lift.after.mean),
            change_words(lift.difference),
            change_words(lift.selected),
            change_words(lift.infoe_difference),
            count(lift.difference.n) if known(lift.difference.mean) else MISSING,
        )
        for lift in sorted(lifts, key=lambda lift: order[lift.data])
    ]


def triple(values: Iterable[float] | None) -> str:
    """'0.65 0.83 0.40', as the paper prints a cell."""
    said = [] if values is None else [number(value, 2) for value in values]
    return MISSING if all(word == MISSING for word in said) else " ".join(said)


@dataclass(frozen=True)
class Published:
    """The published table: scores of each row in each column; `others` are rows whose numbers are Hsu et al.'s own."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[Triple | None, ...]]
    others: tuple[str, ...]

    def scores(self, row: str, column: str = ALL_DATA) -> Triple | None:
        """A cell, or None."""
        return dict(zip(self.columns, self.rows.get(row, ()), strict=False)).get(column)

    @property
    def data(self) -> list[str]:
        """The data sets of the paper."""
        return [column for column in self.columns if column != ALL_DATA]


def published_table(result: Table2) -> Published:
    """What `published` holds. It is free-form, so only what has the form of a table is one."""
    columns = tuple(_texts(result.published.get("columns")))
    rows = result.published.get("rows")
    told = rows if isinstance(rows, dict) else {}
    return Published(
        columns,
        {
            name: tuple(map(_scores_of, row))
            for name, row in told.items()
            if isinstance(row, list) and len(row) == len(columns)
        },
        tuple(_texts(result.published.get("by_others"))),
    )


def _texts(found: Any) -> list[str]:
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def _scores_of(found: Any) -> Triple | None:
    if not isinstance(found, list) or len(found) != SCORES:
        return None
    if not all(isinstance(value, (int, float)) and abs(value) < 100 for value in found):
        return None
    first, second, third = map(float, found)
    return first, second, third


def published_name(published: Published, row: str) -> str:
    """A row of the published table, and whose number it is."""
    return f"{row_name(row)} (Hsu et al.)" if row in published.others else row_name(row)


def published_lines(published: Published) -> list[tuple[str, ...]]:
    """The published table as words."""
    return [(published_name(published, name), *map(triple, row)) for name, row in published.rows.items()]


def published_words(result: Table2) -> str:
    """What the paper found, and why it cannot be laid over ours."""
    published = published_table(result)
    before, after = (published.scores(row) for row in (PLAIN, WITH_ICA))
    if before is None or after is None:
        return ""
    told = (
        f"Published: InfoM goes from {number(before[0], 2)} (AE) to {number(after[0], 2)} (AE + ICA), mean over "
        f"{listed(map(data_name, published.data))}."
    )
    return f"{told} {otherness(result)}".rstrip()


def otherness(result: Table2) -> str:
    """In what our numbers and the published ones differ before anything is compared."""
    published = published_table(result)
    if not published.rows:
        return ""
    own = [data for data in result.data if data not in published.data]
    reasons = []
    if own:
        reasons.append(
            f"{listed(map(display_name, own))} {'is' if len(own) == 1 else 'are'} not among the paper's data"
        )
    elif set(result.data) != set(published.data):
        reasons.append(
            f"only {listed(map(display_name, result.data))} {'was' if len(result.data) == 1 else 'were'} run"
        )
    if result.scale != "paper":
        reasons.append(f"scale {one_line(result.scale)} is smaller than the paper's")
    if not reasons:
        return ""
    return f"The published numbers are not to be laid over ours: {' and '.join(reasons)}. Compare the direction, not the size."


def ranking_words(result: Table2) -> str:
    """AE + ICA against the best continuous model made for the purpose."""
    data = next(iter(shown_data(result)), ALL_DATA)
    told = [cell for cell in cells_of(result, data, "continuous") if known(cell.infom.mean)]
    ours = next((cell for cell in told if cell.row == WITH_ICA), None)
    others = [cell for cell in told if cell.row != PLAIN and not cell.row.startswith(WITH_ICA)]
    if ours is None or not others:
        return ""
    best = max(others, key=lambda cell: cell.infom.mean)
    order = (
        "above" if ours.infom.mean > best.infom.mean else "below" if ours.infom.mean < best.infom.mean else "level with"
    )
    overlap = ""
    if bounded(ours.infom) and bounded(best.infom):
        (low, high), (other_low, other_high) = ours.infom.ci95, best.infom.ci95
        overlap = (
            "; the intervals overlap" if low <= other_high and other_low <= high else "; the intervals do not overlap"
        )
    return (
        f"AE + ICA, InfoM {estimate_words(ours.infom)}, is {order} the best of the continuous models made for the purpose, "
        f"{row_name(best.row)} with {estimate_words(best.infom)}{overlap}."
    )


def infoe_words(result: Table2) -> str:
    """What became of InfoE under ICA, which cannot change it, and what to make of it if it did."""
    told = [lift for lift in result.lifts if known(lift.infoe_difference.mean) and lift.data in shown_data(result)]
    if not told:
        return ""
    moved = [lift for lift in told if abs(lift.infoe_difference.mean) > MOVED]
    if not moved:
        return f"{LAW} It moved by at most {short(MOVED)} everywhere, as it should."
    most = max(moved, key=lambda lift: abs(lift.infoe_difference.mean))
    return (
        f"{LAW} Here it moved, most by {signed(most.infoe_difference.mean)} ({data_name(most.data)}, {one_line(most.ica)}): the "
        "regression stops after a fixed number of steps and comes further in some bases than in others, or the step dropped directions "
        "without variance. Do not read it as something that ICA found or lost."
    )


def published_infoe_words(result: Table2) -> str:
    """The same question to the published table."""
    published = published_table(result)
    pairs = [(column, published.scores(PLAIN, column), published.scores(WITH_ICA, column)) for column in published.data]
    moves = [
        (column, before[1], after[1]) for column, before, after in pairs if before is not None and after is not None
    ]
    column, before, after = max(moves, key=lambda move: abs(move[2] - move[1]), default=("", 0.0, 0.0))
    if abs(after - before) <= MOVED:
        return ""
    return (
        f"In the published table InfoE goes from {number(before, 2)} (AE) to {number(after, 2)} (AE + ICA) on {data_name(column)}: so "
        "its two rows are of fits that were selected separately, or of regressions that had not converged."
    )


def chosen_words(result: Table2, cell: Cell) -> str:
    """The setting of a cell: the number of its objective, if there is one, and the weight decay."""
    if not known(cell.infom.mean):
        return MISSING
    knob = next((run.knob for run in result.runs if run.model == cell.model and run.knob is not None), None)
    parts = (
        [f"{one_line(knob).replace('_', ' ')} {short(cell.value)}"] if knob is not None and known(cell.value) else []
    )
    parts += [f"decay {short(cell.weight_decay)}"] if known(cell.weight_decay) else []
    return ", ".join(parts) or MISSING
