"""The page of `layers`: which layers match, the pairs at the same depth, a heat map of every measure, training over time."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, section, shade, terms
from identifiable.report.page import Block, Card, Code, Curve, Curves, Fold, Page, Table, Text, columns
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    display_name,
    estimate,
    interval,
    known,
    listed,
    number,
    one_line,
    percent,
    probability,
    score,
    sentence_of,
    signed,
    yes_no,
)
from identifiable.results import Interval, LayerCheckpoint, LayerGrid, LayerMatch, LayerPair, Layers
from identifiable.results.layers import MEASURES, Measure

GUIDE = (
    "Each measure is 1 for layers that are alike. Read CKA beside the untrained pair, which says how much the architecture alone "
    "gives; a match is claimed only where the best layer separates from all others."
)
READING = (
    "CKA", "SVCCA", "R² there and back", "Overlap", "Same depth", "Match", "Untrained pair", "The first model and itself", "Chance",
    "Leading direction",
)  # fmt: skip
NAMES: dict[Measure, str] = {"cka": "CKA", "svcca": "SVCCA", "r2": "R²", "r2_back": "R² back", "overlap": "overlap"}
STYLES: dict[Measure, int] = {"cka": 1, "svcca": 2, "r2": 3, "r2_back": 4, "overlap": 5}
SERIES = 6  # layers of a curve over training: more lines cannot be told apart
SPECIAL = set(" '\"`$&|;<>()*?!#~")  # to a shell
ORDERED = 6  # layers of a model that are all named to say their order
NAME = 16  # characters of a layer in a heat map


def page(result: Layers) -> Page:
    words = glossary("layers")
    names = " and ".join(map(display_name, result.names))
    over = ("Over training",) if result.training else ()
    return framed(
        result,
        title=f"{names}: layer by layer",
        subtitle="Which layers of two models are alike?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("depth", "Layers at the same depth", _depth(result)),
            section("matches", "The best match of each layer", _best(result)),
            section("maps", "Every layer against every layer", _maps(result)),
            section("training", "Over training", _training(result)),
            section("layers", "The layers", _layers(result)),
            section("steps", "What to do next", _steps(result)),
        ],
        reading=(Text(words[""]), terms("layers", *READING, *over)),
        methods=(words["Computed"], _judged(result), words["Sources"]),
        papers=("kornblith", "song", "raghu", "roeder", "huh"),
    )


def _card(result: Layers) -> Card:
    cka = [pair.cka for pair in result.diagonal]
    base = result.grid("untrained")
    facts = [("rows", count(result.n)), ("layers", " and ".join(count(len(m)) for m in _both(result)))]
    facts += [
        ("matched", f"{count(result.matched)} of {count(len(result.matches))}"),
        ("at the same depth", count(result.same)),
    ]
    if cka:
        facts.append(("CKA at the same depth", _range(cka)))
        facts.append(("untrained pair", "not given" if base is None else _range(_untrained(result, "cka"))))
    if near := _neighbouring(result):
        facts.append((f"next layer of {display_name(result.names[0])}", _range(near)))
    well = result.text.code not in ("layers_unrelated", "layers_tied", "layers_some", "layer_tied")
    badge = "against an untrained pair" if base is not None else "no untrained pair"
    return Card(
        " and ".join(map(display_name, result.names)),
        badge,
        sentence_of(result.headline),
        "plain" if well else "caution",
        tuple(facts),
        brief=True,
    )


def _both(result: Layers) -> tuple[tuple[LayerMatch, ...], tuple[LayerMatch, ...]]:
    return result.matches, result.matches_back


def _orders(result: Layers) -> Iterator[str]:
    """'a: layer_0, layer_1', the middle of many left out."""
    for name, matches in zip(result.names, _both(result), strict=True):
        layers = [_name(match.layer) for match in matches]
        shown = layers if len(layers) <= ORDERED else [*layers[:2], "…", layers[-1]]
        yield f"{display_name(name)}: {', '.join(shown)}"


def _range(values: Sequence[float]) -> str:
    low, high = score(min(values), 2), score(max(values), 2)
    return low if low == high else f"{low} to {high}"


def _untrained(result: Layers, measure: Measure) -> list[float]:
    """The untrained pair at the places of the diagonal; empty without one."""
    models, base = result.grid("models"), result.grid("untrained")
    if models is None or base is None:
        return []
    values = getattr(base, measure)
    return [values[models.first.index(pair.first)][models.second.index(pair.second)] for pair in result.diagonal]


def _neighbouring(result: Layers) -> list[float]:
    """CKA of each layer of the first model with its next one."""
    own = result.grid("self")
    return [] if own is None else [own.cka[i][j] for i, j in itertools.pairwise(range(len(own.first)))]


# -- layers at the same depth


def _depth(result: Layers) -> Iterator[Block]:
    pairs = result.diagonal
    if not pairs:
        return
    yield Text(f"Depth is the order of the layers, here {listed(_orders(result))}.", note=True, brief=True)
    across = f"layer of {display_name(result.names[0])}"
    if len(pairs) > 1:
        yield from _curves(
            "CKA at the same depth",
            f"1 is {_name(pairs[0].first)}. Bars are 95 % intervals.",
            (across, "CKA"),
            (
                _curve("both models", [p.cka for p in pairs], 1, [p.cka_ci95 for p in pairs]),
                _curve("untrained pair", _untrained(result, "cka"), 2),
                _curve("chance: shuffled rows", [_chance(p, "cka") for p in pairs], 0),
                _curve(f"{display_name(result.names[0])}: with its next layer", _neighbouring(result), 4),
            ),
        )
        yield from _curves(
            "The other measures at the same depth",
            "Bars are 95 % intervals.",
            (across, "value"),
            [
                _curve(
                    NAMES[measure],
                    [getattr(p, measure) for p in pairs],
                    STYLES[measure],
                    [getattr(p, f"{measure}_ci95") for p in pairs],
                )
                for measure in MEASURES
                if measure != "cka"
            ],
        )
    yield Table(
        "Layers at the same depth. R² is of a similarity (a rotation and one scale), there and back; SVCCA of "
        f"{count(result.components)} components; overlap of {count(result.neighbours)} neighbours among {count(result.sample)} rows",
        columns("layer", "with", *NAMES.values(), "untrained CKA", words=("with",)),
        tuple(
            (
                _name(pair.first),
                _name(pair.second),
                estimate(pair.cka, pair.cka_ci95, score, score),
                *(score(getattr(pair, measure)) for measure in MEASURES[1:]),
                score(base),
            )
            for pair, base in zip(pairs, _untrained(result, "cka") or [math.nan] * len(pairs), strict=True)
        ),
        brief=True,
    )
    yield Fold(
        "Intervals and chance of every measure",
        (
            Table(
                "95 % intervals",
                columns("layer", *NAMES.values()),
                tuple((_name(p.first), *(interval(getattr(p, f"{m}_ci95"), score) for m in MEASURES)) for p in pairs),
            ),
            Table(
                "Mean over shuffles of the rows, and p",
                columns("layer", *(label for m in MEASURES for label in (NAMES[m], f"p ({NAMES[m]})"))),
                tuple((_name(p.first), *_shuffled(p)) for p in pairs),
            ),
        ),
    )


def _curve(label: str, values: Sequence[float | None], style: int, bounds: Sequence[Interval | None] = ()) -> Curve:
    """The values that are known, by their place from 1, with their intervals."""
    kept = [(i, v) for i, v in enumerate(values) if v is not None and known(v)]
    points = tuple((i + 1.0, v) for i, v in kept)
    return Curve(label, points, style, bounds=tuple(bounds[i] for i, _ in kept) if bounds else ())


def _curves(
    title: str, description: str, axes: tuple[str, str], curves: Sequence[Curve], *, ordered: bool = False
) -> Iterator[Curves]:
    """A figure of the curves that have points, if any has."""
    if drawn := tuple(curve for curve in curves if curve.points):
        yield Curves(title, description, *axes, drawn, top=1.0, ordered=ordered)


def _chance(pair: LayerPair, measure: Measure) -> float | None:
    null = (pair.null or {}).get(measure)
    return None if null is None else null.mean


def _shuffled(pair: LayerPair) -> Iterator[str]:
    for measure in MEASURES:
        null = (pair.null or {}).get(measure)
        yield from (MISSING, MISSING) if null is None else (score(null.mean), probability(null.p))


def _name(name: str) -> str:
    return clip(one_line(name), NAME)


# -- matches


def _best(result: Layers) -> Iterator[Block]:
    first, second = map(display_name, result.names)
    caption = "For each layer of {} the layer of {} with the largest CKA"
    yield _match_table(caption.format(first, second), result.matches, brief=True)
    back = _match_table(caption.format(second, first), result.matches_back)
    yield Fold(f"The best match of each layer of {second}", (back,))


def _match_table(caption: str, matches: Sequence[LayerMatch], *, brief: bool = False) -> Table:
    return Table(
        caption,
        columns(
            "layer", "best match", "match", "same depth", "CKA", "runner-up", "above it by", "p", "by SVCCA", "by R²", "by overlap",
            words=("best match", "match", "same depth", "runner-up", "by SVCCA", "by R²", "by overlap"),
            hidden=("p", "by SVCCA", "by R²", "by overlap"),
        ),
        tuple(
            (
                _name(match.layer),
                _name(match.best),
                "clear" if match.clear else f"tied with {count(len(match.tied))}" if match.tied else "by chance",
                yes_no(match.same),
                score(match.cka),
                "" if match.runner_up is None else _name(match.runner_up),
                "" if match.gap is None else estimate(match.gap, match.gap_ci95, signed),
                probability(match.p),
                *(_name(match.by[measure]) for measure in ("svcca", "r2", "overlap")),
            )
            for match in matches
        ),
        brief=brief,
    )  # fmt: skip


# -- heat maps


def _maps(result: Layers) -> Iterator[Block]:
    yield from _heat(result, "cka")
    for measure in MEASURES[1:]:
        yield Fold(f"Every layer against every layer: {NAMES[measure]}", tuple(_heat(result, measure)))


def _heat(result: Layers, measure: Measure) -> Iterator[Block]:
    first, second = map(display_name, result.names)
    titles = {
        "models": f"{first} (rows) and {second} (columns)",
        "self": f"{first} and itself",
        "untrained": "the untrained pair",
    }
    for grid in result.grids:
        yield _shaded(f"{NAMES[measure]}: {titles[grid.of]}", grid, measure)


def _shaded(caption: str, grid: LayerGrid, measure: Measure) -> Table:
    values: Sequence[Sequence[float]] = getattr(grid, measure)
    return Table(
        caption,
        columns("layer", *_ends(grid.second)),
        tuple((_name(name), *(score(v, 2) for v in row)) for name, row in zip(grid.first, values, strict=True)),
        shades=tuple(tuple(shade(max(v, 0.0), 1.0) if known(v) else None for v in row) for row in values),
    )


def _ends(names: Sequence[str]) -> list[str]:
    """Names without what all of them begin with, to fit above narrow columns: 0, 1, 2 of layer_0, layer_1, layer_2.

    Names that are all the same are counted.
    """
    shared = (name for name in itertools.accumulate(names[0]) if all(other.startswith(name) for other in names))
    begin = max(shared, key=len, default="").rstrip("0123456789")
    ends = [name.removeprefix(begin) for name in names]
    if len(set(ends)) < len(ends):
        return [str(i + 1) for i in range(len(ends))]
    return [_name(end) for end in (ends if all(ends) else names)]


# -- over training


def _training(result: Layers) -> Iterator[Block]:
    first, second = map(display_name, result.names)
    titles = {
        "first": f"Checkpoints of {first} with its last",
        "second": f"Checkpoints of {second} with its last",
        "between": f"Checkpoints of {first} with {second}",
    }
    for series, title in titles.items():
        steps = [step for step in result.training if step.series == series]
        if not steps:
            continue
        yield from _curves(
            f"{title}: CKA at the same depth",
            f"1 is {clip(one_line(steps[0].checkpoint), 40)}. Bars are 95 % intervals.{_left_out(steps)}",
            ("checkpoint", "CKA"),
            list(_over(steps)),
            ordered=True,
        )
        yield Table(
            f"{title}. CKA at the same depth by layer; matched: layers with a clear best match",
            columns(
                "checkpoint",
                "with",
                "matched",
                "same",
                *_ends([pair.first for pair in steps[0].diagonal]),
                words=("with",),
            ),
            tuple(
                (
                    clip(one_line(step.checkpoint), 40),
                    clip(one_line(step.against), 40),
                    count(step.matched),
                    count(step.same),
                    *(score(pair.cka) for pair in step.diagonal),
                )
                for step in steps
            ),
            brief=True,
        )
        yield Fold(
            f"{title}: the best match of each layer",
            (
                Table(
                    "Best match by CKA; a question mark: tied, or no more than chance",
                    columns(
                        "checkpoint",
                        *(_name(m.layer) for m in steps[0].matches),
                        words=[_name(m.layer) for m in steps[0].matches],
                    ),
                    tuple(
                        (
                            clip(one_line(step.checkpoint), 40),
                            *(f"{_name(match.best)}{'' if match.clear else '?'}" for match in step.matches),
                        )
                        for step in steps
                    ),
                ),
            ),
        )


def _drawn(steps: Sequence[LayerCheckpoint]) -> list[int]:
    size = len(steps[0].diagonal)
    return (
        list(range(size)) if size <= SERIES else sorted({round(k * (size - 1) / (SERIES - 1)) for k in range(SERIES)})
    )


def _left_out(steps: Sequence[LayerCheckpoint]) -> str:
    drawn, size = len(_drawn(steps)), len(steps[0].diagonal)
    return "" if drawn == size else f" {count(drawn)} of {count(size)} layers are drawn; the table has all."


def _over(steps: Sequence[LayerCheckpoint]) -> Iterator[Curve]:
    for style, i in enumerate(_drawn(steps)):
        pairs = [step.diagonal[i] for step in steps]
        yield _curve(_name(pairs[0].first), [pair.cka for pair in pairs], style, [pair.cka_ci95 for pair in pairs])


# -- the layers, and what to do


def _layers(result: Layers) -> Iterator[Block]:
    yield Table(
        f"The layers. R² uses {count(result.map_components)} components at most",
        columns(
            "layer",
            "columns",
            "rank",
            "rows per column",
            "leading direction",
            "its weight in CKA",
            "largest column",
            "kept for R²",
        ),
        tuple(
            (
                f"{clip(one_line(layer.model), 28)}:{_name(layer.name)}",
                count(layer.width),
                count(layer.rank),
                number(result.n / layer.width, 1),
                percent(layer.leading),
                percent(layer.weight),
                percent(layer.rogue),
                percent(layer.kept),
            )
            for layer in result.layers
        ),
    )


def _steps(result: Layers) -> Iterator[Block]:
    words = glossary("layers")
    if result.text.code == "layers_unrelated":
        yield Text(words["Nothing matches"], brief=True)
        return
    if result.tied:
        yield Text(words["Ties"], brief=True)
    weakest = min(result.diagonal, key=lambda pair: pair.cka, default=None)
    if weakest is not None and len(result.sources) == 2 and all(result.sources):
        paths = [f"{path}:{layer}" for path, layer in zip(result.sources, (weakest.first, weakest.second), strict=True)]
        yield Text(words["Compare a pair"], brief=True)
        yield Code(
            "the pair at the same depth that is least alike",
            " ".join(["identifiable compare", *map(_quoted, paths)]),
            brief=True,
        )


def _quoted(path: str) -> str:
    """A path as one word of a command to copy."""
    word = one_line(path)
    return shlex.quote(word) if SPECIAL & set(word) else word


def _judged(result: Layers) -> str:
    draws = next((null.draws for pair in result.diagonal for null in (pair.null or {}).values()), 0)
    models = zip(_both(result), result.names, strict=True)
    layers = listed(f"{count(len(matches))} layers of {display_name(name)}" for matches, name in models)
    return (
        f"{count(result.n)} rows, {layers}; {result.settings.get('folds')} folds; {count(draws)} shuffles of the rows; "
        f"seed {result.provenance.seed}."
    )
