"""The page of `match`: how many features have a partner, every score beside chance, spans, and what several runs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, matrix, section, shade, terms, written_by
from identifiable.report.page import Block, Card, Curve, Curves, Page, Table, Text, columns
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
    percent,
    probability,
    score,
    sentence_of,
    short,
)
from identifiable.results import DictionaryPair, Interval, Matches

GUIDE = (
    "PW-MCC is the mean cosine of features matched one to one; read it beside chance, which is far above 0. Every feature gets a "
    "partner, and those at chance level are not unique."
)
READING = (
    "PW-MCC",
    "Chance",
    "Largest cosine",
    "Share above the threshold",
    "Margin",
    "Chance-level matches are not unique",
    "Subspaces",
)
SEVERAL = ("Stability", "Cycles")
SCORES = {
    "pw_mcc": "PW-MCC, signed",
    "pw_mcc_absolute": "PW-MCC, absolute",
    "max_cosine": "largest cosine A → B",
    "max_cosine_back": "largest cosine B → A",
    "share_above": "share above {}",
}
SOLVERS = {"hungarian": "exact (Hungarian)", "sparse": "nearest candidates, sparse assignment"}
NAME = 20  # columns of a name in a cell
PICTURED = 6  # pairs that have a figure of their own


def page(result: Matches) -> Page:
    words = glossary("match")
    names = [display_name(each.name) for each in result.dictionaries]
    several = len(names) > 2
    return framed(
        result,
        title=f"{listed(names)}: which features are the same?",
        subtitle="Features of dictionaries matched one to one, beside chance.",
        guide=GUIDE,
        verdict=(_card(result), Text(words["Chance-level matches are not unique"], note=True)),
        sections=[
            section("scores", "Scores beside chance", _scores(result)),
            section("seeds", "Over all dictionaries", _several(result)),
            section("cosines", "Cosines of the matches", _cosines(result)),
            section("strongest", "Strongest matches", _strongest(result)),
            section("spans", "Do they span the same directions?", _spans(result)),
            section("dictionaries", "The dictionaries", _dictionaries(result)),
            section("steps", "What to do next", _next(result)),
        ],
        reading=(Text(words[""]), terms("match", *READING, *(SEVERAL if several else ()))),
        methods=(words["Computed"], _judged(result), words["Sources"]),
        papers=("song2025",),
    )


def _named(pair: DictionaryPair) -> str:
    return f"{display_name(pair.first)} and {display_name(pair.second)}"


def _threshold(result: Matches) -> str:
    return short(result.threshold)


def _card(result: Matches) -> Card:
    pair = result.pairs[0]
    facts = [
        ("features", " and ".join(count(each.features) for each in result.dictionaries)),
        ("dimensions", count(result.dictionaries[0].dimensions)),
        ("PW-MCC", number(pair.main.value)),
        ("by chance", number(pair.main.chance)),
        (f"above {_threshold(result)}", f"{count(pair.above)} of {count(pair.matched)}"),
        ("above 99 % of chance", f"{count(pair.above_null)} of {count(pair.matched)}"),
    ]
    if result.cycles is not None:
        facts = [*facts[:2], ("cycles that close", percent(result.cycles.share))]
    well = not result.text.code.endswith("at_chance")
    badge = "cosine" if pair.signed else "absolute cosine"
    names = listed(display_name(each.name) for each in result.dictionaries)
    return Card(names, badge, sentence_of(result.headline), "plain" if well else "caution", tuple(facts), brief=True)


def _scores(result: Matches) -> Iterator[Block]:
    for pair in result.pairs:
        yield Table(
            f"{display_name(pair.first)} (A) and {display_name(pair.second)} (B): {counted(pair.matched, 'match')} by "
            f"{'cosine' if pair.signed else 'absolute cosine'}. Chance: the "
            "largest of Gaussian, permuted and shuffled",
            columns("score", "value", "chance", "95 %", "p", "gaussian", "permuted", "shuffled", "isotropic"),
            tuple(
                (
                    SCORES[found.name].format(_threshold(result)),
                    number(found.value),
                    number(found.chance),
                    interval(found.chance_ci95),
                    probability(found.p),
                    number(found.gaussian),
                    number(found.permuted),
                    MISSING if found.shuffled is None else number(found.shuffled),
                    number(found.isotropic),
                )
                for found in pair.scores
            ),
            brief=len(result.pairs) <= 3,
        )


def _several(result: Matches) -> Iterator[Block]:
    if result.cycles is None:
        return
    names = [each.name for each in result.dictionaries]
    values = {frozenset((pair.first, pair.second)): pair.main.value for pair in result.pairs}

    def value(i: int, j: int) -> float:
        return values.get(frozenset((names[i], names[j])), 1.0)

    yield matrix(
        "PW-MCC of every two",
        "dictionary",
        [display_name(name) for name in names],
        range(len(names)),
        lambda i, j: MISSING if i == j else number(value(i, j)),
        lambda i, j: shade(max(value(i, j), 0.0), 1.0) if i != j and known(value(i, j)) else None,
        brief=True,
    )
    yield Table(
        f"Features over all other dictionaries. Stable: a partner above {_threshold(result)} in each",
        columns("dictionary", "features", "stable", "mean cosine", "by chance"),
        tuple(
            (
                display_name(each.name),
                count(each.features),
                count(each.stability.stable),
                number(each.stability.mean),
                number(each.stability.chance),
            )
            for each in result.dictionaries
            if each.stability is not None
        ),
        brief=True,
    )
    yield Text(
        f"{percent(result.cycles.share)} of cycles over three dictionaries close, {percent(result.cycles.chance)} by chance.",
        brief=True,
    )


def _cosines(result: Matches) -> Iterator[Block]:
    for pair in result.pairs[:PICTURED]:
        found, by_chance = _rising(pair.quantiles), _rising(pair.null_quantiles)
        if not found or not by_chance:
            continue
        yield Curves(
            f"Matches of {_named(pair)}",
            "Share of matches whose cosine is at most the value across, beside matches of null dictionaries.",
            "cosine" if pair.signed else "absolute cosine",
            "share of matches",
            (Curve("matches", found, 1, dotted=False), Curve("by chance", by_chance, 0, dotted=False)),
            across_base=0.0,
            cut=("threshold", result.threshold),
        )
    yield Table(
        "Above 99 %: nearer than 99 % of chance matches. Left over: features without a partner, because the other side has fewer",
        columns("pair", "matches", f"above {_threshold(result)}", "by chance", "99 % point", "above 99 %", "left over"),
        tuple(
            (
                _named(pair),
                count(pair.matched),
                count(pair.above),
                number(pair.chance_above, 1),
                number(pair.null99),
                count(pair.above_null),
                f"{count(pair.unmatched_first)} and {count(pair.unmatched_second)}",
            )
            for pair in result.pairs
        ),
        brief=True,
    )


def _rising(quantiles: Sequence[float]) -> tuple[Interval, ...]:
    """Points of the distribution with these even quantiles."""
    last = max(len(quantiles) - 1, 1)
    return tuple((value, i / last) for i, value in enumerate(quantiles) if known(value))


def _strongest(result: Matches) -> Iterator[Block]:
    for pair in result.pairs[:PICTURED]:
        heads = [f"feature of {clip(one_line(name), NAME)}" for name in (pair.first, pair.second)]
        yield Table(
            f"{_named(pair)}: the {count(len(pair.strongest))} largest cosines; --output has all matches",
            columns(*heads, "cosine", "margin", "p", words=(heads[1],)),
            tuple(
                (one_line(m.first), one_line(m.second), score(m.cosine), number(m.margin), probability(m.p))
                for m in pair.strongest
            ),
        )


def _spans(result: Matches) -> Iterator[Block]:
    partial = [pair for pair in result.pairs if pair.subspaces.overlap is not None]
    if partial:
        yield Table(
            "Overlap: mean squared cosine of the principal angles (degrees)",
            columns("pair", "ranks", "dimensions", "overlap", "by chance", "median angle", "largest"),
            tuple(
                (
                    _named(pair),
                    f"{count(pair.subspaces.rank_first)} and {count(pair.subspaces.rank_second)}",
                    count(pair.subspaces.dimensions),
                    score(pair.subspaces.overlap),
                    score(pair.subspaces.chance),
                    number(pair.subspaces.median_angle, 1),
                    number(pair.subspaces.largest_angle, 1),
                )
                for pair in partial
            ),
            brief=True,
        )
    if len(partial) < len(result.pairs):
        yield Text(
            f"Subspaces are not compared where both dictionaries span all {count(result.dictionaries[0].dimensions)} dimensions.",
            note=True,
            brief=True,
        )


def _dictionaries(result: Matches) -> Iterator[Block]:
    yield Table(
        "Dead features are zero and were left out",
        columns("dictionary", "features", "dead", "dimensions", "rank", "from", words=("from",)),
        tuple(
            (
                display_name(each.name),
                count(each.features),
                count(each.dead),
                count(each.dimensions),
                count(each.rank),
                "basis of resolve" if each.basis else "matrix",
            )
            for each in result.dictionaries
        ),
    )


def _next(result: Matches) -> Iterator[Block]:
    words, file = glossary("match"), written_by(result.provenance.command)
    if result.text.code.endswith("at_chance"):
        bases = all(each.basis for each in result.dictionaries)
        yield Text(words["Steps at chance, bases" if bases else "Steps at chance"], brief=True)
    else:
        yield Text(words["Steps save"] if file is None else f"The matching is in {one_line(file)}.", brief=True)
        yield Text(words["Steps matched"], brief=True)
    if len(result.dictionaries) == 2 and not result.dictionaries[0].basis:
        yield Text(words["Steps more runs"], brief=True)


def _judged(result: Matches) -> str:
    pair = result.pairs[0]
    sizes = " and ".join(map(count, pair.null_features))
    drawn = (
        f"null dictionaries of the same size were drawn {count(result.draws)} times"
        if len(pair.null_features) == 1
        else f"null dictionaries of {sizes} features were drawn and the level extrapolated"
    )
    larger = listed(dict.fromkeys(each.main.null for each in result.pairs))
    judged = f"For chance {drawn}, of each kind; the larger level: {larger}."
    return f"Assignment: {SOLVERS[pair.solver]}. {judged} Seed {result.provenance.seed}."
