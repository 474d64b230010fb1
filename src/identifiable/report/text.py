"""Page to Markdown, and the table the command line prints."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from identifiable.report.content import PAIRS_IN_FULL, comparison_page
from identifiable.report.page import (
    Block,
    Card,
    Code,
    Curves,
    Dots,
    Fold,
    Heading,
    Key,
    Notice,
    Page,
    Table,
    Terms,
    Text,
)
from identifiable.report.reading import (
    CONSENSUS_UNIT,
    ICA_NOTE,
    ROUNDING,
    alerts_by_kind,
    efficiency_line,
    error_matrices,
    is_paper,
    judged,
    judged_title,
    ladder_notes,
    matrices_note,
    null_rows,
    projection,
    saved_form,
    sentence,
    similarity_rows,
    unordered,
    verdict_counts,
)
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

WIDTH = 100  # columns of a terminal
PAIRS_LISTED = 42  # seven models; more would scroll the verdict off the screen

Cell = Callable[[Rung], str]


def markdown(result: Comparison) -> str:
    """The page as Markdown: every word and number of the HTML, with figures described and their tables kept."""
    return markdown_page(comparison_page(result))


def markdown_page(page: Page) -> str:
    """Any page as Markdown."""
    parts = [f"# {_safe(page.title)}", _safe(page.subtitle), _safe(page.guide), _safe(page.byline)]
    for section in page.sections:
        parts.append(f"## {_safe(section.title)}")
        parts += _markdown_blocks(section.blocks, level=3)
    return "\n\n".join(parts) + "\n"


def text_table(result: Comparison) -> str:
    """What the command line prints: verdict and ladder of each pair, or the matrices of three or more models."""
    saved = saved_form(result)
    parts = _many(saved) if len(saved.inputs) > 2 else [part for pair in saved.pairs for part in _ladder(pair, saved)]
    parts.append(_units(is_paper(saved)))
    if any(rung.group == "ica" for pair in saved.pairs for rung in pair.rungs):
        parts.append(ICA_NOTE)
    for first, *more in alerts_by_kind(saved.alerts):
        rest = f" ({count(len(more))} more of this kind in the report and the JSON)" if more else ""
        parts.append(_wrapped(f"! {one_line(first.code)}: {one_line(first.message)}{rest}", "  "))
    return "\n".join(parts) + "\n"


def _markdown_blocks(blocks: Sequence[Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _markdown_block(block, level)


def _markdown_block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Text(text=text):
            yield _safe(text)
        case Heading(text=text):
            yield f"{'#' * level} {_safe(text)}"
        case Terms(items=items):
            yield "\n".join(f"- **{_safe(term)}**: {_safe(meaning)}" for term, meaning in items)
        case Notice(code=code, message=message, more=more):
            times = f" × {len(more) + 1}" if more else ""
            yield f"> **Alert** {_code(code)}{times}: {_safe(message)}"
            if more:
                yield "\n".join(f"- {_safe(other)}" for other in more)
        case Card():
            facts = "\n".join(f"- {_safe(name)}: {_safe(value)}" for name, value in block.facts)
            yield f"**{_safe(block.eyebrow)}** ({_safe(block.badge)})"
            yield f"**{_safe(block.sentence)}**"
            yield facts
        case Table():
            yield f"*{_safe(block.caption)}*"
            yield _markdown_table(block)
        case Dots() | Curves():
            yield f"Figure: {_safe(block.title)}. {_safe(block.description)}".rstrip()
        case Key():
            return  # a legend without its figures says nothing
        case Fold(summary=summary, blocks=inner):
            yield f"{'#' * level} {_safe(summary)}"
            yield from _markdown_blocks(inner, level + 1)
        case Code(label=label, text=text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            yield f"{_safe(label)}:"
            yield f"{fence}\n{text}\n{fence}"


def _markdown_table(table: Table) -> str:
    def cell(text: str, kind: str) -> str:
        return _code(text).replace("|", "\\|") if kind == "code" and text else _safe(text)

    kinds = [column.kind for column in table.columns]
    lines = [
        [_safe(column.label) for column in table.columns],
        ["---:" if kind == "number" else "---" for kind in kinds],
        *([cell(text, kind) for text, kind in zip(row, kinds, strict=True)] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    """Text that Markdown shows as it stands: no tags, links, emphasis or new cells from a user's name."""
    text = re.sub(r"([\\`*|])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    text = re.sub(r"\](?=[(\[:])", r"\\]", text)
    return re.sub(r"^([#+-])(?=\s)", r"\\\1", text)


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " if len(fence) > 1 else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def _header(pair: PairResult) -> str:
    dropped = f"{rows(pair.dropped)} dropped" if pair.dropped else "no rows dropped"
    part = f", {projected}" if (projected := projection(pair)) else ""
    shape = f"n {count(pair.n)}, d {count(pair.width)}{part}, n/d {ratio(pair.n, pair.width)}, {dropped}"
    return _wrapped(f"{arrow(pair)}   {shape}", "  ")


def _ladder(pair: PairResult, result: Comparison) -> list[str]:
    paper = is_paper(result)
    columns = _ladder_columns(pair, paper)
    cells = [[cell(rung) for _, cell in columns] for rung in pair.rungs]
    parts = [_header(pair), _wrapped(sentence(pair, paper)), ""]
    parts.append(_aligned([title for title, _ in columns], cells))
    subset = null_rows((rung.null.get("shuffle") for rung in pair.rungs), pair.n)
    parts.append(f"  shuffled and p: on {subset}" if subset else "")
    if any(r.group == "ica" for r in pair.rungs) or pair.ica_efficiency is not None:
        parts.append(_wrapped(f"ICA efficiency: {efficiency_line(pair.ica_efficiency)}", "  "))
    if pair in unordered(result.pairs):  # the same both ways
        parts.append(_wrapped(f"Similarity (1 = alike): {_similarity_words(pair)}", "  "))
    parts += [_wrapped(f"Note: {note}", "  ") for note in ladder_notes(pair, result)]
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
    parts += [_wrapped(matrices_note(paper)), ""] if matrices else []
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
    return [title, _aligned(["model", "rms", "mean", "q95", "max"], lines), _wrapped(CONSENSUS_UNIT), ""]


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
    return [f"Each pair: {judged_title(paper)}", _aligned(heads, lines), ""]


def _units(paper: bool) -> str:
    if paper:
        return _wrapped(
            "Headline: in-sample, as in the paper: mean error over the target's diameter. Other errors are over the rms "
            "distance between target rows; 0 is the same."
        )
    return _wrapped(
        "Errors are over the rms distance between target rows (0 is the same, predicting the mean gives at most 0.71); mean/diam is "
        "the paper's in-sample figure, over the diameter."
    )


def _aligned(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns two blanks apart: the first flush left, numbers flush right."""
    widths = [max(columns_wide(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            pad(cell, width, right=i > 0) for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *lines)
    )


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
