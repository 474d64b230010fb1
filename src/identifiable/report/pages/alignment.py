"""The page of `align`: what to do with the map, what a search through it finds, and how many pairs it needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, marks, section, shell_words, terms, written_by
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Code,
    Curve,
    Curves,
    DotRow,
    Dots,
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    estimate,
    group_name,
    known,
    number,
    one_line,
    percent,
    score,
    sentence_of,
    short,
)
from identifiable.results import Alignment, Bounded, PairsNeeded, Retrieval, Way
from identifiable.results.alignment import Advice

GUIDE = (
    "Recall@10 is the share of the ten nearest rows of the target that a search through the map finds; re-embedding finds all of them. "
    "Read it beside its baselines and the size of its index: it falls as the index grows."
)
READING = (
    "Recall@1, recall@10", "10 in 100", "MRR", "CSLS", "Queries and stored vectors", "Baselines", "Old encoder's own overlap",
    "R² and cosine", "Mixed index", "Pairs needed", "Families", "Regions", "[95 %]",
)  # fmt: skip
BADGES: dict[Advice, tuple[str, Tone]] = {
    "map": ("use the map", "good"),
    "map_and_rerank": ("map, fetch 100 and re-rank", "good"),
    "run_both": ("run both encoders", "caution"),
    "keep_old": ("keep the old encoder", "plain"),
    "re_embed": ("re-embed", "caution"),
}
BASELINES = {
    "as_is": "without a map",
    "random_rotation": "random rotation",
    "shuffled_pairs": "shuffled pairs",
}
CURVE_POINTS = 40


def page(result: Alignment) -> Page:
    words = glossary("alignment")
    first = result.ways[0]
    return framed(
        result,
        title=f"{_arrow(first)}: a map between representations",
        subtitle="Can vectors of one encoder be carried into the space of another, and what does it cost?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("steps", "What to do next", _steps(result)),
            section("retrieval", "What a search through the map finds", _retrieval(result)),
            section("baselines", "What it is compared with", _baselines(result)),
            section("pairs", "How many pairs are needed?", _pairs(result)),
            section("regions", "Rows that map worst", _regions(result)),
            section("families", "The maps that were tried", _families(result)),
            section("space", "Mapped vectors in the space of the target", _space(result)),
        ],
        reading=(Text(words[""]), terms("alignment", *READING)),
        methods=(words["Computed"], _judged(result), words["Sources"]),
        papers=("schonemann", "conneau", "chen2010"),
    )


def _arrow(way: Way) -> str:
    return f"{display_name(way.source)} → {display_name(way.target)}"


def cosine(found: Sequence[Retrieval]) -> Retrieval:
    """The search by cosine, which the verdict is about."""
    return next((each for each in found if each.metric == "cosine"), found[0])


def _said(found: Bounded) -> str:
    return estimate(found.value, found.ci95, score, score)


def _family(name: str) -> str:
    return one_line(name.replace("_", " "))


def _card(result: Alignment) -> Card:
    way = result.ways[0]
    badge, family, group = BADGES[way.advice], _family(way.family), group_name(way.group)
    facts = (
        *_recalls(way),
        *((BASELINES[b.name], score(b.cosine.recall_10.value)) for b in way.baselines if b.name == "as_is"),
        ("old encoder's own", _said(way.own_overlap)),
        *([] if way.own_within_100 is None else [("its 10 in 100", _said(way.own_within_100))]),
        ("pairs", count(result.pairs)),
        ("map", family if family == group else f"{family} ({group})"),
    )
    return Card(_arrow(way), badge[0], sentence_of(result.text.message), badge[1], facts, brief=True)


def _recalls(way: Way) -> Iterator[tuple[str, str]]:
    """Recall by cosine of either use; of queries alone where the result is of an older version."""
    for each in way.uses:
        if each.metric == "cosine":
            yield f"{each.use}: recall@10 among {count(each.index)}", _said(each.recall_10)
            yield f"{each.use}: 10 in 100", _said(each.within_100)
    if not way.uses:
        found = cosine(way.queries)
        yield f"recall@10 among {count(found.index)}", _said(found.recall_10)
        yield "10 in 100", _said(found.within_100)


def _steps(result: Alignment) -> Iterator[Block]:
    words, way = glossary("alignment"), result.ways[0]
    yield Text(words[f"Next: {way.advice}"], brief=True)
    if way.uses:
        yield Table(
            f"{_arrow(way)}: what to do, by use and metric, index of {counted(way.uses[0].index, 'row')} [95 %]",
            columns("mapped", "metric", "recall@10", "10 in 100", "advice", words=("metric", "advice")),
            tuple(
                (each.use, each.metric, _said(each.recall_10), _said(each.within_100), BADGES[each.advice][0])
                for each in way.uses
            ),
            strong=0,
            brief=True,
        )
    if way.advice != "re_embed":
        table, by = _files_of(result)
        yield Code(
            "Map stored vectors", one_line(f"identifiable transform {by} {table} -o mapped.npy --flags flags.csv")
        )


def _files_of(result: Alignment) -> tuple[str, str]:
    """The first table and the map as the command named them; a placeholder where it did not."""
    command = result.provenance.command
    words = shell_words(command)
    if words[:2] != ["identifiable", "align"] or len(words) < 3:
        return "vectors.npy", "map.safetensors"
    return shlex.quote(words[2]), written_by(command) or "map.safetensors"


def _uses(way: Way) -> Iterator[tuple[str, Retrieval]]:
    """Every search: which side is mapped."""
    yield from (("queries", each) for each in way.queries)
    yield from (("stored", each) for each in way.stored)


def _retrieval(result: Alignment) -> Iterator[Block]:
    for way in result.ways:
        queries = counted(cosine(way.queries).queries, "query row")
        yield Table(
            f"{_arrow(way)}: the share of the true nearest rows that a search finds [95 %], for {queries} that the map has not seen",
            columns("mapped", "metric", "index", "recall@1", "recall@10", "10 in 100", words=("metric",)),
            tuple(
                (use, each.metric, count(each.index), *map(_said, (each.recall_1, each.recall_10, each.within_100)))
                for use, each in _uses(way)
            ),
            strong=0,
            brief=way is result.ways[0],
        )
        yield Table(
            f"{_arrow(way)}: the place of the own row (MRR), and the same searches with hubs corrected (CSLS) [95 %]",
            columns("mapped", "metric", "index", "MRR", "CSLS MRR", "CSLS recall@10", words=("metric",)),
            tuple(
                (use, each.metric, count(each.index), *map(_said, (each.mrr, each.csls_mrr, each.csls_recall_10)))
                for use, each in _uses(way)
            ),
        )
    back = result.ways[1]
    found = "; ".join(f"{name} {value}" for name, value in _recalls(back))
    yield Text(f"The other way, {_arrow(back)}: {found}. Advice: {BADGES[back.advice][0]}.", brief=True)


def _baselines(result: Alignment) -> Iterator[Block]:
    for way in result.ways:
        found = cosine(way.queries)
        lines: list[tuple[str, Bounded, float | None]] = [("with the map", found.recall_10, way.r2.value)]
        lines += [(BASELINES[each.name], each.cosine.recall_10, each.r2) for each in way.baselines]
        lines.append(("old encoder", way.own_overlap, None))
        caption = f"{_arrow(way)}: recall@10 by cosine, index of {counted(found.index, 'row')}"
        yield Dots(
            caption,
            "The map, and the same search without it, through a random rotation and through a map of shuffled pairs. "
            "Old encoder: neighbours that both encoders have in common, each in its own space.",
            "recall@10",
            tuple(
                DotRow(name, score(value.value), marks(("main", value.value)), interval=value.ci95, strong=i == 0)
                for i, (name, value, _) in enumerate(lines)
                if known(value.value)
            ),
            (("main", "recall@10"), ("whisker", "95 % interval over queries")),
            reach=1.0,
        )
        yield Table(
            caption,
            columns("vectors", "recall@10 [95 %]", "R²"),
            tuple((name, _said(value), MISSING if r2 is None else number(r2)) for name, value, r2 in lines),
            strong=0,
            brief=way is result.ways[0],
        )


def _pairs(result: Alignment) -> Iterator[Block]:
    curves = [(way, way.curve) for way in result.ways if way.curve is not None]
    if not curves:
        return
    index = cosine(result.ways[0].queries).index
    drawn = [(i, way, curve, points) for i, (way, curve) in enumerate(curves) if (points := _points(curve))]
    if drawn:
        yield Curves(
            f"Recall@10 by number of pairs, index of {counted(index, 'row')}",
            "Dots are measured on rows that the map has not seen. Lines are the fitted curve; beyond the last dot they are a forecast.",
            "pairs",
            "recall@10",
            tuple(Curve(_arrow(way), _line(curve), i + 1, dotted=False) for i, way, curve, _ in drawn),
            clouds=tuple(Cloud("", points, "main", i + 1) for i, _, _, points in drawn),
            log_across=True,
            top=1.0,
        )
    for way, curve in curves:
        forecast = [(int(pairs), value) for pairs, value in curve.forecast.items()]
        rows = [(count(p.pairs), _said(p.recall_10), "measured") for p in curve.points]
        rows += [(count(pairs), score(value), "forecast") for pairs, value in forecast]
        yield Table(
            f"{_arrow(way)}: recall@10 with the same family, index of {counted(index, 'row')}; its limit is {score(curve.limit)}",
            columns("pairs", "recall@10 [95 %]", "how", words=("how",)),
            tuple(rows),
            brief=way is result.ways[0],
        )
    if (
        result.ways[0].advice != "re_embed" or "shuffled" not in result.text.values
    ):  # else no map works, whatever the pairs
        yield Text(_enough(*curves[0]), brief=True)


def _points(curve: PairsNeeded) -> tuple[tuple[float, float], ...]:
    return tuple((float(p.pairs), p.recall_10.value) for p in curve.points if p.pairs > 0 and known(p.recall_10.value))


def _line(curve: PairsNeeded) -> tuple[tuple[float, float], ...]:
    """The fitted curve from the first point to the last forecast, on a logarithmic axis."""
    ends = [point.pairs for point in curve.points] + [int(pairs) for pairs in curve.forecast]
    low, high = float(min(ends)), float(max(ends))
    if not (0 < low < high and known(curve.limit) and known(curve.drop) and known(curve.offset)):
        return ()
    steps = [low * (high / low) ** (i / CURVE_POINTS) for i in range(CURVE_POINTS + 1)]
    line = ((n, curve.limit - curve.drop / (n + curve.offset)) for n in steps if n + curve.offset > 0)
    return tuple((n, value) for n, value in line if 0 <= value <= 1)


def _enough(way: Way, curve: PairsNeeded) -> str:
    if curve.enough is None:
        return f"{_arrow(way)}: recall still grows with every pair; the curve does not say where that ends."
    if curve.enough <= way.fitted:
        fewest = curve.points[0].pairs
        enough = f"fewer than {count(fewest)}" if curve.enough < fewest else count(curve.enough)
        if way.advice == "re_embed":
            return f"{_arrow(way)}: more pairs gain less than 0.01, so pairs are not what is missing."
        return f"{_arrow(way)}: {enough} pairs are enough; more than that gain less than 0.01."
    return (
        f"{_arrow(way)}: about {counted(curve.enough, 'pair')} would be within 0.01 of the limit; "
        f"this map was evaluated with {count(way.fitted)}."
    )


def _regions(result: Alignment) -> Iterator[Block]:
    labels = result.settings.get("labels")
    for way in result.ways:
        if labels is not None and all(region.rule is not None for region in way.regions):
            yield Text(
                f"{_arrow(way)}: no label of {one_line(labels)} has a recall clearly below that of the other rows.",
                note=True,
                brief=way is result.ways[0],
            )
        if not way.regions:
            continue
        yield Table(
            f"{_arrow(way)}: groups of rows with a lower recall@10, index of {counted(cosine(way.queries).index, 'row')}",
            columns("rows", "rule", "test queries", "recall@10 [95 %]", "all others", words=("rule",)),
            tuple(
                (
                    one_line(region.name),
                    MISSING if region.rule is None else one_line(region.rule),
                    count(region.rows) if region.of is None else f"{count(region.rows)} of {count(region.of)}",
                    _said(region.recall_10),
                    score(region.rest),
                )
                for region in way.regions
            ),
            brief=way is result.ways[0],
            brief_rows=5,
        )


def _families(result: Alignment) -> Iterator[Block]:
    for way in result.ways:
        yield Table(
            f"{_arrow(way)}: each family at its best penalty, cross-validated on {count(way.choice_queries)} fitted rows, index of "
            f"{counted(way.choice_index, 'row')}",
            columns("family", "group", "penalty", "score", "standard error", "recall@10", "R²", words=("group",)),
            tuple(
                (
                    _family(each.family),
                    group_name(each.group),
                    MISSING if each.penalty is None else short(float(f"{each.penalty:.3g}")),
                    score(each.score),
                    score(each.standard_error),
                    score(each.recall_10),
                    number(each.r2),
                )
                for each in way.tried
            ),
            strong=next((i for i, each in enumerate(way.tried) if each.chosen), None),
        )
        yield Text(f"{_arrow(way)}: {one_line(way.why.message.replace('_', ' '))}", note=True)


def _space(result: Alignment) -> Iterator[Block]:
    yield Table(
        "Held-out rows. A mixed index holds as many mapped as true vectors; 0.5 if neither crowds out the other",
        columns("map", "R² [95 %]", "cosine [95 %]", "true vectors in the top 10", "inverse", words=("inverse",)),
        tuple(
            (
                _arrow(way),
                estimate(way.r2.value, way.r2.ci95),
                _said(way.cosine),
                percent(way.mixed),
                "yes" if way.invertible else "no",
            )
            for way in result.ways
        ),
    )


def _judged(result: Alignment) -> str:
    way = result.ways[0]
    return (
        f"{counted(result.pairs, 'pair')}: {count(way.fitted)} for choosing and fitting, {count(cosine(way.queries).queries)} for "
        f"evaluation; the map that is saved is fitted to all of them. Seed {result.provenance.seed}."
    )
