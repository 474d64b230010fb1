"""What the page of several models resolved together says: `JointResolution` to `Page`."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.components import component_blocks, reason_table, tone
from identifiable.report.frame import alerts_section, matrix, notices, page_with, reproduction, saved_form, shade
from identifiable.report.page import (
    Badge,
    Block,
    Card,
    Cloud,
    Column,
    Curves,
    Fold,
    Gauge,
    Page,
    Picture,
    Section,
    Table,
    Text,
)
from identifiable.report.resolution import converged, headline, mostly, resolution_card, rule_note
from identifiable.report.resolution_methods import bibtex, how_to_read_joint, joint_paragraphs
from identifiable.report.rules import Settings, p_cell, shared_limit, shared_rule
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    known,
    number,
    one_line,
    yes_no,
)
from identifiable.results import ComponentMatch, JointResolution, Resolution

GUIDE = (
    "Each model was resolved by itself; a component is shared if every model has it, by correlation on the same rows. "
    "Components are numbered from 0 in each model, in the order of the columns that transform writes."
)
OPPOSITE = "(−)"  # beside a partner whose correlation with the first model's component is negative
MATCHES_PICTURED = 60
MATCHES_LISTED = 2000
MODELS_WITH_TABLES = 8  # beyond it each model is its card
COMPONENTS_PICTURED = 12
MODELS_IN_A_MATRIX = 64


def joint_page(result: JointResolution) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    sections = [
        Section("verdict", "Verdict", (_card(saved), Text(joint_rule(saved), note=True))),
        alerts_section(saved, well=mostly(saved.shared, saved.matches)),
        _matches(saved),
        _overview(saved),
        _models(saved),
        how_to_read_joint(),
        reproduction(saved, joint_paragraphs(saved), bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{count(len(saved.models))} models resolved together",
        subtitle="Which independent components do all of these representations share?",
        guide=GUIDE,
    )


def _card(result: JointResolution) -> Card:
    shared = result.shared
    facts = [
        ("models", count(len(result.models))),
        ("rows in common", count(result.n)),
        ("components of the first model", count(len(result.matches))),
        ("shared by all", count(len(shared))),
        ("of these reproducible in all", count(sum(m.identifiable for m in shared))),
    ]
    settled = all(m.converged for m in result.models)
    badge = "all converged" if settled else "NOT all converged"
    reached = tone(settled and mostly(shared, result.matches))
    return Card("All models", badge, joint_headline(result), reached, tuple(facts))


def joint_rule(result: JointResolution) -> str:
    """What makes a component shared, and whose are counted."""
    return shared_rule(result.settings, display_name(result.inputs[0].name))


def joint_headline(result: JointResolution) -> str:
    """The headline with names short enough for a title."""
    names = ", ".join(display_name(i.name) for i in result.inputs)
    return f"{count(len(result.shared))} of {count(len(result.matches))} components are shared by {names}."


def _matches(result: JointResolution) -> Section:
    matches = result.matches
    if not matches:
        return Section("matches", "Matches", (Text("There are no components to match."),))
    names = [display_name(i.name) for i in result.inputs]
    blocks: list[Block] = [_agreement(matches)] if any(known(m.correlation) for m in matches) else []
    blocks.append(_match_table(matches[:MATCHES_PICTURED], names, result.settings, pictured=True))
    rest = matches[MATCHES_PICTURED:MATCHES_LISTED]
    if rest:
        shared = f"{count(sum(m.shared for m in rest))} of {count(len(rest))} shared"
        blocks.append(
            Fold(f"The next matches: {shared}", (_match_table(rest, names, result.settings, pictured=False),))
        )
    if len(matches) > MATCHES_LISTED:
        left = counted(len(matches) - MATCHES_LISTED, "further component")
        blocks.append(Text(f"In the JSON result: {left} of the first model.", note=True))
    return Section("matches", "Matches", tuple(blocks))


def _agreement(matches: Sequence[ComponentMatch]) -> Curves:
    placed = [(float(i), m.correlation, m.shared) for i, m in enumerate(matches) if known(m.correlation)]
    clouds = (
        Cloud("shared by all", tuple((x, r) for x, r, shared in placed if shared), "main"),
        Cloud("not shared", tuple((x, r) for x, r, shared in placed if not shared), "hollow"),
    )
    return Curves(
        "How well the partners agree",
        "One point per match, in the order of the table: the smallest |correlation| among its partners.",
        "match",
        "smallest |r|",
        top=1.0,
        clouds=tuple(cloud for cloud in clouds if cloud.points),
    )


def _match_table(
    matches: Sequence[ComponentMatch], names: Sequence[str], settings: Settings, *, pictured: bool
) -> Table:
    place = len(names)
    pictures: dict[int, tuple[Picture | None, ...]] = {}
    if pictured:
        pictures = {
            place: tuple(Gauge(m.correlation, tone(m.shared)) if known(m.correlation) else None for m in matches),
            place + 2: tuple(Badge(tone(m.shared)) for m in matches),
        }
    first, *others = (Column(clip(name, 28)) for name in names)
    return Table(
        f"Components of the first model and their partners in each other: {OPPOSITE} of opposite sign, {MISSING} none; their "
        "smallest |correlation| and the largest p, ≤ where no draw reached it",
        (
            Column(first.label, "text"),
            *others,
            Column("smallest |r|"),
            Column("p"),
            Column("shared", "text"),
            Column("reproducible in all", "text"),
        ),
        tuple(match_line(m, settings) for m in matches),
        pictures=pictures,
    )


def match_line(match: ComponentMatch, settings: Settings) -> tuple[str, ...]:
    """Partners, correlation, p, shared, reproducible in all."""
    partners = (_partner(place, sign) for place, sign in zip(match.partners, match.signs, strict=True))
    figures = (number(match.correlation), p_cell(match.p, settings))
    return (*partners, *figures, yes_no(match.shared), yes_no(match.identifiable))


def _partner(place: int | None, sign: int | None) -> str:
    if place is None:
        return MISSING
    return f"{place} {OPPOSITE}" if sign is not None and sign < 0 else str(place)


def _overview(result: JointResolution) -> Section:
    """How many components every two models share."""
    names = [one_line(i.name) for i in result.inputs]
    if len(names) > MODELS_IN_A_MATRIX:
        return Section("overview", "", ())
    both, ranks = result.shared_counts, [model.rank for model in result.models]
    above = shared_limit(result.settings)
    table = matrix(
        f"Components that two models share{above and f', at {above}'}",
        "model",
        names,
        range(len(names)),
        lambda i, j: count(both[i][j]),
        lambda i, j: None if i == j else shade(both[i][j], min(ranks[i], ranks[j])),
    )
    note = (
        "Every two models are matched with each other alone, without a test against chance, so two may share more than all "
        "do. On the diagonal: all components of the model. Colour: the share of the smaller model's components."
    )
    return Section("overview", "All models at a glance", (table, Text(note, note=True)))


def _models(result: JointResolution) -> Section:
    table = Table(
        "Each model by itself",
        (Column("model", "text"), *map(Column, MODEL_HEADS), Column("state", "text")),
        tuple((display_name(model.inputs[0].name), *model_line(model), converged(model)) for model in result.models),
    )
    brief = len(result.models) > MODELS_WITH_TABLES
    folds = (
        Fold(
            f"{display_name(model.inputs[0].name)}: {headline(model)}",
            (
                resolution_card(model),
                *notices(model.alerts),
                *([] if brief else [*reason_table(model.components), *component_blocks(model, COMPONENTS_PICTURED)]),
            ),
        )
        for model in result.models
    )
    return Section("models", "Each model", (table, *rule_note(result.models[0]), *folds))


MODEL_HEADS = ("reproducible", "rank", "d", "effective rank", "unresolved pairs", "passes", "alerts")


def model_line(model: Resolution) -> tuple[str, ...]:
    """The figures of one model, in the order of `MODEL_HEADS`."""
    return (
        count(len(model.identifiable)),
        count(model.rank),
        count(model.inputs[0].d),
        number(model.whitening.effective_rank, 1),
        count(model.unresolved_pairs),
        number(model.passes, 1),
        count(len(model.alerts)),
    )
