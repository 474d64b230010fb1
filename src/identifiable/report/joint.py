"""What the page of several models resolved together says: `JointResolution` to `Page`."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.components import component_blocks, tone
from identifiable.report.matrices import matrix, shade
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
from identifiable.report.record import alerts_section, byline, notices, reproduction, saved_form
from identifiable.report.resolution import converged, resolution_card
from identifiable.report.resolution_methods import bibtex, how_to_read_joint, joint_paragraphs
from identifiable.report.wording import (
    MISSING,
    clip,
    count,
    display_name,
    known,
    number,
    one_line,
    probability,
    yes_no,
)
from identifiable.results import ComponentMatch, JointResolution, Resolution

GUIDE = (
    "Each model was resolved by itself; a component is shared if every model has it, by correlation on the same rows. "
    "Components are numbered from 0 in each model, in the order of the columns that transform writes."
)
MATCHES_PICTURED = 60
MATCHES_LISTED = 2000
MODELS_WITH_TABLES = 8  # beyond it each model is its card
COMPONENTS_PICTURED = 12
MODELS_IN_A_MATRIX = 64


def joint_page(result: JointResolution) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    sections = [
        Section("verdict", "Verdict", (_card(saved),)),
        alerts_section(saved),
        _matches(saved),
        _overview(saved),
        _models(saved),
        how_to_read_joint(),
        reproduction(saved, joint_paragraphs(saved), bibtex(saved)),
    ]
    return Page(
        f"{count(len(saved.models))} models resolved together",
        "Which independent components do all of these representations share?",
        GUIDE,
        byline(saved),
        tuple(s for s in sections if s.blocks),
    )


def _card(result: JointResolution) -> Card:
    shared = result.shared
    facts = [
        ("models", count(len(result.models))),
        ("rows in common", count(result.n)),
        ("components matched", count(len(result.matches))),
        ("shared by all", count(len(shared))),
        ("of these reproducible", count(sum(m.identifiable for m in shared))),
    ]
    badge = "all converged" if all(m.converged for m in result.models) else "NOT all converged"
    return Card(
        "All models", badge, joint_headline(result), tone(bool(shared) and badge == "all converged"), tuple(facts)
    )


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
    blocks.append(_match_table(matches[:MATCHES_PICTURED], names, pictured=True))
    rest = matches[MATCHES_PICTURED:MATCHES_LISTED]
    if rest:
        shared = f"{count(sum(m.shared for m in rest))} of {count(len(rest))} shared"
        blocks.append(Fold(f"The next matches: {shared}", (_match_table(rest, names, pictured=False),)))
    if len(matches) > MATCHES_LISTED:
        blocks.append(
            Text(f"The other {count(len(matches) - MATCHES_LISTED)} matches are in the JSON result.", note=True)
        )
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


def _match_table(matches: Sequence[ComponentMatch], names: Sequence[str], *, pictured: bool) -> Table:
    place = len(names)
    pictures: dict[int, tuple[Picture | None, ...]] = {}
    if pictured:
        pictures = {
            place: tuple(Gauge(m.correlation, tone(m.shared)) if known(m.correlation) else None for m in matches),
            place + 2: tuple(Badge(tone(m.shared)) for m in matches),
        }
    first, *others = (Column(clip(name, 28)) for name in names)
    return Table(
        f"Partners in each model ({MISSING} for none), their smallest |correlation| and the largest p",
        (
            Column(first.label, "text"),
            *others,
            Column("smallest |r|"),
            Column("p"),
            Column("shared", "text"),
            Column("reproducible", "text"),
        ),
        tuple(match_line(m) for m in matches),
        pictures=pictures,
    )


def match_line(match: ComponentMatch) -> tuple[str, ...]:
    """Partners, correlation, p, shared, reproducible."""
    partners = (MISSING if place is None else str(place) for place in match.partners)
    figures = (number(match.correlation), probability(match.p))
    return (*partners, *figures, yes_no(match.shared), yes_no(match.identifiable))


def _overview(result: JointResolution) -> Section:
    """How many matches have a partner in both models, for every pair of models."""
    names = [one_line(i.name) for i in result.inputs]
    if len(names) > MODELS_IN_A_MATRIX:
        return Section("overview", "", ())
    both = [
        [
            sum(m.partners[i] is not None and m.partners[j] is not None for m in result.matches)
            for j in range(len(names))
        ]
        for i in range(len(names))
    ]
    top = max((both[i][j] for i in range(len(names)) for j in range(len(names)) if i != j), default=0)
    table = matrix(
        "Matches with a partner in both models",
        "model",
        names,
        range(len(names)),
        lambda i, j: count(both[i][j]),
        lambda i, j: None if i == j else shade(both[i][j], top),
    )
    note = "On the diagonal: matches with a partner in the model itself. The stronger the colour, the more in common."
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
            f"{display_name(model.inputs[0].name)}: {model.headline}",
            (
                resolution_card(model),
                *notices(model.alerts),
                *([] if brief else component_blocks(model, COMPONENTS_PICTURED)),
            ),
        )
        for model in result.models
    )
    return Section("models", "Each model", (table, *folds))


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
