"""The page of `heads`: what two output layers fix, whether the premise holds, and what the map read off them explains."""

from __future__ import annotations

from collections.abc import Iterator

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.page import Block, Card, DotRow, Dots, Page, Table, Text, columns
from identifiable.report.words import (
    MISSING,
    count,
    display_name,
    estimate,
    known,
    number,
    percent,
    sentence_of,
    short,
    yes_no,
)
from identifiable.results import HeadMap, Heads, MapFit

GUIDE = (
    "In the dimensions that a head reads, equal probabilities determine the features up to a linear map. R² says how well the map "
    "read off the weights holds; read it beside fitted (the most possible) and chance."
)
READING = (
    "Fixed dimensions", "Condition", "Premise", "R² from heads", "Fitted", "Chance", "Best scale, temperature", "Gauge and bias",
    "Expressed", "Labels",
)  # fmt: skip
GAIN = 0.1  # of R², from which on a next step is worth a sentence


def page(result: Heads) -> Page:
    words = glossary("heads")
    names = " and ".join(display_name(head.name) for head in result.heads)
    return framed(
        result,
        title=f"{names}: what their heads fix",
        subtitle="Do two output layers determine the same features, and does the map that they imply hold?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("map", "The map read off the heads", _map(result)),
            section("premise", "Does the premise hold?", _premise(result)),
            section("diversity", "How diverse are the heads?", _diversity(result)),
            section("steps", "What to do next", (Text(words[step], brief=True) for step in _steps(result))),
        ],
        reading=(Text(words[""]), terms("heads", *READING)),
        methods=(words["Computed"], _judged(result), words["Sources"]),
        papers=("roeder", "nelson", "nielsen"),
    )


def _way(found: HeadMap) -> str:
    return f"{display_name(found.source)} → {display_name(found.target)}"


def _card(result: Heads) -> Card:
    way, fit = result.maps[0], result.maps[0].fit
    facts = [
        ("fixed dimensions", f"{count(way.fixed)} of {count(way.dimensions)}"),
        ("labels", count(result.heads[0].labels)),
    ]
    if result.premise is not None:
        facts += [
            ("variance in them", percent(result.heads[1].variance)),
            ("same label", percent(result.premise.agreement)),
        ]
    if fit is not None:
        facts += [
            ("R² from heads", estimate(fit.r2_ridge, fit.r2_ridge_ci95)),
            ("fitted", number(fit.r2_fitted)),
            *([("by chance", number(fit.null_r2_ridge))] if fit.draws else []),
            ("correlation", number(fit.correlation)),
        ]
        if result.rescaled:
            facts.insert(-1, ("with temperature", estimate(fit.r2_scale, fit.r2_scale_ci95)))
    well = fit is not None and not _at_chance(fit) and not _swapped(result)
    badge = "from weights and features" if fit is not None else "from weights alone"
    return Card(
        _way(way), badge, sentence_of(result.headline), "plain" if well else "caution", tuple(facts), brief=True
    )


def _map(result: Heads) -> Iterator[Block]:
    fits = [(way, way.fit) for way in result.maps if way.fit is not None]
    if fits:
        yield Dots(
            "R² in the fixed dimensions, on held-out rows",
            "For each direction: the map from heads, beside a fitted map and the best shuffle of the labels.",
            "R²",
            tuple(
                DotRow(
                    _way(way),
                    number(fit.r2_ridge),
                    marks(("main", fit.r2_ridge), ("hollow", fit.r2_fitted), ("shuffle", fit.null_r2_ridge)),
                    interval=fit.r2_ridge_ci95,
                )
                for way, fit in fits
            ),
            (
                ("main", "from heads, with ridge"),
                ("whisker", "95 % interval over rows"),
                ("hollow", "fitted"),
                ("shuffle", "chance: shuffled labels"),
            ),
            span=True,
        )
        yield Table(
            "R² on held-out rows, in the fixed dimensions",
            columns(
                "map",
                "R² heads",
                "ridge",
                "with ridge [95 %]",
                "fitted",
                "chance",
                "scale",
                "scaled, ridge",
            ),
            tuple(
                (
                    _way(way),
                    number(fit.r2),
                    short(fit.ridge),
                    estimate(fit.r2_ridge, fit.r2_ridge_ci95),
                    number(fit.r2_fitted),
                    number(fit.null_r2_ridge),
                    number(fit.scale),
                    number(fit.r2_scale),
                )
                for way, fit in fits
            ),
            brief=True,
        )
        yield Table(
            "The map from heads beside the fitted one, without a ridge. Chance: largest correlation and R² over shuffles",
            columns("map", "correlation", "chance", "p", "R² chance", "distance to fitted", "offset gap"),
            tuple(_beside(way, fit) for way, fit in fits),
            brief=True,
        )
    yield Table(
        "What the weights alone say",
        columns("map", "fixed", "of", "condition", "expressed", "by chance", "offset"),
        tuple(
            (
                _way(way),
                count(way.fixed),
                count(way.dimensions),
                number(way.condition, 1),
                number(way.expressed),
                number(way.expressed_chance),
                number(way.offset),
            )
            for way in result.maps
        ),
        brief=True,
    )


