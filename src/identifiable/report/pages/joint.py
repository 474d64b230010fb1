"""The page of `resolve` for several models: which components all of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.ica.joint import DRAWS, SHARED_P
from identifiable.report.frame import framed, glossary, matrix, notices, section, shade, terms
from identifiable.report.page import (
    Badge,
    Block,
    Card,
    Cloud,
    Curves,
    Fold,
    Gauge,
    Hint,
    Page,
    Picture,
    Table,
    Text,
    columns,
)
from identifiable.report.pages.components import Settings, component_blocks, gist, reason_table, recorded, tone
from identifiable.report.pages.resolution import PAPERS, converged, judged, mostly, part_of, rule_note, whitened
from identifiable.report.pages.resolution import card as model_card
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    known,
    listed,
    number,
    one_line,
    probability,
    short,
    yes_no,
)
from identifiable.results import ComponentMatch, JointResolution, Reason, Resolution

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
MODEL_HEADS = ("reproducible", "rank", "d", "eff. rank", "unresolved pairs", "passes", "alerts")


def page(result: JointResolution) -> Page:
    names = [display_name(i.name) for i in result.inputs]
    matched = (
        f"{listed(names)} were each resolved by itself and their components compared on {count(result.n)} common rows: matched "
        "one to one by |correlation| (optimal assignment), with p-values from permuted rows. A component counts as shared if "
        "every model has it."
    )
    return framed(
        result,
        title=f"{count(len(result.models))} models resolved together",
        subtitle="Which independent components do all of these representations share?",
        guide=GUIDE,
        verdict=(_card(result, names), Text(_shared_rule(result.settings, names[0]), note=True, brief=True)),
        sections=[
            section("matches", "Matches", _matches(result, names)),
            section("overview", "All models at a glance", _overview(result)),
            section("models", "Each model", _models(result.models)),
        ],
        reading=(
            Text(glossary("joint")[""]),
            terms("joint", "Shared", "Smallest |r|", "p"),
            terms("resolution", "Reproducible", "Stability", "Curvature margin"),
        ),
        methods=(matched, *map(whitened, result.models), judged(result.models), glossary("resolution")["Sources"]),
        papers=PAPERS,
    )


def _card(result: JointResolution, names: Sequence[str]) -> Card:
    shared, total = result.shared, len(result.matches)
    facts = (
        ("rows in common", count(result.n)),
        ("components of the first model", count(total)),
        ("found in all", count(len(shared))),
    )
    settled = all(m.converged for m in result.models)
    state = part_of(shared, result.matches, "shared") if settled else "NOT all converged"
    reached = tone(settled and mostly(shared, result.matches))
    return Card(counted(len(names), "model"), state, f"{result.headline}.", reached, facts, brief=True)


def _shared_rule(settings: Settings, first: str) -> str:
    """What makes a component shared, and whose components are counted."""
    above = _shared_limit(settings)
    link = f"every two of its partners correlate at {above}, " if above else ""
    level = recorded(settings.get("shared_p")) or SHARED_P
    return (
        f"Found in a model, or shared, means: {link}p below {short(level)}, direction reproducible in every model. Counted: components "
        f"of {first}, the first model."
    )


def _shared_limit(settings: Settings) -> str:
    """'|r| 0.8 or more'; empty if the settings do not say."""
    above = recorded(settings.get("shared_above"))
    return "" if above is None else f"|r| {short(above)} or more"


def _matches(result: JointResolution, names: Sequence[str]) -> Iterator[Block]:
    matches, settings = result.matches, result.settings
    if not matches:
        yield Text("There are no components to match.", brief=True)
        return
    if any(known(m.correlation) for m in matches):
        yield _agreement(matches)
    yield _match_table(matches[:MATCHES_PICTURED], names, settings, pictured=True)
    rest = matches[MATCHES_PICTURED:MATCHES_LISTED]
    if rest:
        shared = f"The next matches: {count(sum(m.shared for m in rest))} of {count(len(rest))} shared"
        yield Fold(shared, (_match_table(rest, names, settings, pictured=False),), brief=True)
    if len(matches) > MATCHES_LISTED:
        left = counted(len(matches) - MATCHES_LISTED, "further component")
        yield Text(f"In the JSON result: {left} of the first model.", note=True)


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
            place + 3: tuple(None if m.reason is None else Hint(one_line(m.reason.message)) for m in matches),
        }
    judged_by = ("shared", "why not, or doubt")

    def line(match: ComponentMatch) -> tuple[str, ...]:
        partners = map(_partner, match.partners, match.signs)
        told = (number(match.correlation), p_cell(match.p, settings))
        return (*partners, *told, yes_no(match.shared), "" if match.reason is None else match_gist(match.reason))

    return Table(
        f"Components of the first model and their partners in each other ({OPPOSITE} opposite sign, {MISSING} none), with the "
        "smallest |correlation| and the largest p (≤: no draw reached it)",
        columns(*(clip(name, 28) for name in names), "smallest |r|", "p", *judged_by, words=judged_by),
        tuple(map(line, matches)),
        pictures=pictures,
        brief=pictured,
    )


def match_gist(reason: Reason) -> str:
    """Why a component is not shared, or what is open, in a few words with the models concerned."""
    models = reason.values.get("models")
    return f"{gist(reason)} in {listed(map(display_name, models))}" if isinstance(models, list) else gist(reason)


def _partner(place: int | None, sign: int | None) -> str:
    if place is None:
        return MISSING
    return f"{place} {OPPOSITE}" if sign is not None and sign < 0 else str(place)


def p_cell(p: float, settings: Settings) -> str:
    """A permutation p-value; the smallest that its draws can give is a bound and not a value."""
    if not known(p):
        return probability(p)
    floor = 1 / (1 + (recorded(settings.get("draws")) or DRAWS))
    return f"≤ {floor:.1g}" if p <= floor * (1 + 1e-9) else probability(p)


def _overview(result: JointResolution) -> Iterator[Block]:
    """How many components every two models share."""
    names = [one_line(i.name) for i in result.inputs]
    if len(names) > MODELS_IN_A_MATRIX:
        return
    both, ranks, above = result.shared_counts, [model.rank for model in result.models], _shared_limit(result.settings)
    yield matrix(
        f"Components that two models share{above and f', at {above}'}",
        "model",
        names,
        range(len(names)),
        lambda i, j: count(both[i][j]),
        lambda i, j: None if i == j else shade(both[i][j], min(ranks[i], ranks[j])),
    )
    yield Text(
        "Every two models are matched with each other alone, without a test against chance, so two may share more than all do. "
        "Diagonal: all components of the model. Colour: the share of the smaller model's components.",
        note=True,
    )


def _models(models: Sequence[Resolution]) -> Iterator[Block]:
    def line(model: Resolution) -> tuple[str, ...]:
        return (
            display_name(model.inputs[0].name),
            count(len(model.identifiable)),
            count(model.rank),
            count(model.inputs[0].d),
            number(model.whitening.effective_rank, 1),
            count(model.unresolved_pairs),
            number(model.passes, 1),
            count(len(model.alerts)),
            converged(model),
        )

    heads = columns("model", *MODEL_HEADS, "state", words=("state",))
    yield Table("Each model by itself", heads, tuple(map(line, models)), brief=True)
    yield from rule_note(models[0])
    for model in models:
        tables = (*reason_table(model.components), *component_blocks(model, COMPONENTS_PICTURED))
        yield Fold(
            f"{display_name(model.inputs[0].name)}: {model.headline}",
            (model_card(model), *notices(model.alerts), *(tables if len(models) <= MODELS_WITH_TABLES else ())),
        )
