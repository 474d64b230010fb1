"""The page of `reproduce roeder-fig1` to `roeder-fig4`: pairs of retrained models, what the paper states and what we found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.headlines import MEASURES, VERDICTS, absent_words, claim_words, measure_words
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.paper import choice_tables
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    estimate,
    interval,
    known,
    number,
    one_line,
    sentence_of,
    setting,
    short,
    signed,
)
from identifiable.results import RoederFigure, Scatter, SeedMean, SeedModel

GUIDE = (
    "Every number compares two models that differ in their seeds, {rows}. 1 means alike up to a linear "
    "map; read it beside the two baselines, rows paired at random and the same models untrained."
)
ROWS = {
    "roeder-fig1": "on contexts that neither was trained on, or on trained vectors of words that are held out of the fitted map only"
}
WHAT = {
    "roeder-fig1": ("Figure 1", "Word embeddings of a log-bilinear model: do two runs learn the same vectors?"),
    "roeder-fig2": ("Figure 2", "Classifiers of points by their angle: do two runs learn the same features?"),
    "roeder-fig3": ("Figure 3", "Contrastive coding of image patches: do two runs learn the same features?"),
    "roeder-fig4": ("Figure 4", "Language models: do two models have the same features, layer by layer?"),
}
DRAWN = ("cca", "svcca", "r2", "r2_heads")  # over an axis with several values
STYLES = 8  # of curves
WIDE = 20  # largest over smallest value of an axis, from which on it is logarithmic
READING = ("CCA", "R²", "R² from heads", "Baselines", "Intervals", "Agrees")
REMOVED = {"diverged": "loss not finite", "above_floor": "loss too far above the least possible"}
BADGES: dict[str, tuple[str, Tone]] = {
    "agrees": ("agrees with the paper", "good"),
    "does_not": ("does not agree with the paper", "caution"),
    "cannot_tell": ("cannot tell", "plain"),
}


def page(result: RoederFigure) -> Page:
    words = glossary("roeder")
    name, what = WHAT[result.experiment]
    return framed(
        result,
        title=f"{name} of Roeder et al. (2021), run again",
        subtitle=what,
        guide=GUIDE.format(rows=ROWS.get(result.experiment, "on rows that neither was trained on")),
        verdict=_verdict(result),
        sections=[
            section("figures", "The figures", _figures(result)),
            section("numbers", "All numbers", _numbers(result)),
            section("models", "Models", _models(result)),
            section("choices", "Settings", choice_tables(result.choices)),
        ],
        reading=(Text(words[""]), terms("roeder", *READING)),
        methods=(words[result.experiment], words["Measured"], words["Sources"]),
        papers=("roeder", "raghu"),
    )


def _ends(result: RoederFigure) -> list[SeedMean]:
    """Of every part and measure the mean at the largest value of the first axis."""
    last: dict[tuple[str, str], SeedMean] = {}
    for mean in (m for m in result.means if m.axis == result.means[0].axis):
        key = (mean.part, mean.measure)
        if key not in last or not mean.at < last[key].at:
            last[key] = mean
    return list(last.values())


# -- the verdict


def _verdict(result: RoederFigure) -> Iterator[Block]:
    yield _card(result)
    yield Table(
        "Statements of the paper, and ours beside them",
        columns(
            *("measure", "statement", "by", "ends", "difference [95 %]", "pairs", "this run"),
            words=("statement", "by", "ends", "this run"),
            hidden=("pairs",),
        ),
        tuple(
            (
                measure_words(claim.measure, claim.part),
                claim_words(claim),
                claim.source,
                f"{short(claim.first)}, {short(claim.last)}"
                if claim.claim == "rises" and claim.first is not None
                else MISSING,
                estimate(claim.difference, claim.difference_ci95, signed),
                count(claim.pairs),
                VERDICTS[claim.found] + (" (as untrained)" if claim.as_untrained else ""),
            )
            for claim in result.claims
            if claim.pairs
        ),
        brief=True,
    )
    for part in dict.fromkeys(claim.part for claim in result.claims if not claim.pairs):
        yield Text(sentence_of(absent_words(result, part)), brief=True)
    yield _last(result)
    if result.published:
        yield Table(
            "Published, as far as our copy has it",
            columns("what", "value", words=("value",)),
            tuple((one_line(key.replace("_", " ")), setting(value)) for key, value in result.published.items()),
            brief=True,
        )


def _badge(result: RoederFigure) -> tuple[str, Tone]:
    found = {claim.found for claim in result.claims if claim.source == "paper"}
    if len(found) == 1:
        return BADGES[found.pop()]
    return ("agrees in part", "caution") if "agrees" in found else BADGES["does_not" if found else "cannot_tell"]


def _card(result: RoederFigure) -> Card:
    badge, tone = _badge(result)
    pairs = len({pair.seeds for pair in result.pairs})
    data = display_name(result.inputs[0].name) if result.inputs else MISSING
    facts = tuple(
        (measure_words(mean.measure, mean.part), estimate(mean.value, mean.value_ci95))
        for mean in _ends(result)
        if mean.measure in DRAWN
    )
    name = f"{WHAT[result.experiment][0]}, run again: {counted(pairs, 'pair')}, scale {one_line(result.scale)}, {data}"
    return Card(name, badge, sentence_of(result.headline), tone, facts[:6], brief=True)


def _last(result: RoederFigure) -> Table:
    ends = _ends(result)
    where = f" ({one_line(ends[0].axis)} {short(ends[0].at)})" if ends else ""
    return Table(
        f"At the end{where}: mean over pairs, beside both baselines",
        columns("measure", "pairs", "mean [95 %]", "shuffled", "untrained"),
        tuple(
            (
                measure_words(m.measure, m.part),
                count(m.pairs),
                estimate(m.value, m.value_ci95),
                number(m.shuffled),
                number(m.untrained),
            )
            for m in ends
        ),
        brief=True,
    )


# -- the figures


def _figures(result: RoederFigure) -> Iterator[Block]:
    yield from _forest(result)
    for axis in dict.fromkeys(mean.axis for mean in result.means):
        for measure in DRAWN:
            yield from _over(result, axis, measure)
    for each in result.scatters:
        yield from _planes(each)


def _forest(result: RoederFigure) -> Iterator[Block]:
    ends = _ends(result)
    rows = tuple(
        DotRow(
            measure_words(m.measure, m.part),
            number(m.value),
            marks(("main", m.value), ("shuffle", m.shuffled), ("hollow", m.untrained)),
            interval=m.value_ci95 if m.value_ci95 is not None and all(map(known, m.value_ci95)) else None,
        )
        for m in ends
        if known(m.value) and m.measure != "map_distance"
    )
    if rows:
        yield Dots(
            f"{WHAT[result.experiment][0]}: pairs of models beside their baselines",
            f"At {one_line(ends[0].axis)} {short(ends[0].at)}. An untrained pair can already be far from 0; what training adds "
            "is the distance between the two marks.",
            "mean over pairs; 1 is alike up to a linear map",
            rows,
            (
                ("main", "trained"),
                ("whisker", "95 % interval over pairs"),
                ("hollow", "untrained"),
                ("shuffle", "paired at random"),
            ),
            span=True,
        )


def _over(result: RoederFigure, axis: str, measure: str) -> Iterator[Block]:
    """A measure over an axis: the mean of every part as a line, single pairs as points, and the baselines as marks."""
    own = [m for m in result.means if (m.axis, m.measure) == (axis, measure) and known(m.value) and known(m.at)]
    if len({m.at for m in own}) < 2:
        return
    curves, clouds = [], []
    for k, part in enumerate(dict.fromkeys(m.part for m in own)):
        style = k % STYLES
        points = [(p.at, p.value) for p in result.pairs if (p.axis, p.measure, p.part) == (axis, measure, part)]
        curves.append(Curve(one_line(part) or "mean", _line([m for m in own if m.part == part]), style, dotted=False))
        clouds.append(Cloud("", tuple(p for p in points if all(map(known, p))), "main", style))
    clouds += [
        Cloud("untrained", tuple((m.at, m.untrained) for m in own if known(m.untrained)), "hollow"),
        Cloud("paired at random", tuple((m.at, m.shuffled) for m in own if known(m.shuffled)), "shuffle"),
    ]
    yield Curves(
        f"{MEASURES[measure]} over {one_line(axis)}",
        "Lines: mean over pairs of models that differ in their seeds. Points: single pairs.",
        one_line(axis),
        MEASURES[measure],
        tuple(curves),
        clouds=tuple(cloud for cloud in clouds if cloud.points),
        log_across=min(m.at for m in own) > 0 and max(m.at for m in own) > WIDE * min(m.at for m in own),
    )


def _line(means: Sequence[SeedMean]) -> tuple[tuple[float, float], ...]:
    return tuple(sorted((m.at, m.value) for m in means))


def _planes(found: Scatter) -> Iterator[Block]:
    """Two plane representations as they are, and after the linear map."""
    sides = (
        ("before", "As the two models have them.", found.second),
        (
            "after",
            "The second model's points under a linear map to the first's, fitted on rows that are not drawn.",
            found.mapped,
        ),
    )
    for when, told, other in sides:
        clouds = tuple(
            Cloud(label, tuple(p for p in points if all(map(known, p))), "main", style)
            for label, points, style in (
                (f"seed {found.seeds[0]}", found.first, 0),
                (f"seed {found.seeds[1]}", other, 1),
            )
        )
        if any(cloud.points for cloud in clouds):
            yield Curves(
                f"{one_line(found.part)}: {when} the linear map",
                told,
                "first dimension",
                "second dimension",
                clouds=tuple(cloud for cloud in clouds if cloud.points),
                across_base=0.0,
            )


# -- the tables


def _numbers(result: RoederFigure) -> Iterator[Block]:
    yield Table(
        "Mean over pairs with its 95 % interval",
        columns(
            "axis", "at", "part", "measure", "pairs", "mean", "95 %", "shuffled", "untrained", words=("part", "measure")
        ),
        tuple(
            (
                one_line(m.axis),
                short(m.at),
                one_line(m.part) or MISSING,
                MEASURES[m.measure],
                count(m.pairs),
                number(m.value),
                interval(m.value_ci95),
                number(m.shuffled),
                number(m.untrained),
            )
            for m in result.means
        ),
    )
    rows = tuple(
        (
            one_line(p.axis),
            short(p.at),
            one_line(p.part) or MISSING,
            MEASURES[p.measure],
            f"{p.seeds[0]}, {p.seeds[1]}",
            number(p.value, 4),
            number(p.shuffled),
            number(p.untrained),
        )
        for p in result.pairs
    )
    heads = ("axis", "at", "part", "measure", "seeds", "value", "shuffled", "untrained")
    table = Table("Every pair", columns(*heads, words=("part", "measure", "seeds")), rows)
    yield Fold(f"{counted(len(rows), 'number')} of single pairs", (table,))


def _models(result: RoederFigure) -> Iterator[Block]:
    if result.models:
        yield Table(
            "Loss on held-out rows; where the least possible loss is known, models too far above it are left out",
            columns("part", "seed", "steps", "loss", "least possible", "above it", "left out", words=("left out",)),
            tuple(map(_model, result.models)),
        )


def _model(model: SeedModel) -> tuple[str, ...]:
    above = None if model.floor is None else model.loss - model.floor
    left_out = "" if model.removed is None else REMOVED[model.removed]
    return (
        one_line(model.part) or MISSING,
        str(model.seed),
        count(model.steps),
        number(model.loss, 4),
        number(model.floor, 4),
        number(above, 4),
        left_out,
    )
