"""What the page of `deconfound attribute` says: `Attribution` to `Page`, a pure function of the saved result."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.cleaning_reading import (
    COMPONENT_HEADS,
    ROLES,
    SCORE_HEADS,
    SHARE_HEADS,
    TOP_HEADS,
    TOP_SHOWN,
    by_biological,
    by_technical,
    card_summary,
    component_line,
    reproducible_words,
    role_counts,
    role_words,
    score_lines,
    share_line,
    top_lines,
)
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form
from identifiable.report.page import (
    Badge,
    Block,
    Card,
    Cloud,
    Column,
    Curves,
    Fold,
    Gauge,
    Grid,
    Heading,
    Page,
    Picture,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.pages.components import PICTURED, spark, stability_cell
from identifiable.report.screen_methods import (
    MAP_WORDS,
    SCORES_WORDS,
    attribution_bibtex,
    attribution_paragraphs,
    attribution_reading,
)
from identifiable.report.screen_reading import MOST_LISTED, columns_of, design_section, screen_name, sentence_of
from identifiable.report.words import count, counted, known, number, one_line, yes_no
from identifiable.results import Attribution, ComponentCard, ComponentRole

GUIDE = (
    "Technical is what plate, batch, place and cell count explain of a component on control wells; biological what perturbations explain "
    "on every plate. Components of much of the first and little of the second can go."
)
CARDS = 12  # components of either kind with a card
STYLES: dict[ComponentRole, int] = {"technical": 0, "biological": 5, "both": 3, "neither": 6}
TONES: dict[str, Tone] = {"technical": "caution", "biological": "good", "both": "caution", "neither": "plain"}
DEEP = 98  # per cent of wells within the deepest colour, so that one odd well does not pale the rest
LEAST_REACH = 0.25  # standard deviations: a plate without a pattern shall look like one


def attribution_page(result: Attribution) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    sections = [
        Section("verdict", "Verdict", (card,)),
        alerts_section(saved, well=card.tone != "caution"),
        _scatter(saved),
        _table(saved),
        _cards(saved),
        design_section(saved.design, folded=True),
        attribution_reading(),
        reproduction(saved, attribution_paragraphs(saved), attribution_bibtex()),
    ]
    return page_with(
        saved,
        sections,
        title=f"{screen_name(saved)}: what each component is about",
        subtitle="Which independent components follow plate, batch, place and cell count, and which follow perturbations?",
        guide=GUIDE,
    )


def _card(result: Attribution) -> Card:
    facts = [
        ("components", count(len(result.components))),
        *((role, count(size)) for role, size in role_counts(result)),
        ("reproducible", reproducible_words(result)),
        ("ICA converged", yes_no(result.converged)),
        ("wells", count(result.design.n)),
        ("plates", count(result.design.plates)),
    ]
    tone: Tone = "good" if result.converged and result.of_role("technical", "biological", "both") else "caution"
    badge = role_words(result) if result.components else "no components"
    return Card(screen_name(result), badge, sentence_of(result.text), tone, tuple(facts))


def _scatter(result: Attribution) -> Section:
    clouds = [
        Cloud(role, points, "main", STYLES[role])
        for role in ROLES
        if (points := tuple((_share(c.technical), _share(c.biological)) for c in result.of_role(role) if _scored(c)))
    ]
    if not clouds:
        return Section("scores", "Technical against biological", ())
    figure = Curves(
        "Components by their two scores",
        "Low and right: technical alone, what cleaning would take. High and left: biology. Scores below 0 are drawn at 0.",
        "technical score",
        "biological score",
        clouds=tuple(clouds),
        across_base=0.0,
    )
    return Section("scores", "Technical against biological", (Text(SCORES_WORDS), figure))


def _scored(card: ComponentCard) -> bool:
    return known(card.technical) and known(card.biological)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


# -- the table


def _table(result: Attribution) -> Section:
    ordered = by_technical(result.components)
    if not ordered:
        return Section("components", "All components", ())
    first, rest = ordered[:PICTURED], ordered[PICTURED:MOST_LISTED]
    blocks: list[Block] = [_lines(first, pictured=True)]
    if rest:
        blocks.append(Fold(counted(len(rest), "less technical component"), (_lines(rest),)))
    if len(ordered) > MOST_LISTED:
        blocks.append(
            Text(f"In the JSON result: {counted(len(ordered) - MOST_LISTED, 'further component')}.", note=True)
        )
    return Section("components", "All components", tuple(blocks))


def _lines(cards: Sequence[ComponentCard], *, pictured: bool = False) -> Table:
    pictures: dict[int, tuple[Picture | None, ...]] = {}
    if pictured:
        pictures = {
            1: tuple(Badge(TONES.get(c.role, "plain")) for c in cards),
            2: tuple(_gauge(c.technical, "caution") for c in cards),
            3: tuple(_gauge(c.biological, "plain") for c in cards),
        }
    return Table(
        "The most technical first. Moved by: perturbations with q below 0.05, and by how many standard deviations",
        columns_of(COMPONENT_HEADS, numbers=(2, 3, 6)),
        tuple(map(component_line, cards)),
        pictures=pictures,
    )


def _gauge(value: float, tone: Tone) -> Gauge | None:
    return Gauge(value, tone) if known(value) else None


# -- cards


def _cards(result: Attribution) -> Section:
    technical = by_technical(result.of_role("technical", "both"))[:CARDS]
    biological = [c for c in by_biological(result.of_role("biological", "both")) if c not in technical][:CARDS]
    rest = () if technical or biological else tuple(by_technical(result.components)[:CARDS])
    blocks: list[Block] = []
    for title, cards in (("Most technical", technical), ("Most biological", biological), ("Neither", rest)):
        if cards:
            blocks += [Heading(title), *(Fold(card_summary(c), tuple(_card_blocks(result, c))) for c in cards)]
    return Section("cards", "Component cards", tuple(blocks))


def _card_blocks(result: Attribution, card: ComponentCard) -> list[Block]:
    blocks: list[Block] = [
        Table(
            "Its two scores",
            columns_of(SCORE_HEADS, (1, 2, 3)),
            tuple(score_lines(card)),
            pictures={1: (_gauge(card.technical, "caution"), _gauge(card.biological, "plain"))},
        )
    ]
    if card.shares:
        blocks.append(
            Table(
                "What explains it; perturbation within plate, plate and batch on control wells",
                columns_of(SHARE_HEADS, (1, 2, 3)),
                tuple(map(share_line, card.shares)),
                pictures={1: tuple(_gauge(s.share, "plain") for s in card.shares)},
            )
        )
    lines = top_lines(card)
    if lines:
        of = f", {count(TOP_SHOWN)} of {count(len(card.top))}" if len(card.top) > TOP_SHOWN else ""
        caption = f"Perturbations that move it most, in standard deviations{of}"
        blocks.append(Table(caption, columns_of(TOP_HEADS, (1, 2, 3, 4)), tuple(lines)))
    drawn = spark(card.density, result.density_edges)
    blocks.append(
        Table(
            "Its shape, and whether a refit finds it. The picture is the density (filled) against a Gaussian (line)"
            if drawn
            else "Its shape, and whether a refit finds it",
            (
                Column("component", "text"),
                Column("density", "text"),
                *map(Column, ("kurtosis", "negentropy", "stability")),
                Column("reproducible", "text"),
            ),
            (
                (
                    str(card.index),
                    "as drawn" if drawn else "not recorded",
                    number(card.kurtosis),
                    number(card.negentropy),
                    stability_cell(card.stability),
                    yes_no(card.identifiable),
                ),
            ),
            pictures={1: (drawn,)},
        )
    )
    plate = _plate(result, card)
    return [*blocks, *([plate] if plate is not None else [])]


def _plate(result: Attribution, card: ComponentCard) -> Grid | None:
    """The heat map of a component, where its shape is that of the plate and a well is in use."""
    rows, columns = result.grid_rows, result.grid_columns
    fits = len(card.plate_map) == len(rows) and all(len(line) == len(columns) for line in card.plate_map)
    wells = [
        (value, f"{one_line(rows[i])}{one_line(columns[j])}")
        for i, line in enumerate(card.plate_map if fits else ())
        for j, value in enumerate(line)
        if known(value)
    ]
    if not wells:
        return None
    sizes = sorted(abs(value) for value, _ in wells)
    deep = max(LEAST_REACH, sizes[(len(sizes) - 1) * DEEP // 100])
    (high, at_high), (low, at_low) = max(wells), min(wells)
    return Grid(
        f"Component {card.index} on the plate",
        f"{MAP_WORDS} Highest {at_high} ({number(high, 2)}), lowest {at_low} ({number(low, 2)}), {counted(len(wells), 'well')} in use.",
        tuple(map(one_line, rows)),
        tuple(map(one_line, columns)),
        card.plate_map,
        deep,
        "standard deviations",
    )
