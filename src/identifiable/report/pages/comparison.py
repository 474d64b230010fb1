"""The page of `compare`: the verdict, the ladder of each ordered pair, similarity, spectra."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from identifiable.report.answer import advice, agree_nearby, answer, degree_name, form_group, loud, near
from identifiable.report.frame import framed, glossary, marks, matrix, notices, section, shade, terms, thinned
from identifiable.report.page import (
    NEXT,
    Block,
    Card,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Heading,
    Key,
    Page,
    Section,
    Table,
    Terms,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.demo import demo_commands, demo_data, demo_lesson, demo_pictures
from identifiable.report.pages.ladder import (
    BEYOND,
    CURVES_IN_COLOUR,
    HELD_OUT,
    PAPER,
    Headline,
    axes_blocks,
    card,
    ladder_picture,
    ladder_table,
    legend,
    moved_blocks,
    neighbour_blocks,
    null_rows,
    pair_blocks,
    shared_blocks,
    under_ladder,
    verdict_words,
)
from identifiable.report.words import (
    EFFECTIVE_RANK,
    LETTERS,
    MISSING,
    NESTED,
    arrow,
    beside,
    count,
    group_name,
    known,
    listed,
    number,
    one_line,
    percent,
    probability,
    setting,
)
from identifiable.results import Comparison, Consensus, Null, PairResult, Similarity, Spectrum

# A page must open in a browser and travel by mail (under 3 MB), so what is drawn per pair shrinks as pairs multiply.
PAIRS_IN_FULL = 12  # four models: every figure and every table
PAIRS_IN_BRIEF = 420  # twenty-one models: ladder only; beyond it the verdicts only
PAIRS_PRINTED = 42  # seven models; more would scroll the verdict off the screen
VERDICTS_LISTED = 1000
MODELS_IN_A_MATRIX = 64
WIDE_MATRIX = 12  # models; beyond it two decimals have to do
SCREE_POINTS = 64
CORNER = "source \\ target"
DOUBTED = (
    "paired_by_position",
    "one_ids_file",
    "identical_inputs",
)  # alerts after which the answer may be void: before the advice

SCALES = {  # measure -> value when alike, range, value when unrelated
    "cca": ("1", "0 to 1", "above 0, and near 1 once d approaches n"),
    "svcca": ("1", "0 to 1", "above 0, grows with components / n"),
    "cka": ("1", "0 to 1", "above 0, grows with d / n"),
    "cka_debiased": ("1", "at most 1, may fall below 0", "0"),
}
READING = (
    "R²", "Kept", "Shared dimensions", "Error", "Held-out", "Mean, quantiles, maximum", "Mean / diameter", "Chance (nulls)",
    "95 % interval",
)  # fmt: skip


def page(result: Comparison) -> Page:
    told = PAPER if result.settings.get("protocol") == "paper" else HELD_OUT
    names = [one_line(i.name) for i in result.inputs]
    many = len(names) > 2
    sources = len(result.pairs) == 1 and result.pairs[0].target == "sources"
    question = "Does it recover the sources" if sources else "Are these the same representation"
    groups = dict.fromkeys(group_name(rung.group) for pair in result.pairs for rung in pair.rungs)
    return framed(
        result,
        title=f"{len(names)} representations compared" if many else " and ".join(names),
        subtitle=f"{question}, and up to what?",
        guide=told.guide,
        verdict=_several_answers(result) if many else _one_answer(result, told),
        sections=[
            *(_several(result, names, told) if many else _in_detail(result, told)),
            section(
                "similarity",
                "Similarity: CCA, SVCCA, CKA",
                _folded("All measures", _similarity(_unordered(result.pairs))),
            ),
            section("spectra", "Spectrum and effective rank", _folded("Principal variances", _spectra(result.spectra))),
            section(NEXT, "What to try next", demo_commands(result.demo)),
        ],
        reading=(
            Text(glossary("comparison")[""]),
            terms("comparison", *(name for name in groups if name in glossary("comparison"))),
            terms("comparison", *READING, "ICA efficiency"),
        ),
        methods=_methods(result, told),
        papers=_papers(result),
    )


def _folded(summary: str, blocks: Iterator[Block]) -> tuple[Block, ...]:
    found = tuple(blocks)
    return (Fold(summary, found),) if found else ()


# -- two models


def _one_answer(result: Comparison, told: Headline) -> Iterator[Block]:
    """The sentence, the picture, the ladder, and what to do next."""
    pair, back = result.pairs[0], result.pairs[1] if len(result.pairs) > 1 else None
    yield card(pair, result.alerts, brief=True)
    yield from ladder_picture(pair, back)
    yield from _near(pair)
    yield ladder_table(pair, told, brief=True)
    yield from under_ladder(pair)
    yield from _next(result, pair)


def _near(pair: PairResult, whose: str = "") -> Iterator[Block]:
    if (said := near(pair.neighbours, whose)) and not agree_nearby(pair):  # there it is in the answer
        yield Text(said, brief=True)


def _next(result: Comparison, pair: PairResult) -> Iterator[Block]:
    yield from notices([alert for alert in result.alerts if alert.code in DOUBTED], brief=True)
    steps = list(advice(pair, result.alerts))
    if steps:
        yield Terms(tuple(("Next" if i == 0 else "And", step) for i, step in enumerate(steps)), brief=True)


def _in_detail(result: Comparison, told: Headline) -> Iterator[Section]:
    pair = result.pairs[0]
    yield section("shared", "Shared dimensions", shared_blocks(pair))
    yield section("axes", "Axes", axes_blocks(pair))
    yield section("neighbours", "Nearest neighbours", neighbour_blocks(pair))
    yield section("moved", "Which rows moved", moved_blocks(pair, brief=True))
    for i, each in enumerate(result.pairs):
        blocks = tuple(pair_blocks(each, result.settings, told, in_full=True))
        folded = (Fold(f"The other way: {verdict_words(each)}", blocks),)
        yield section(f"pair-{i + 1}", arrow(each), folded if i else blocks)


# -- several models


def _several(result: Comparison, names: Sequence[str], told: Headline) -> Iterator[Section]:
    moved = moved_blocks(result.weakest, brief=True)
    yield section("moved", "Which rows moved", (*demo_pictures(result.demo), *moved))
    yield section("overview", "All pairs at a glance", _overview(result, names, told))
    yield section("pairs", "Each pair", _each_pair(result, told))


def _several_answers(result: Comparison) -> Iterator[Block]:
    """What holds for every pair, and how the pairs compare."""
    pair, total = result.weakest, count(len(result.pairs))
    found = Counter(degree_name(p) for p in result.pairs)
    r2 = [p.verdict.r2 for p in result.pairs if p.verdict.r2 is not None]
    spread = (("R² of linear maps", f"{number(min(r2), 2)} to {number(max(r2), 2)}"),) if r2 else ()
    facts = tuple((name, f"{count(n)} of {total} ordered pairs") for name, n in found.most_common())
    tone: Tone = "good" if pair.verdict.degree in ("nearly", "largely") and not loud(pair) else "caution"
    even = "even the two least alike" if tone == "good" else "the two least alike"
    yield from demo_data(result)
    yield Card(
        f"{count(len(result.inputs))} models, {even}",
        degree_name(pair),
        f"{arrow(pair)}: {answer(pair, result.alerts)}",
        tone,
        (*facts, *spread),
        brief=True,
    )
    yield from demo_lesson(result)
    yield from ladder_picture(pair)
    yield from _near(pair, arrow(pair))
    yield ladder_table(pair, HELD_OUT, brief=True)
    yield from under_ladder(pair)
    yield from _next(result, pair)


def _overview(result: Comparison, names: Sequence[str], told: Headline) -> Iterator[Block]:
    yield _verdict_table(result.pairs[:VERDICTS_LISTED], told, brief=len(result.pairs) <= PAIRS_PRINTED)
    matrices = _error_matrices(result, told)
    if len(names) > MODELS_IN_A_MATRIX:
        yield Text(f"{len(names)} models are too many for a matrix on a page; the numbers are in the JSON result.")
    elif matrices:
        guide = "rigid" if "rigid" in matrices else list(matrices)[-1]
        order = cluster_order(matrices[guide])
        told_form = any(p.verdict.form is not None for p in result.pairs)
        verdicts = {
            (one_line(p.source), one_line(p.target)): form_group(p) if told_form else p.verdict.group
            for p in result.pairs
        }

        def smallest(i: int, j: int) -> str:
            group = verdicts.get((names[i], names[j]))
            return "·" if i == j else MISSING if group is None else LETTERS.get(group, group_name(group))

        letters = ", ".join(f"{LETTERS[g]} {group_name(g)}" for g in NESTED)
        what = "keeps what a linear map explains" if told_form else "has an error below ε"
        caption = f"The smallest group that {what}: {letters}, {MISSING} none"
        yield matrix(caption, CORNER, names, order, smallest, lambda i, j: None)
        top = max((v for values in matrices.values() for row in values for v in row if known(v)), default=0.0)
        for group, values in matrices.items():
            caption = f"{group_name(group)}: {told.mean_title}, row onto column"
            yield _heat_map(
                caption, values, names, order, top, brief=group == guide and len(result.pairs) <= PAIRS_IN_FULL
            )
        yield Text(
            f"Models stand in the order of average-linkage clustering of the {group_name(guide)} errors, so that models that "
            "agree are neighbours. The stronger the colour, the larger the error; all matrices share one scale.",
            note=True,
        )
    if result.consensus is not None:
        yield from _consensus(result.consensus)


def _heat_map(
    caption: str,
    values: Sequence[Sequence[float]],
    names: Sequence[str],
    order: Sequence[int],
    top: float,
    *,
    brief: bool,
) -> Table:
    decimals = 3 if len(order) <= WIDE_MATRIX else 2

    def cell(i: int, j: int) -> str:
        return "·" if i == j else number(values[i][j], decimals)

    def colour(i: int, j: int) -> int | None:
        return None if i == j or not known(values[i][j]) else shade(values[i][j], top)

    return matrix(caption[0].upper() + caption[1:], CORNER, names, order, cell, colour, brief=brief)


def _error_matrices(result: Comparison, told: Headline) -> dict[str, Sequence[Sequence[float]]]:
    """The headline error of each group for every ordered pair, in the order of the inputs."""
    if told is HELD_OUT:
        return {m.group: m.values for m in result.matrices}
    place = {item.name: i for i, item in enumerate(result.inputs)}
    empty = np.where(np.eye(len(place), dtype=bool), 0.0, math.nan)
    values: dict[str, list[list[float]]] = {}
    for pair in result.pairs:
        for rung in pair.rungs:
            found = values.setdefault(rung.group, empty.tolist())
            found[place[pair.source]][place[pair.target]] = told.mean(rung.in_sample)
    return dict(values)


def cluster_order(distances: Sequence[Sequence[float]]) -> list[int]:
    """Leaves of an average-linkage tree: models that agree stand next to each other, else in the order given."""
    values = np.asarray(distances, dtype=float)
    far = max((v for row in distances for v in row if known(v)), default=0.0) + 1
    gaps = np.where(np.isfinite(values), values, far)
    leaves = [[i] for i in range(len(gaps))]
    for one, other, *_ in linkage(squareform((gaps + gaps.T) / 2, checks=False), "average"):
        first, second = sorted((leaves[int(one)], leaves[int(other)]))
        leaves.append(first + second)
    return leaves[-1]


def _consensus(consensus: Consensus) -> Iterator[Block]:
    state = "converged" if consensus.converged else "NOT converged"
    title = f"Distance of each model to the consensus ({state} after {consensus.iterations} rounds)"
    found = [(one_line(d.name), d.rms, d.mean, d.q95, d.max) for d in consensus.distances]
    yield Heading("Consensus")
    yield Text(
        f"The consensus is the generalised Procrustes mean in {consensus.width} dimensions: each model is centred, scaled to unit "
        "rms and rotated onto the common mean."
    )
    yield Dots(
        title,
        "One line per model; the filled dot is the root mean square distance.",
        "distance / rms of the consensus",
        tuple(
            DotRow(name, number(rms), marks(("main", rms), ("hollow", mean), ("q95", q95), ("max", largest)))
            for name, rms, mean, q95, largest in found
        ),
        (("main", "rms"), ("hollow", "mean"), ("q95", "95 % quantile"), ("max", "maximum"), ("beyond", BEYOND)),
    )
    heads = columns("model", "rms", "mean", "q95", "max")
    yield Table(title, heads, tuple((name, *map(number, values)) for name, *values in found), brief=True)
    yield Text(
        "The unit is the consensus' own rms distance between rows. A model far from the others moves the consensus, and with it "
        "every distance.",
        note=True,
        brief=True,
    )


def _each_pair(result: Comparison, told: Headline) -> Iterator[Block]:
    pairs, total = result.pairs, len(result.pairs)
    if total > PAIRS_IN_BRIEF:
        left = f" and the {count(total - VERDICTS_LISTED)} pairs not listed" if total > VERDICTS_LISTED else ""
        yield Text(f"So many pairs are listed by verdict only; the ladders{left} are in the JSON result.")
        return
    if total > PAIRS_IN_FULL:
        yield Text(
            f"With {count(total)} pairs each is shown in brief: every number is in the JSON result. Errors in the figures are in "
            f"units of the {told.unit}; the dashed line is ε for {told.judged}."
        )
        yield Key(legend(told))
    for pair in pairs:
        blocks = [*ladder_picture(pair), *pair_blocks(pair, result.settings, told, in_full=total <= PAIRS_IN_FULL)]
        if total <= PAIRS_IN_FULL:
            for title, more in (
                ("Shared dimensions", shared_blocks(pair)),
                ("Axes", axes_blocks(pair)),
                ("Nearest neighbours", neighbour_blocks(pair)),
                ("Which rows moved", moved_blocks(pair)),
            ):
                found = tuple(more)
                blocks += [Heading(title), *found] if found else []
        yield Fold(f"{arrow(pair)}: {verdict_words(pair)}", (card(pair, result.alerts), *blocks))


def _verdict_table(pairs: Sequence[PairResult], told: Headline, *, brief: bool) -> Table:
    groups = list(dict.fromkeys(rung.group for pair in pairs for rung in pair.rungs))
    explained = any(rung.r2 is not None for pair in pairs for rung in pair.rungs)

    def line(pair: PairResult) -> tuple[str, ...]:
        found = {
            rung.group: (MISSING if rung.r2 is None else number(rung.r2.value, 2))
            if explained
            else beside(told.of(rung), pair.verdict.epsilon)
            for rung in pair.rungs
        }
        shared = MISSING if pair.shared is None else f"{count(pair.shared.strong)} of {count(pair.shared.possible)}"
        return (arrow(pair), *(found.get(g, MISSING) for g in groups), shared, verdict_words(pair))

    shown = "held-out R² of each group" if explained else told.judged_title
    return Table(
        f"Each ordered pair: {shown}, and shared dimensions",
        columns("pair", *map(group_name, groups), "shared", "answer", words=("answer",), hidden=("answer",)),
        tuple(map(line, pairs)),
        brief=brief,
        brief_rows=PAIRS_PRINTED,
    )


# -- similarity and spectra


def _unordered(pairs: Sequence[PairResult]) -> list[PairResult]:
    """One direction of each pair: CCA and CKA are the same both ways."""
    first: dict[frozenset[str], PairResult] = {}
    for pair in pairs:
        first.setdefault(frozenset((pair.source, pair.target)), pair)
    return list(first.values())


def similarity_rows(similarity: Similarity) -> list[tuple[str, str, float, Null | None]]:
    """Each measure: key, name, value and what row shuffling gives."""
    found = [("cca", "cca", "CCA", similarity.cca)]
    for k in sorted(similarity.svcca, key=lambda k: (int(k) if k.isdigit() else 0, k)):
        found.append(("svcca", f"svcca{k}", f"SVCCA, {k} components", similarity.svcca[k]))
    found += [("cka", "cka", "CKA", similarity.cka)]
    found += [("cka_debiased", "ckadebiased", "CKA, debiased", similarity.cka_debiased)]
    nulls = {re.sub("[^a-z0-9]", "", key.lower()): null for key, null in similarity.null.items()}
    return [(kind, name, value, nulls.get(key)) for kind, key, name, value in found]


def _similarity(pairs: Sequence[PairResult]) -> Iterator[Block]:
    """A line for each measure with one pair; a line for each pair with more."""
    if not pairs:
        return
    found = [similarity_rows(pair.similarity) for pair in pairs]
    measures = {name: kind for lines in found for kind, name, _, _ in lines}
    subset = null_rows((null for lines in found for *_, null in lines), max(pair.n for pair in pairs))
    on = f"; shuffled on {subset}, beside the value on the same rows" if subset else ""
    heads = (*(("on the same rows",) if subset else ()), "shuffled", "p")
    scales = ("alike", "range", "unrelated")

    def chance(null: Null | None) -> list[str]:
        values = (null.observed, null.mean, null.p) if null else (None, None, None)
        return [*([number(values[0])] if subset else []), number(values[1]), probability(values[2])]

    yield Text(
        "Larger is more alike. Compare each value with that of shuffled rows, not with 0. All rows are used (in-sample)."
    )
    if len(pairs) == 1:
        yield Table(
            f"Similarity of {arrow(pairs[0]).replace('→', 'and')} (1 = alike){on}",
            columns("measure", "value", *heads, *scales, words=scales, hidden=scales),
            tuple((name, number(value), *chance(null), *SCALES[kind]) for kind, name, value, null in found[0]),
        )
        if without := [name for _, name, _, null in found[0] if null is None]:
            yield Text(f"{MISSING}: no shuffled values were drawn for {'; '.join(without)}.", note=True)
        return
    yield Table(
        "How to read each measure",
        columns("measure", *scales, words=scales),
        tuple((name, *SCALES[kind]) for name, kind in measures.items()),
    )

    def line(pair: PairResult, measured: Sequence[tuple[str, str, float, Null | None]]) -> tuple[str, ...]:
        cells = {
            name: number(value) if null is None else f"{number(value)} ({'; '.join(chance(null))})"
            for _, name, value, null in measured
        }
        return (arrow(pair).replace("→", "and"), *(cells.get(name, MISSING) for name in measures))

    yield Table(
        f"Similarity of each pair ({'; '.join(heads)}){on}",
        columns("pair", *measures),
        tuple(map(line, pairs[:VERDICTS_LISTED], found)),
    )


def _spectra(spectra: Sequence[Spectrum]) -> Iterator[Block]:
    if not spectra:
        return
    coloured = len(spectra) <= CURVES_IN_COLOUR
    curves = tuple(Curve(one_line(s.name), _scree(s.variances), i if coloured else None) for i, s in enumerate(spectra))
    if any(curve.points for curve in curves):
        yield Curves(
            "Share of variance by principal component",
            "Logarithmic scale, one line per representation. A steep fall means that few directions carry the variance.",
            "principal component",
            "share of variance",
            curves,
            log=True,
        )

    def line(s: Spectrum) -> tuple[str, ...]:
        ranks = (count(len(s.variances)), count(s.rank), number(s.effective_rank, 1))
        return (one_line(s.name), *ranks, *_concentration(s.variances))

    heads = ("d", "rank", "effective rank", "share of the first component", "components for 95 %")
    yield Table("Spectrum of each representation", columns("representation", *heads), tuple(map(line, spectra)))
    yield Text(EFFECTIVE_RANK, note=True)


def _scree(variances: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Shares of variance over component number, thinned evenly past the first ones, above rounding only."""
    total = math.fsum(v for v in variances if known(v))
    shown = [k for k in thinned(len(variances), SCREE_POINTS) if known(variances[k])] if total > 0 else []
    return tuple((k + 1.0, variances[k] / total) for k in shown if variances[k] > 1e-14 * total)


