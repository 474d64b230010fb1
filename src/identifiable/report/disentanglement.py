"""What the page of `disentangle` says: `Disentanglement` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from identifiable.report.disentanglement_methods import (
    KINDS,
    SCALE_FREE,
    bibtex,
    how_to_read,
    metric_name,
    paragraphs,
    score_name,
    setting_words,
)
from identifiable.report.disentanglement_reading import (
    INFO,
    INFOMEC,
    STEPS,
    WITHOUT_FACTORS,
    active_latents,
    after_caveat,
    after_heads,
    after_lines,
    by_chance,
    cell,
    chance_words,
    diagonal_order,
    factor_lines,
    factor_words,
    figure,
    fits,
    flags,
    hardly_anything,
    ica_words,
    infoe_words,
    kind_words,
    largest,
    latent_lines,
    leak_words,
    named_once,
    noise_lines,
    notes_below_scores,
    place_words,
    score_heads,
    score_lines,
    sentence,
    shared_words,
    table_name,
)
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form, shade
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Column,
    Curve,
    Curves,
    Fold,
    Gauge,
    Heading,
    Page,
    Picture,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.words import MISSING, clip, count, counted, known, listed, one_line
from identifiable.results import AfterICA, Disentanglement, FactorLatentMatrix, Interval, Metric

GUIDE = (
    "InfoM is how much each latent keeps to one factor, InfoC how much each factor keeps to one latent, InfoE how much of the "
    "factors a linear model reads off; 1 is best. Read them with what chance scores, and InfoM with noise added."
)
LATENTS_SHOWN = 40  # columns of a heat map
NAMED = (Column("metric", "text"), Column("score", "text"))

Order = Sequence[int]


def disentanglement_page(result: Disentanglement) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    words = [chance_words(saved), leak_words(saved)]
    sections = [
        Section("verdict", "Verdict", (card, *(Text(text) for text in words if text))),
        alerts_section(saved, well=card.tone != "caution"),
        _who_tells(saved),
        _scores(saved),
        _noise(saved),
        _after(saved),
        how_to_read(saved),
        reproduction(saved, paragraphs(saved), bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{table_name(saved)}: which latent tells of which factor",
        subtitle="Does each latent keep to one factor and each factor to one latent, and is all of it there?",
        guide=GUIDE,
    )


# -- the parts of the page


def _card(result: Disentanglement) -> Card:
    infomec = result.metrics.get(INFOMEC)
    facts: list[tuple[str, str]] = []
    values: list[float] = []
    active = active_latents(result)
    if infomec is not None:
        for key in INFO:
            value = infomec.scores.get(key, math.nan)
            values.append(value)
            facts.append((score_name(key), figure(value)))
        facts.append(("profile", one_line(str(infomec.settings.get("profile", MISSING)))))
    facts += [
        (
            "latents",
            count(len(result.latents)) if active is None else f"{count(len(active))}, {count(sum(active))} active",
        ),
        ("factors", factor_words(result)),
        ("rows n", count(result.n)),
    ]
    kind = "discrete codes" if result.latent_kind == "discrete" else "continuous latents"
    return Card(table_name(result), kind, sentence(result), _tone(infomec, values, result), tuple(facts))


def _tone(infomec: Metric | None, values: Sequence[float], result: Disentanglement) -> Tone:
    if infomec is None:
        return "plain"
    if (
        any(by_chance(infomec.nulls[key], result.settings.get("null")) for key in INFO if key in infomec.nulls)
        or hardly_anything(result)
        or not all(map(known, values))
    ):
        return "caution"
    return "good" if min(values) >= STEPS[0] else "plain"


def _who_tells(result: Disentanglement) -> Section:
    """The heat map of NMI, the factors, and the matrices of other metrics folded."""
    blocks: list[Block] = []
    active = active_latents(result)
    infomec = result.metrics.get(INFOMEC)
    if infomec is not None and infomec.matrix is not None and fits(infomec.matrix, result):
        order = diagonal_order(infomec.matrix.values, active)
        shown = order[:LATENTS_SHOWN]
        blocks.append(Text(_matrix_words(result, active, len(shown))))
        nmi = replace(infomec.matrix, what=f"NMI, {infomec.matrix.what}")
        blocks.append(_heat(result, nmi, shown, active, top=1.0))
        blocks += [Text(words) for words in shared_words(result)]
        if shown != sorted(shown):
            in_file = _heat(result, nmi, sorted(shown), active, top=1.0)
            blocks.append(Fold("The same with latents in the order of the file", (in_file,)))
        blocks += _latent_table(result)
    blocks.append(_factor_table(result))
    for keys, matrix in _other_matrices(result):
        order = diagonal_order(matrix.values, None)[:LATENTS_SHOWN]
        summary = f"{listed(metric_name(key) for key in keys)}: {one_line(matrix.what)}"
        blocks.append(Fold(summary, (_heat(result, matrix, order, active, top=max(largest(matrix), 0.0)),)))
    return Section("matrix", "Which latent tells of which factor", tuple(blocks))


def _matrix_words(result: Disentanglement, active: Sequence[bool] | None, shown: int) -> str:
    width = len(result.latents)
    told = "Latents stand so that the one assigned to each factor is on the diagonal; the others follow, those that tell most first."
    if shown < width:
        told += f" Of {count(width)} latents {count(shown)} are shown; the JSON has all."
    if active is not None and not all(active):
        still = width - sum(active)
        told += (
            f" {counted(still, 'latent')} of {count(width)} ({'it' if still == 1 else 'they'} hardly "
            f"{'varies' if still == 1 else 'vary'}, by the rule of the profile) marked ○ {'is' if still == 1 else 'are'} left out of "
            "InfoM and InfoC."
        )
    return told


def _heat(
    result: Disentanglement, matrix: FactorLatentMatrix, order: Order, active: Sequence[bool] | None, *, top: float
) -> Table:
    """Factors down, latents across, coloured from 0 to `top`; the last line marks the active ones."""
    mixed = len({kind_words(factor) for factor in result.factors}) > 1
    rows, shades = [], []
    for factor, values in zip(result.factors, matrix.values, strict=True):
        name = clip(one_line(factor.name), 24)
        rows.append((f"{name} ({kind_words(factor)})" if mixed else name, *(cell(values[j]) for j in order)))
        shades.append(tuple(shade(abs(values[j]), top) if known(values[j]) else None for j in order))
    if active is not None:
        rows.append(("active", *("●" if active[j] else "○" for j in order)))
        shades.append((None,) * len(order))
    labels = [_latent_label(result.latents[j]) for j in order]
    caption = f"{_capital(one_line(matrix.what))}; factors down, {result.latent_kind} latents across"
    return Table(caption, (Column("factor", "text"), *map(Column, labels)), tuple(rows), shades=tuple(shades))


def _latent_label(name: str) -> str:
    plain = re.fullmatch(r"(?:latent|component) (\d+)", name)
    return plain[1] if plain else clip(one_line(name), 10)


def _latent_table(result: Disentanglement) -> list[Block]:
    """Every active latent with its column in the array and, in words, what it tells of."""
    lines = latent_lines(result)
    place = place_words(result)
    columns = (
        Column("latent", "text"),
        Column("column, from 0"),
        Column("share of the best"),
        Column("in words", "text"),
    )
    shown = lines[:LATENTS_SHOWN]
    more = f"; {count(len(shown))} of {count(len(lines))}" if len(shown) < len(lines) else ""
    caption = f"Active latents, those that mix most first, and the NMI with what they tell of{more}"
    table: list[Block] = [Table(caption, columns, tuple(shown))] if lines else []
    return [*([Text(place, note=True)] if place else []), *table]


def _factor_table(result: Disentanglement) -> Table:
    lines = factor_lines(result)
    heads = [Column("factor", "text"), Column("kind", "text"), Column("values")]
    if lines and len(lines[0]) > len(heads):
        heads += [Column("best latent", "text"), Column("NMI"), Column("next", "text"), Column("NMI")]
    return Table("Factors, and the two active latents that tell most of each", tuple(heads), tuple(lines))


def _other_matrices(result: Disentanglement) -> list[tuple[list[str], FactorLatentMatrix]]:
    """Matrices of the other metrics, with the metrics that share one together."""
    found: dict[FactorLatentMatrix, list[str]] = {}
    for key, metric in result.metrics.items():
        if key != INFOMEC and metric.matrix is not None and fits(metric.matrix, result):
            found.setdefault(metric.matrix, []).append(key)
    return [(keys, matrix) for matrix, keys in found.items()]


def _scores(result: Disentanglement) -> Section:
    if not result.metrics:
        return Section("scores", "All scores", ())
    gauges: list[Picture | None] = [
        Gauge(value, "plain") if known(value) and key not in WITHOUT_FACTORS else None
        for key, metric in result.metrics.items()
        for value in metric.scores.values()
    ]
    caption = f"Scores of {result.latent_kind} latents; 1 is best where there is a bar"
    columns = (*NAMED, *map(Column, score_heads(result.metrics)))
    rows = named_once(score_lines(result))
    blocks: list[Block] = [Table(caption, columns, rows, pictures={len(NAMED): tuple(gauges)})]
    blocks += [Text(words, note=True) for words in notes_below_scores(result)]
    mixed = len({f.kind for f in result.factors}) > 1
    blocks += [Text(KINDS, note=True)] if mixed or result.latent_kind == "discrete" else []
    how = tuple((metric_name(key), setting_words(m.settings)) for key, m in result.metrics.items())
    blocks.append(Table("What defines each", (Column("metric", "text"), Column("settings", "text")), how))
    detailed = _by_factor(result)
    blocks += [Fold("By factor", (detailed,))] if detailed is not None else []
    return Section("scores", "All scores", tuple(blocks))


def _by_factor(result: Disentanglement) -> Table | None:
    """What metrics tell of single factors: lists of one number for each, under names that say so."""
    size = len(result.factors)
    columns = [
        (f"{metric_name(key)}: {one_line(name).removesuffix('_of_factor').replace('_', ' ')}", values)
        for key, metric in result.metrics.items()
        for name, values in metric.details.items()
        if name.endswith("_of_factor")
        and isinstance(values, list)
        and len(values) == size
        and all(map(_is_figure, values))
    ]
    if not columns:
        return None
    heads = (Column("what", "text"), *(Column(clip(one_line(f.name), 20)) for f in result.factors))
    return Table("One line for each figure", heads, tuple((name, *map(figure, values)) for name, values in columns))


def _is_figure(value: object) -> bool:
    """Whole numbers are places of latents, and truths are no figures."""
    return value is None or isinstance(value, float)


def _noise(result: Disentanglement) -> Section:
    if not result.sweep:
        return Section("noise", "With noise added", ())
    heads, lines = noise_lines(result)
    blocks: list[Block] = [Text(SCALE_FREE)]
    curves = [
        Curve(score_name(key), points, style, dotted=False)
        for style, key in ((1, "infom"), (4, "infoe"), (2, "infoc"))
        if (points := _sweep_points(result, key))
    ]
    if curves:
        blocks.append(
            Curves(
                "InfoMEC as noise is added to the latents",
                "A line that rises with noise was held down by leakage smaller than it; one that falls loses what the noise hides.",
                "noise, % of each latent's spread",
                "score",
                tuple(curves),
                top=1.0,
                clouds=(Cloud("measured", tuple(point for curve in curves for point in curve.points), "main"),),
            )
        )
    blocks.append(
        Table(
            "Scores with noise",
            tuple(Column(h, "text" if i == 0 else "number") for i, h in enumerate(heads)),
            tuple(lines),
        )
    )
    return Section("noise", "With noise added", tuple(blocks))


def _sweep_points(result: Disentanglement, key: str) -> tuple[Interval, ...]:
    return tuple((100 * p.noise, p.scores[key]) for p in result.sweep if known(p.scores.get(key)))


def _after(result: Disentanglement) -> Section:
    if not result.after:
        return Section("ica", "Before and after ICA", ())
    columns = (*NAMED, *map(Column, after_heads(result)))
    caption = "Scores before and after ICA, with the change"
    caveat = after_caveat(result)
    blocks: list[Block] = [Text(caveat)] if caveat else []
    blocks.append(Table(caption, columns, named_once(after_lines(result))))
    for after in result.after:
        blocks += [
            Heading(f"{after.mode.capitalize()} ICA"),
            Text(_capital(ica_words(after))),
            Text(infoe_words(result, after)),
        ]
        matrix = after.metrics[INFOMEC].matrix if INFOMEC in after.metrics else None
        if matrix is not None:
            blocks += _after_heat(result, after, matrix)
    return Section("ica", "Before and after ICA", tuple(blocks))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _after_heat(result: Disentanglement, after: AfterICA, matrix: FactorLatentMatrix) -> list[Block]:
    """The heat map of the components, folded."""
    width = len(matrix.values[0]) if matrix.values else 0
    resolved = replace(result, latents=tuple(f"component {j + 1}" for j in range(width)), latent_kind="continuous")
    if not fits(matrix, resolved):
        return []
    active = flags(after.metrics[INFOMEC].details.get("active"), width)
    table = _heat(resolved, matrix, diagonal_order(matrix.values, active)[:LATENTS_SHOWN], active, top=1.0)
    return [Fold(f"Which component tells of which factor, after {after.mode} ICA", (table,))]
