"""What the page of a comparison says: `Comparison` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from identifiable.report import (
    methods,
)
from identifiable.report.figures import drawn_marks, thinned
from identifiable.report.matrices import matrix, shade
from identifiable.report.page import (
    Block,
    Card,
    Column,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Heading,
    Key,
    LegendKind,
    Page,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.pair import (
    BEYOND,
    forest_legend,
    known_marks,
    pair_blocks,
    verdict_card,
)
from identifiable.report.papers import EFFECTIVE_RANK
from identifiable.report.reading import (
    CONSENSUS_UNIT,
    ICA_NOTE,
    Measure,
    cluster_order,
    error_matrices,
    guide,
    is_paper,
    judged,
    judged_name,
    judged_title,
    matrices_note,
    null_rows,
    pairs_by_verdict,
    sentence,
    similarity_rows,
    unordered,
    verdict_name,
    verdict_words,
)
from identifiable.report.record import alerts_section, page_with, reproduction, saved_form
from identifiable.report.wording import (
    LETTERS,
    MISSING,
    NESTED,
    arrow,
    beside,
    count,
    group_name,
    known,
    number,
    one_line,
    percent,
    probability,
)
from identifiable.results import (
    Comparison,
    Consensus,
    Null,
    PairResult,
    Spectrum,
)

# A page must open in a browser and travel by mail (under 3 MB), so what is drawn per pair shrinks as pairs multiply.
PAIRS_IN_FULL = 12  # four models: every figure and every table
PAIRS_WITH_CURVES = 132  # twelve models: ladder and thinned curves of errors
PAIRS_IN_BRIEF = 420  # twenty-one models: ladder only; beyond it the verdicts only
VERDICTS_LISTED = 1000
MODELS_IN_A_MATRIX = 64
CURVES_IN_COLOUR = 8
SCREE_POINTS = 64
WIDE_MATRIX = 12  # models; beyond it two decimals have to do
CORNER = "source \\ target"


def comparison_page(result: Comparison) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    many = len(saved.inputs) > 2
    sections = [
        *(
            [_weakest(saved), alerts_section(saved), _overview(saved)]
            if many
            else [alerts_section(saved), _verdicts(saved)]
        ),
        *([_each_pair(saved)] if many else _pair_sections(saved)),
        _similarity_section(saved),
        _spectra(saved.spectra),
        methods.how_to_read(saved),
        reproduction(saved, methods.paragraphs(saved), methods.bibtex(saved)),
    ]
    return page_with(saved, sections, title=_title(saved), subtitle=_subtitle(saved), guide=guide(is_paper(saved)))


def _title(result: Comparison) -> str:
    names = [one_line(i.name) for i in result.inputs]
    return f"{names[0]} and {names[1]}" if len(names) == 2 else f"{len(names)} representations compared"


def _subtitle(result: Comparison) -> str:
    structural = len(result.pairs) == 1 and result.pairs[0].target == "sources"
    question = (
        f"{'Does it recover the sources' if structural else 'Are these the same representation'}, and up to what?"
    )
    return f"{question} Headline figures: in-sample, as in the paper." if is_paper(result) else question


def _verdicts(result: Comparison) -> Section:
    """Both directions where they differ; otherwise the first, with a line on the other."""
    paper = is_paper(result)
    blocks: list[Block] = []
    for pair in result.pairs:
        if blocks and pair.verdict.group == result.pairs[0].verdict.group:
            blocks.append(Text(f"The other way, {arrow(pair)}: {verdict_words(pair, paper)}.", note=True))
        else:
            blocks.append(verdict_card(pair, paper))
    return Section("verdict", "Verdict", tuple(blocks))


def _weakest(result: Comparison) -> Section:
    """What holds for every pair of several models."""
    pair = result.weakest
    told = f"{arrow(pair)}: {sentence(pair, is_paper(result))}"
    total = count(len(result.pairs))
    facts = tuple(
        (verdict_name(group), f"{count(found)} of {total} pairs") for group, found in pairs_by_verdict(result)
    )
    tone: Tone = "caution" if pair.verdict.group is None else "good"
    card = Card(f"All {total} ordered pairs: the weakest verdict", verdict_name(pair.verdict.group), told, tone, facts)
    return Section("verdict", "Verdict", (card,))


def _overview(result: Comparison) -> Section:
    letters = ", ".join(f"{LETTERS[g]} for {group_name(g)}" for g in NESTED)
    blocks: list[Block] = [Text(f"In the first matrix: {letters}, {MISSING} for none.")]
    names = [one_line(i.name) for i in result.inputs]
    matrices = error_matrices(result)
    if len(names) > MODELS_IN_A_MATRIX:
        blocks.append(
            Text(f"{len(names)} models are too many for a matrix on a page; the numbers are in the JSON result.")
        )
    elif matrices:
        guide = next((m for m in matrices if m[0] == "rigid"), matrices[-1])
        order = cluster_order(guide[1])
        blocks.append(_verdict_matrix(result, names, order))
        blocks += _heat_maps(matrices, names, order, is_paper(result))
        blocks.append(
            Text(
                f"Models stand in the order of average-linkage clustering of the {group_name(guide[0])} errors, "
                "so that those that agree are neighbours. Row onto column; the stronger the colour, the larger the error; "
                f"all matrices share one scale. {matrices_note(is_paper(result))}",
                note=True,
            )
        )
    if result.consensus is not None:
        blocks += _consensus(result.consensus)
    return Section("overview", "All pairs at a glance", tuple(blocks))


def _verdict_matrix(result: Comparison, names: Sequence[str], order: Sequence[int]) -> Table:
    verdicts = {(one_line(p.source), one_line(p.target)): p.verdict.group for p in result.pairs}

    def cell(i: int, j: int) -> str:
        if i == j:
            return "·"
        group = verdicts.get((names[i], names[j]))
        return MISSING if group is None else LETTERS.get(group, group_name(group))

    return matrix("Smallest group that fits", CORNER, names, order, cell, lambda i, j: None)


def _heat_maps(
    matrices: Sequence[tuple[str, list[list[float]]]], names: Sequence[str], order: Sequence[int], paper: bool
) -> list[Block]:
    top = max((v for _, values in matrices for row in values for v in row if known(v)), default=0.0)
    what = "in-sample mean error / diameter, as in the paper" if paper else "held-out mean error"

    decimals = 3 if len(order) <= WIDE_MATRIX else 2

    def heat_map(group: str, values: Sequence[Sequence[float]]) -> Table:
        def colour(i: int, j: int) -> int | None:
            return None if i == j or not known(values[i][j]) else shade(values[i][j], top)

        name = group_name(group)
        caption = f"{name[0].upper()}{name[1:]}: {what}"

        def cell(i: int, j: int) -> str:
            return "·" if i == j else number(values[i][j], decimals)

        return matrix(caption, CORNER, names, order, cell, colour)

    return [heat_map(group, values) for group, values in matrices]


def _consensus(consensus: Consensus) -> list[Block]:
    rows_drawn = tuple(
        DotRow(
            one_line(d.name),
            number(d.rms),
            known_marks(("main", d.rms), ("hollow", d.mean), ("q95", d.q95), ("max", d.max)),
        )
        for d in consensus.distances
    )
    state = (
        f"converged after {consensus.iterations} rounds"
        if consensus.converged
        else f"NOT converged after {consensus.iterations} rounds, so read these distances with care"
    )
    title = "Distance of each model to the consensus"
    meanings: list[tuple[LegendKind, str]] = [
        ("main", "rms"), ("hollow", "mean"), ("q95", "95 % quantile"), ("max", "maximum"), ("beyond", BEYOND),
    ]  # fmt: skip
    drawn = drawn_marks(rows_drawn)
    return [
        Heading("Consensus"),
        Text(
            f"The consensus is the generalised Procrustes mean in {consensus.width} dimensions ({state}): each model "
            "is centred and scaled to unit rms, rotated onto the common mean, and its distance to it measured row by row. "
            + CONSENSUS_UNIT
        ),
        Dots(
            title,
            "One line per model; the filled dot is the root mean square distance.",
            "distance / rms of the consensus",
            rows_drawn,
            tuple((kind, meaning) for kind, meaning in meanings if kind in drawn),
        ),
        Table(
            title,
            (Column("model", "text"), Column("rms"), Column("mean"), Column("q95"), Column("max")),
            tuple(
                (one_line(d.name), number(d.rms), number(d.mean), number(d.q95), number(d.max))
                for d in consensus.distances
            ),
        ),
    ]


def _pair_sections(result: Comparison) -> list[Section]:
    """The first direction at full length, the other one folded under its verdict."""
    paper = is_paper(result)
    sections = []
    for i, pair in enumerate(result.pairs):
        blocks = tuple(pair_blocks(pair, result, in_full=True))
        if i > 0:
            blocks = (Fold(f"The other way: {verdict_words(pair, paper)}", (verdict_card(pair, paper), *blocks)),)
        sections.append(Section(f"pair-{i + 1}", arrow(pair), blocks))
    return sections


def _each_pair(result: Comparison) -> Section:
    paper = is_paper(result)
    if len(result.pairs) > PAIRS_IN_BRIEF:
        blocks: list[Block] = [_verdict_table(result.pairs[:VERDICTS_LISTED], paper)]
        left = len(result.pairs) - VERDICTS_LISTED
        tail = f" and the {count(left)} pairs not listed" if left > 0 else ""
        blocks.append(
            Text(f"So many pairs are listed by verdict only; the ladders{tail} are in the JSON result.", note=True)
        )
        return Section("pairs", "Each pair", tuple(blocks))
    in_full, curves = len(result.pairs) <= PAIRS_IN_FULL, len(result.pairs) <= PAIRS_WITH_CURVES
    blocks = [
        Fold(
            f"{arrow(pair)}: {verdict_words(pair, paper)}",
            (verdict_card(pair, paper), *pair_blocks(pair, result, in_full=in_full, curves=curves)),
        )
        for pair in result.pairs
    ]
    if not in_full:
        unit = "the target's diameter" if paper else "the rms distance between target rows"
        left_out = "" if curves else "; the curves of errors row by row are left out, their quantiles are in the tables"
        told = f"Errors are in units of {unit}; the dashed line is ε for {judged_name(paper)}. With {count(len(result.pairs))} pairs"
        brief = f"{told} each is shown in brief: every number is in the JSON result{left_out}. {ICA_NOTE}"
        blocks = [Text(brief), Key(forest_legend(result.pairs, paper)), *blocks]
    return Section("pairs", "Each pair", (_verdict_table(result.pairs, paper), *blocks))


def _verdict_table(pairs: Sequence[PairResult], paper: bool) -> Table:
    groups = list(dict.fromkeys(rung.group for pair in pairs for rung in pair.rungs))

    def line(pair: PairResult) -> tuple[str, ...]:
        found = {rung.group: beside(judged(rung, paper), pair.verdict.epsilon) for rung in pair.rungs}
        return (arrow(pair), verdict_name(pair.verdict.group), *(found.get(g, MISSING) for g in groups))

    return Table(
        f"Each ordered pair: {judged_title(paper)}",
        (Column("pair", "text"), Column("smallest group", "text"), *(Column(group_name(g)) for g in groups)),
        tuple(map(line, pairs)),
    )


def _similarity_section(result: Comparison) -> Section:
    pairs = unordered(result.pairs)
    if not pairs:
        return Section("similarity", "Similarity", ())
    measures = similarity_rows(pairs[0].similarity)
    blocks: list[Block] = [
        Text(
            "Descriptive companions of the ladder, from all rows and therefore in-sample. For each, larger is more "
            "alike; compare it with the value that shuffled rows give, never with 0 alone."
        )
    ]
    if len(pairs) == 1:
        blocks.append(_similarity_table(pairs[0], measures))
        without = [name for _, name, _, null in measures if null is None]
        if without:
            blocks.append(Text(f"{MISSING}: no shuffled values were drawn for {'; '.join(without)}.", note=True))
    else:
        blocks += _similarity_of_many(pairs)
    return Section("similarity", "Similarity: CCA, SVCCA, CKA", tuple(blocks))


def _similarity_table(pair: PairResult, measures: Sequence[Measure]) -> Table:
    subset = null_rows((null for _, _, _, null in measures), pair.n)
    figures = ["value", *(["on the same rows"] if subset else []), "rows shuffled", "p"]

    def line(kind: str, name: str, value: float, null: Null | None) -> tuple[str, ...]:
        same_rows = [number(null.observed if null else None)] if subset else []
        chance = (number(null.mean if null else None), probability(null.p if null else None))
        return (name, number(value), *same_rows, *chance, *methods.SCALES[kind])

    drawn = f"; shuffled on {subset}, beside the value on the same rows" if subset else ""
    scales = (Column(c, "text") for c in ("alike", "range", "unrelated"))
    return Table(
        f"Similarity of {arrow(pair).replace('→', 'and')}{drawn}",
        (Column("measure", "text"), *map(Column, figures), *scales),
        tuple(line(*measure) for measure in measures),
    )


def _similarity_of_many(pairs: Sequence[PairResult]) -> list[Block]:
    found = [similarity_rows(p.similarity) for p in pairs]
    names = list(dict.fromkeys(name for measures in found for _, name, _, _ in measures))
    kinds = {name: kind for measures in found for kind, name, _, _ in measures}
    subset = null_rows((null for measures in found for *_, null in measures), max(p.n for p in pairs))

    def cell(value: float, null: Null | None) -> str:
        if null is None:
            return number(value)
        same_rows = f"{number(null.observed)} on the same rows; " if subset else ""
        return f"{number(value)} ({same_rows}{number(null.mean)}; {probability(null.p)})"

    listed = pairs[:VERDICTS_LISTED]
    lines = []
    for pair, measures in zip(listed, found, strict=False):
        cells = {name: cell(value, null) for _, name, value, null in measures}
        lines.append((arrow(pair).replace("→", "and"), *(cells.get(name, MISSING) for name in names)))
    return [
        Table(
            "How to read each measure",
            tuple(Column(c, "text") for c in ("measure", "alike", "range", "unrelated")),
            tuple((name, *methods.SCALES[kinds[name]]) for name in names),
        ),
        Table(
            "Similarity of each pair (with shuffled rows; p)" + (f"; the null is drawn on {subset}" if subset else ""),
            (Column("pair", "text"), *map(Column, names)),
            tuple(lines),
        ),
    ]


def _spectra(spectra: Sequence[Spectrum]) -> Section:
    if not spectra:
        return Section("spectra", "Spectra", ())
    coloured = len(spectra) <= CURVES_IN_COLOUR
    curves = tuple(
        Curve(one_line(s.name), _scree_points(s.variances), i if coloured else None) for i, s in enumerate(spectra)
    )
    blocks: list[Block] = []
    if any(c.points for c in curves):
        blocks.append(
            Curves(
                "Share of variance by principal component",
                "Logarithmic scale, one line per representation. A steep fall means that few directions carry the variance.",
                "principal component",
                "share of variance",
                curves,
                log=True,
            )
        )
    columns = ("d", "rank", "effective rank", "share of the first component", "components for 95 %")
    blocks.append(
        Table(
            "Spectrum of each representation",
            (Column("representation", "text"), *map(Column, columns)),
            tuple(
                (
                    one_line(s.name),
                    count(len(s.variances)),
                    count(s.rank),
                    number(s.effective_rank, 1),
                    *_concentration(s.variances),
                )
                for s in spectra
            ),
        )
    )
    blocks.append(Text(EFFECTIVE_RANK, note=True))
    return Section("spectra", "Spectrum and effective rank", tuple(blocks))


def _scree_points(variances: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Shares of variance over component number, thinned evenly past the first ones, above rounding only."""
    total = math.fsum(v for v in variances if known(v))
    if total <= 0:
        return ()
    kept = thinned(len(variances), SCREE_POINTS)
    floor = 1e-14 * total
    return tuple((k + 1.0, variances[k] / total) for k in kept if known(variances[k]) and variances[k] > floor)


def _concentration(variances: Sequence[float]) -> tuple[str, str]:
    """Share of the first component, and how many it takes for 95 per cent."""
    total = math.fsum(v for v in variances if known(v))
    if total <= 0:
        return MISSING, MISSING
    reached = 0.0
    for k, variance in enumerate(variances, start=1):
        reached += variance if known(variance) else 0.0
        if reached >= 0.95 * total:
            return percent(variances[0] / total), count(k)
    return percent(variances[0] / total), count(len(variances))
