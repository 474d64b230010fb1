"""The page of `deconfound attribute`: how much of each component is technical, how much is biology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from identifiable.report.frame import framed, glossary, section, terms
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Curves,
    Fold,
    Gauge,
    Grid,
    Heading,
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.components import spark, stability_cell
from identifiable.report.pages.screen import design_section, long_table, screen_card, screen_name, size_words
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    estimate,
    interval,
    known,
    named,
    number,
    one_line,
    probability,
    yes_no,
)
from identifiable.results import Attribution, ComponentCard

STYLES = {"technical": 0, "biological": 5, "both": 3, "neither": 6}  # roles and their colours in the figure
NOT_REPRODUCIBLE = {  # what scores say of components that refits do not find: of the direction, and not of a component
    "technical": "Most plate-like directions, not reproducible",
    "biological": "Most perturbation-like directions, not reproducible",
    "both": "Plate-like and perturbation-like directions, not reproducible",
    "neither": "Other directions, not reproducible",
}
SPREAD = "spread"  # of wells, not of their values: no share of the same variance
FACTORS = {SPREAD: "spread of wells, by plate"}
CARDS = 12  # components of each role with a card
TOP = 10  # perturbations of a card
NAME = 30
CLEAR = 0.05  # q below which a perturbation is said to move a component
DEEP = 98  # per cent of wells within the deepest colour, so that one odd well does not make the others pale
LEAST_REACH = 0.25  # standard deviations: a plate without a pattern must look like one


def page(result: Attribution) -> Page:
    words = glossary("attribution")
    return framed(
        result,
        title=f"{screen_name(result)}: what each component is about",
        subtitle="Which independent components follow plate, batch, position and cell count, and which follow perturbations?",
        guide="Technical: share of a component's variance that plate, batch, position and cell count explain on control wells. "
        "Biological: share that perturbations explain on every plate. A component with much of the first and little of the second "
        "can be removed.",
        verdict=[_card(result)],
        sections=[
            section("scores", "Technical against biological", _scatter(result)),
            section("components", "All components", _components(result)),
            section("cards", "Component cards", _cards(result)),
            design_section(result.design),
        ],
        reading=(
            Text(words[""]),
            terms("attribution", "Technical", "Biological", "Role", "Effect", "q", "Stability", "Plate map"),
        ),
        methods=(
            f"{size_words(result.design)}. {counted(len(result.components), 'component')} of PCA whitening and FastICA. "
            f"{words['Methods']}",
            f"{words['Sources']} Seed {result.provenance.seed}.",
        ),
        papers=["nelson", "hyvarinen1999", "benjamini"],
    )


def _card(result: Attribution) -> Card:
    kept = [c for c in result.components if c.index not in result.refused]
    good = result.converged and any(c.role in ("technical", "biological", "both") for c in kept)
    reproducible = sum(c.identifiable for c in result.components)
    facts = [
        ("reproducible", f"{count(reproducible)} of {counted(len(result.components), 'component')}"),
        ("ICA converged", yes_no(result.converged)),
    ]
    if known(result.biology):
        facts.insert(1, ("biology, all components", estimate(result.biology, result.biology_ci95)))
    return screen_card(
        result,
        role_words(kept) or ("nothing reproducible" if result.refused else "no components"),
        "good" if good else "caution",
        facts,
    )


# -- roles and scores


def by_role(components: Iterable[ComponentCard]) -> dict[str, list[ComponentCard]]:
    """The components of each role, biological ones by their biological score, all others by their technical one."""
    found: dict[str, list[ComponentCard]] = {role: [] for role in STYLES}
    for card in components:
        found.setdefault(card.role, []).append(card)
    return {role: ranked(cards, "biological" if role == "biological" else "technical") for role, cards in found.items()}


def ranked(components: Iterable[ComponentCard], score: Literal["technical", "biological"]) -> list[ComponentCard]:
    """The highest score first; components without one last."""

    def place(card: ComponentCard) -> tuple[bool, float, int]:
        value = getattr(card, score)
        return not known(value), -value if known(value) else 0.0, card.index

    return sorted(components, key=place)


def role_words(components: Sequence[ComponentCard]) -> str:
    """'12 technical, 30 biological, 2 both, 4 neither'; empty without components."""
    sizes = ((role, len(cards)) for role, cards in by_role(components).items())
    return ", ".join(f"{count(size)} {one_line(role)}" for role, size in sizes) if components else ""


def fixed(value: float, decimals: int = 3, *, plus: bool = False) -> str:
    """A score of about 0 to 1, always with the same decimals: beside 0.620 a 0.0004 is 0.000; `plus`: with its sign."""
    sign = "+" if plus and known(value) and value > 0 else ""
    if not known(value) or abs(value) >= 100:
        return sign + number(value)
    return f"{sign}{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0 makes of -0 a plain 0


def mostly(card: ComponentCard) -> str:
    """The factor that explains most, if any explains something."""
    explained = [s for s in card.shares if known(s.share) and s.share > 0 and s.factor != SPREAD]
    found = max(explained, key=lambda s: s.share, default=None)
    return MISSING if found is None else f"{named(FACTORS, found.factor)} {fixed(found.share, 2)}"


def _moved_by(card: ComponentCard) -> str:
    """The two perturbations that clearly move a component most; where none does, the strongest with its q."""
    told = [(t.q, f"{clip(one_line(t.name), NAME)} {fixed(t.effect, 2, plus=True)}") for t in card.top]
    clear = [words for q, words in told if known(q) and q < CLEAR]
    if not clear and card.role in ("biological", "both") and told and known(told[0][0]):
        return f"{told[0][1]} (q {number(told[0][0])})"
    return ", ".join(clear[:2]) or MISSING


def _scatter(result: Attribution) -> Iterator[Block]:
    def place(card: ComponentCard) -> tuple[float, float]:
        return min(1.0, max(0.0, card.technical)), min(1.0, max(0.0, card.biological))

    placed = {
        role: tuple(place(c) for c in cards if known(c.technical) and known(c.biological))
        for role, cards in by_role(result.components).items()
    }
    clouds = (Cloud(one_line(r), points, "main", STYLES.get(r, 6)) for r, points in placed.items() if points)
    if shown := tuple(clouds):
        yield Curves(
            "Components by their two scores",
            "Low and right: technical only, what cleaning would remove. High and left: biology. Scores below 0 are drawn at 0.",
            "technical score",
            "biological score",
            clouds=shown,
            across_base=0.0,
        )


# -- tables


def _components(result: Attribution) -> Iterator[Block]:
    found = [card for card in result.components if card.index not in result.refused]
    refused = [card for card in result.components if card.index in result.refused]
    roles = {one_line(role).capitalize(): cards for role, cards in by_role(found).items()}
    refused_as = {NOT_REPRODUCIBLE.get(role, one_line(role)): cards for role, cards in by_role(refused).items()}
    for heading, cards in {**roles, **refused_as}.items():
        role = cards[0].role if cards else ""
        score = "biological" if role == "biological" else "technical"
        yield from long_table(
            Table(
                f"{heading}: {counted(len(cards), 'component')}, the most {score} first",
                columns(
                    "component", "technical", "biological", "mostly", "moved most by", "stability", "reproducible",
                    words=("mostly", "moved most by", "reproducible"), hidden=("stability", "reproducible"),
                ),
                tuple(map(_line, cards)),
                pictures={
                    1: tuple(_gauge(c.technical, "caution") for c in cards),
                    2: tuple(_gauge(c.biological, "plain") for c in cards),
                },
                brief=role != "neither" or len(cards) == len(result.components),
                brief_rows=CARDS,
            ),
            "component" if heading in refused_as else f"{one_line(role)} component",
        )  # fmt: skip


def _line(card: ComponentCard) -> tuple[str, ...]:
    scores = (fixed(card.technical), fixed(card.biological))
    found_again = (stability_cell(card.stability), yes_no(card.identifiable))
    return (str(card.index), *scores, mostly(card), _moved_by(card), *found_again)


def _gauge(value: float, tone: Tone) -> Gauge | None:
    return Gauge(value, tone) if known(value) else None


# -- cards


def _cards(result: Attribution) -> Iterator[Block]:
    if result.refused:
        yield Text(_refusal(result))
    for role, every in by_role(result.components).items():
        cards = [card for card in every if card.index not in result.refused]
        if cards and (role != "neither" or len(cards) == len(result.components)):
            yield Heading(one_line(role).capitalize())
            yield from (Fold(_summary(card), tuple(_card_blocks(result, card))) for card in cards[:CARDS])


def _refusal(result: Attribution) -> str:
    """Which components have no card, and where components would have one."""
    said = (
        f"{counted(len(result.refused), 'component')} of {count(len(result.components))} have no card, because refits on halves of the "
        "plates do not find them again. Their scores describe directions of this table; another sample would give others."
    )
    if result.reproducible_rank is None:
        return f"{said} No lower rank that was tried has reproducible components."
    rank = count(result.reproducible_rank)
    return f"{said} With --rank {rank}, {count(result.reproducible_there)} of {rank} components are reproducible."


def _summary(card: ComponentCard) -> str:
    """A component in one line."""
    said = f"Component {card.index}: technical {fixed(card.technical, 2)}, biological {fixed(card.biological, 2)}"
    most, moved = mostly(card), _moved_by(card)
    said += f", mostly {most}" if most != MISSING else ""
    return said + (f"; moved by {moved}" if moved != MISSING else "")


def _card_blocks(result: Attribution, card: ComponentCard) -> Iterator[Block]:
    scores = (
        ("technical", card.technical, card.technical_ci95, card.technical_q),
        ("biological", card.biological, card.biological_ci95, card.biological_q),
    )
    yield Table(
        "What explains it: the two scores, then each factor; perturbation within plate, plate and batch on control wells",
        columns("explained by", "share of variance", "95 % interval", "p", "q"),
        (
            *((name, fixed(share), interval(ci95), MISSING, probability(q)) for name, share, ci95, q in scores),
            *(
                (named(FACTORS, s.factor), fixed(s.share), MISSING, probability(s.p), probability(s.q))
                for s in card.shares
            ),
        ),
        pictures={
            1: (
                _gauge(card.technical, "caution"),
                _gauge(card.biological, "plain"),
                *(_gauge(s.share, "plain") for s in card.shares),
            )
        },
    )
    if card.top:
        of = f", {count(TOP)} of {count(len(card.top))}" if len(card.top) > TOP else ""
        yield Table(
            f"Perturbations that move it most, in standard deviations{of}",
            columns("perturbation", "effect", "wells", "p", "q"),
            tuple(
                (
                    clip(one_line(t.name), NAME),
                    fixed(t.effect, plus=True),
                    count(t.wells),
                    probability(t.p),
                    probability(t.q),
                )
                for t in card.top[:TOP]
            ),
        )
    drawn = spark(card.density, result.density_edges)
    shape = (number(card.kurtosis), number(card.negentropy), stability_cell(card.stability), yes_no(card.identifiable))
    heads = ("component", "density", "kurtosis", "negentropy", "stability", "reproducible")
    yield Table(
        "Its shape, and whether a refit finds it"
        + (". The picture is the density (filled) against a Gaussian (line)" if drawn else ""),
        columns(*heads, words=("density", "reproducible")),
        ((str(card.index), "as drawn" if drawn else "not recorded", *shape),),
        pictures={1: (drawn,)},
    )
    yield from _plate(result, card)


def _plate(result: Attribution, card: ComponentCard) -> Iterator[Block]:
    """The heat map of a component, where its shape is that of the plate and a well is in use."""
    rows, across = tuple(map(one_line, result.grid_rows)), tuple(map(one_line, result.grid_columns))
    fits = len(card.plate_map) == len(rows) and all(len(line) == len(across) for line in card.plate_map)
    wells = [
        (value, f"{rows[i]}{across[j]}")
        for i, line in enumerate(card.plate_map if fits else ())
        for j, value in enumerate(line)
        if known(value)
    ]
    if wells:
        sizes = sorted(abs(value) for value, _ in wells)
        (high, at_high), (low, at_low) = max(wells), min(wells)
        yield Grid(
            f"Component {card.index} on the plate",
            f"Highest {at_high} ({number(high, 2)}), lowest {at_low} ({number(low, 2)}), {counted(len(wells), 'well')} in use.",
            rows,
            across,
            card.plate_map,
            max(LEAST_REACH, sizes[(len(sizes) - 1) * DEEP // 100]),
            "standard deviations",
        )
