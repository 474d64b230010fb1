"""What the command line prints of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from identifiable.report.content import PAIRS_IN_FULL
from identifiable.report.reading import (
    CONSENSUS_UNIT,
    ICA_NOTE,
    ROUNDING,
    efficiency_line,
    error_matrices,
    is_paper,
    judged,
    judged_title,
    ladder_notes,
    matrices_note,
    null_rows,
    projection,
    sentence,
    similarity_rows,
    unordered,
    verdict_counts,
)
from identifiable.report.record import saved_form
from identifiable.report.terminal import WIDTH, alert_lines, aligned, wrapped
from identifiable.report.wording import (
    MISSING,
    arrow,
    beside,
    clip,
    columns_wide,
    count,
    group_name,
    interval,
    number,
    one_line,
    pad,
    probability,
    ratio,
    rows,
)
from identifiable.results import Comparison, PairResult, Rung

PAIRS_LISTED = 42  # seven models; more would scroll the verdict off the screen

Cell = Callable[[Rung], str]


def comparison_table(result: Comparison) -> str:
    """Verdict and ladder of each pair, or the matrices of three or more models."""
    saved = saved_form(result)
    parts = _many(saved) if len(saved.inputs) > 2 else [part for pair in saved.pairs for part in _ladder(pair, saved)]
    parts.append(_units(is_paper(saved)))
    if any(rung.group == "ica" for pair in saved.pairs for rung in pair.rungs):
        parts.append(ICA_NOTE)
    parts += alert_lines(saved.alerts)
    return "\n".join(parts) + "\n"


def _header(pair: PairResult) -> str:
    dropped = f"{rows(pair.dropped)} dropped" if pair.dropped else "no rows dropped"
    part = f", {projected}" if (projected := projection(pair)) else ""
    shape = f"n {count(pair.n)}, d {count(pair.width)}{part}, n/d {ratio(pair.n, pair.width)}, {dropped}"
    return wrapped(f"{arrow(pair)}   {shape}", "  ")


def _ladder(pair: PairResult, result: Comparison) -> list[str]:
    paper = is_paper(result)
    columns = _ladder_columns(pair, paper)
    cells = [[cell(rung) for _, cell in columns] for rung in pair.rungs]
    parts = [_header(pair), wrapped(sentence(pair, paper)), ""]
    parts.append(aligned([title for title, _ in columns], cells))
    subset = null_rows((rung.null.get("shuffle") for rung in pair.rungs), pair.n)
    parts.append(f"  shuffled and p: on {subset}" if subset else "")
    if any(r.group == "ica" for r in pair.rungs) or pair.ica_efficiency is not None:
        parts.append(wrapped(f"ICA efficiency: {efficiency_line(pair.ica_efficiency)}", "  "))
    if pair in unordered(result.pairs):  # the same both ways
        parts.append(wrapped(f"Similarity (1 = alike): {_similarity_words(pair)}", "  "))
    parts += [wrapped(f"Note: {note}", "  ") for note in ladder_notes(pair, result)]
    return [*parts, ""]


def _ladder_columns(pair: PairResult, paper: bool) -> list[tuple[str, Cell]]:
    def mean_and_interval(rung: Rung) -> str:
        bounds = rung.held_out.ci95
        said = bounds is not None and not bounds[1] < ROUNDING  # an interval of rounding errors is only wide to print
        return number(rung.held_out.mean) + (f" {interval(bounds)}" if said else "")

    group: tuple[str, Cell] = ("group", lambda r: group_name(r.group))
    held_out: tuple[str, Cell] = ("held-out mean [95 % CI]", mean_and_interval)
    over_diameter: tuple[str, Cell] = ("mean/diam", lambda r: number(r.in_sample.mean_over_diameter, 4))
    in_sample: tuple[str, Cell] = ("in-sample", lambda r: number(r.in_sample.mean))
    if paper:
        columns = [
            group,
            ("in-sample mean/diam", over_diameter[1]),
            ("mean", in_sample[1]),
            ("q95", lambda r: number(r.in_sample.q95)),
            ("max", lambda r: number(r.in_sample.max)),
            ("held-out [95 % CI]", held_out[1]),
        ]
    else:
        columns = [
            group,
            held_out,
            ("q95", lambda r: number(r.held_out.q95)),
            ("max", lambda r: number(r.held_out.max)),
            in_sample,
            over_diameter,
        ]
    if any(rung.null.get("shuffle") for rung in pair.rungs):
        columns += [("shuffled", _shuffled_mean), ("p", _shuffled_p)]
    return columns


def _shuffled_mean(rung: Rung) -> str:
    null = rung.null.get("shuffle")
    return MISSING if null is None else number(null.mean)


def _shuffled_p(rung: Rung) -> str:
    null = rung.null.get("shuffle")
    return MISSING if null is None else probability(null.p)


def _similarity_words(pair: PairResult) -> str:
    words = []
    for _, name, value, null in similarity_rows(pair.similarity):
        subset = null_rows([null], pair.n)
        same_rows = f"on {subset}: {number(null.observed)}, " if null is not None and subset else ""
        chance = "" if null is None else f" ({same_rows}shuffled {number(null.mean)}, p {probability(null.p)})"
        words.append(f"{name} {number(value)}{chance}")
    return "; ".join(words)


def _many(result: Comparison) -> list[str]:
    paper = is_paper(result)
    names = [one_line(item.name) for item in result.inputs]
    what = "in-sample mean / diameter, as in the paper" if paper else "held-out mean"
    widths = sorted({item.d for item in result.inputs})
    told = f"{len(names)} models, d {' to '.join(map(count, dict.fromkeys([widths[0], widths[-1]])))}"
    parts = [f"{told}. {verdict_counts(result)}", ""]
    matrices = error_matrices(result)
    shown = matrices if len(result.pairs) <= PAIRS_IN_FULL else [m for m in matrices if m[0] in ("rigid", "linear")]
    for group, values in shown or matrices[:1]:
        parts.append(f"{group_name(group)}: {what}, row onto column")
        parts += [*_matrix_lines(names, values), ""]
    parts += [wrapped(matrices_note(paper)), ""] if matrices else []
    parts += [*_consensus_lines(result), *_short_ladders(result, paper)]
    return parts


def _matrix_lines(names: Sequence[str], values: Sequence[Sequence[float]]) -> list[str]:
    """The matrix with numbered columns, in as many pieces as it takes to stay within the terminal."""
    labels = [clip(f"{i + 1} {name}", 28) for i, name in enumerate(names)]
    cells = [["·" if i == j else number(v) for j, v in enumerate(row)] for i, row in enumerate(values)]
    widest = max(columns_wide(label) for label in labels)
    cell_width = max(columns_wide(c) for row in cells for c in row) + 2
    at_once = max(1, (WIDTH - widest) // cell_width)
    lines = []
    for start in range(0, len(names), at_once):
        block = range(start, min(start + at_once, len(names)))
        lines.append(" " * widest + "".join(pad(str(j + 1), cell_width, right=True) for j in block))
        for label, row in zip(labels, cells, strict=True):
            lines.append(pad(label, widest) + "".join(pad(row[j], cell_width, right=True) for j in block))
    return lines


def _consensus_lines(result: Comparison) -> list[str]:
    if result.consensus is None:
        return []
    state = "converged" if result.consensus.converged else "NOT converged"
    lines = [
        [clip(one_line(d.name), 40), *map(number, (d.rms, d.mean, d.q95, d.max))] for d in result.consensus.distances
    ]
    title = f"Distance to the consensus ({state} after {result.consensus.iterations} rounds)"
    return [title, aligned(["model", "rms", "mean", "q95", "max"], lines), wrapped(CONSENSUS_UNIT), ""]


def _short_ladders(result: Comparison, paper: bool) -> list[str]:
    if len(result.pairs) > PAIRS_LISTED:
        told = (
            f"{count(len(result.pairs))} ordered pairs are too many to list; the report and the JSON hold each ladder."
        )
        return [told, ""]
    groups = list(dict.fromkeys(rung.group for pair in result.pairs for rung in pair.rungs))
    brief = {"signed_permutation": "permut."}
    lines = []
    for pair in result.pairs:
        found = {rung.group: beside(judged(rung, paper), pair.verdict.epsilon) for rung in pair.rungs}
        verdict = group_name(pair.verdict.group) if pair.verdict.group else "none"
        lines.append([clip(arrow(pair), 40), *(found.get(g, MISSING) for g in groups), f" {verdict}"])
    heads = ["pair", *(brief.get(g, group_name(g)) for g in groups), "smallest group"]
    return [f"Each pair: {judged_title(paper)}", aligned(heads, lines), ""]


def _units(paper: bool) -> str:
    if paper:
        return wrapped(
            "Headline: in-sample, as in the paper: mean error over the target's diameter. Other errors are over the rms "
            "distance between target rows; 0 is the same."
        )
    return wrapped(
        "Errors are over the rms distance between target rows (0 is the same, predicting the mean gives at most 0.71); mean/diam is "
        "the paper's in-sample figure, over the diameter."
    )