def _beside(way: HeadMap, fit: MapFit) -> tuple[str, ...]:
    numbers = (fit.correlation, fit.null_correlation, fit.p, fit.null_r2, fit.distance, fit.offset_gap)
    return (_way(way), *map(number, numbers))


def _premise(result: Heads) -> Iterator[Block]:
    found = result.premise
    if found is None:
        return
    yield Table(
        f"Probabilities of both models on {count(found.n)} rows",
        columns("measure", "value"),
        (
            ("rows with the same most probable label", percent(found.agreement)),
            ("total variation distance of probabilities, mean", number(found.total_variation)),
            ("logit distance (root mean square)", number(found.logit_distance)),
            ("logit distance, relative (1: unrelated)", number(found.relative_logit_distance)),
            ("temperature: logits of the second model over those of the first", number(result.temperature)),
        ),
        brief=True,
    )


def _diversity(result: Heads) -> Iterator[Block]:
    by = {"predicted": "mean predicted probabilities", "given": "the given frequencies"}
    weights = next((by[head.frequencies] for head in result.heads if head.frequencies), None)
    caption = f"Weighted: by {weights}" if weights else "Without label frequencies nothing is weighted"
    yield Table(
        f"Heads, centred over labels. Diverse: the rank is the number of dimensions. {caption}",
        columns(
            "head", "labels", "dim.", "rank", "diverse", "condition", "weighted", "weighted rank", "eff. labels", "gauge", "bias",
            "variance", words=("diverse", "bias"), hidden=("weighted rank", "eff. labels", "bias"),
        ),
        tuple(
            (
                display_name(head.name),
                count(head.labels),
                count(head.dimensions),
                count(head.rank),
                yes_no(head.diverse),
                number(head.condition, 1),
                number(head.weighted_condition, 1),
                MISSING if head.weighted_rank is None else count(head.weighted_rank),
                number(head.effective_labels, 1),
                number(head.gauge),
                yes_no(head.bias),
                percent(head.variance),
            )
            for head in result.heads
        ),
        brief=True,
    )  # fmt: skip


def _swapped(result: Heads) -> bool:
    return any(alert.code == "features_swapped" for alert in result.alerts)


def _steps(result: Heads) -> Iterator[str]:
    """Which paragraphs of the glossary to show, in the order of what to do."""
    way, fit = result.maps[0], result.maps[0].fit
    if _swapped(result):
        yield "Swapped"
        return
    if fit is None:
        yield "No features"
    elif _at_chance(fit):
        yield "At chance"
    else:
        if result.rescaled:
            yield "Another temperature"
        yield "More shared" if fit.r2_fitted - (fit.r2_scale if result.rescaled else fit.r2_ridge) > GAIN else "Holds"
    if way.fixed < way.dimensions:
        yield "Rest not covered"


def _at_chance(fit: MapFit) -> bool:
    """Whether a shuffle of the labels predicts as well: a test at level 1 / (draws + 1). Without a null, of the sign alone."""
    return not (known(fit.correlation) and fit.correlation > (fit.null_correlation if fit.draws else 0))


def _judged(result: Heads) -> str:
    fit = result.maps[0].fit
    if fit is None:
        return "No features were given, so nothing was fitted or held out."
    draws = (
        f"{count(fit.draws)} shuffles of the labels of the source's head" if fit.draws else "not drawn: too few labels"
    )
    return (
        f"{count(fit.n)} rows, {short(result.settings.get('folds', 0) or 0)} folds. The null is {draws}; ridge and scale are chosen "
        f"on the training rows of each fold, for shuffles too. Seed {result.provenance.seed}."
    )