def _concentration(variances: Sequence[float]) -> tuple[str, str]:
    """Share of the first component, and how many it takes for 95 per cent."""
    values = [v if known(v) else 0.0 for v in variances]
    total = math.fsum(values)
    if total <= 0:
        return MISSING, MISSING
    reached = int(np.argmax(np.cumsum(values) >= 0.95 * total)) + 1
    return percent(values[0] / total), count(reached)


# -- methods


def _methods(result: Comparison, told: Headline) -> Iterator[str]:
    chosen, pairs = result.settings, result.pairs
    groups = dict.fromkeys(rung.group for pair in pairs for rung in pair.rungs)
    fitted = listed(group_name(g) for g in groups if g != "ica") or "none"
    words = glossary("comparison")
    by_position = any(alert.code == "paired_by_position" for alert in result.alerts)
    yield (
        f"{listed(one_line(i.name) for i in result.inputs)} were compared in every ordered pair."
        + (" Rows were paired by position." if by_position else "")
        + (f" {words['Widths']}" if len({item.d for item in result.inputs}) > 1 else "")
        + f" Each source was mapped onto its target by the best map of each of these groups: {fitted}. {words['Fitting']}"
        + (f" {words['Fitting ICA']}" if "ica" in groups else "")
    )
    folds, by = chosen.get("folds"), chosen.get("group_by")
    unit = f"whole groups of {setting(by)}" if by else "rows"
    held_out = f"come from {setting(folds)}-fold cross-validation" if folds else "are cross-validated"
    bounded = any(rung.held_out.ci95 is not None for pair in pairs for rung in pair.rungs)
    intervals = (
        f"95 % intervals from a jackknife that leaves out {unit} in turn and fits again" if bounded else "no intervals"
    )
    names = {"shuffle": "row shuffling", "rotation": "random rotation"}
    drawn = {(kind, null) for pair in pairs for rung in pair.rungs for kind, null in rung.null.items()}
    draws = sorted({(kind, null.draws) for kind, null in drawn if null is not None})
    nulls = listed(f"{names.get(kind, one_line(kind))} ({count(n)} draws)" for kind, n in draws)
    chance = f"Null distributions: {nulls}; p = (1 + draws at least as good) / (1 + draws)." if nulls else ""
    yield (
        f"Held-out R² and errors {held_out}, folds drawn over {unit}; {intervals}. "
        f"{chance or 'No nulls were drawn.'} {words['Answer']} Seed {result.provenance.seed}."
    )
    yield words["Sources"] + (f" {words['Sources of the consensus']}" if result.consensus is not None else "")


def _papers(result: Comparison) -> Iterator[str]:
    """The papers whose numbers are shown."""
    yield from ("nelson", "roeder")
    yield from ["kornblith"] if result.pairs else []
    yield from ["raghu"] if any(pair.similarity.svcca for pair in result.pairs) else []
    yield from ["roy"] if result.spectra else []
    yield from ["gower"] if result.consensus is not None else []
