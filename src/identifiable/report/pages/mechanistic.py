"""The page of `reproduce mechanistic`: slots before and after the found basis, beside ICA and penalties; the sparsity gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.page import Block, Card, DotRow, Dots, Fold, Page, Table, Text, Tone, columns
from identifiable.report.pages.paper import choice_tables
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    estimate,
    known,
    number,
    one_line,
    percent,
    sentence_of,
    setting,
    short,
    signed,
    yes_no,
)
from identifiable.results import Estimate, Mechanistic, SlotCell
from identifiable.results.mechanistic import Draws, Way

GUIDE = (
    "Each score says how well groups of latents match the true slots, from 0 to 1. Compare latents as trained with latents in the "
    "basis that the decoder's Jacobians give, and both with ICA, where slots are dependent."
)
WAYS: dict[Way, str] = {
    "true": "true",
    "raw": "trained",
    "ica": "ICA",
    "found": "found",
    "then_penalty": "found + penalty",
    "penalty": "penalty",
}
READING = (
    "SIS",
    "Found basis",
    "ICA, oracle",
    "Penalty",
    "Independent and own draws",
    "Dependence",
    "Leak",
    "Sparsity gap",
    "[95 %]",
)
MOST = 0.9  # share of models with the right factors, and...
LIFTED = 0.4  # ...the rise of the score, from which on the experiment is said to work: the aims of this experiment
CONTRASTED: tuple[Way, ...] = ("raw", "found", "then_penalty", "penalty")

Condition = tuple[int, float, float]


def page(result: Mechanistic) -> Page:
    words = glossary("mechanistic")
    return framed(
        result,
        title="Slots from the Jacobian of a trained decoder",
        subtitle="Autoencoders that know nothing of slots: does one linear change of basis, read off the decoder, separate them?",
        guide=GUIDE,
        verdict=_verdict(result),
        sections=[
            section("figures", "The conditions", _figure(result)),
            section("gaps", "Sparsity gap (Type S)", _gaps(result)),
            section("models", "Models", _models(result)),
            section("choices", "Settings", choice_tables(result.choices)),
        ],
        reading=(Text(words[""]), terms("mechanistic", *READING)),
        methods=(words["Measured"], words["Sources"]),
        papers=("matthes", "brady"),
    )


def _conditions(result: Mechanistic) -> list[Condition]:
    return list(dict.fromkeys((c.slots, c.overlap, c.dependence) for c in result.cells))


def _name(condition: Condition) -> tuple[str, str, str]:
    slots, overlap, dependence = condition
    return count(slots), short(overlap), short(dependence)


def _share(held: Sequence[bool]) -> str:
    return f"{count(sum(held))} of {count(len(held))}" if held else MISSING


def _said(found: SlotCell | None) -> str:
    return MISSING if found is None else number(found.sis.mean)


def _estimated(found: Estimate | None) -> str:
    return MISSING if found is None else estimate(found.mean, found.ci95, signed)


# -- the verdict


def _verdict(result: Mechanistic) -> Iterator[Block]:
    yield _card(result)
    yield from _scores(result, "independent", "Slot identifiability on independent draws: mean over seeds", brief=True)
    yield Text(glossary("mechanistic")["Table"], note=True, brief=True)
    if result.published:
        yield Table(
            "Published, as far as our copy has it",
            columns("what", "value", words=("value",)),
            tuple((one_line(key.replace("_", " ")), setting(value)) for key, value in result.published.items()),
        )


def _card(result: Mechanistic) -> Card:
    works = result.right >= MOST and result.lift.mean >= LIFTED
    badge: tuple[str, Tone] = ("slots are found", "good") if works else ("slots are not all found", "caution")
    facts = (
        ("right factors", _share([model.right for model in result.models])),
        ("found - as trained", _estimated(result.lift)),
        ("found - ICA, dependent slots", _estimated(result.over_ica)),
        ("called certain", _share([model.certain for model in result.models])),
    )
    name = f"Slot autoencoders: {counted(len(result.models), 'model')}, scale {one_line(result.scale)}"
    return Card(name, badge[0], sentence_of(result.headline), badge[1], facts, brief=True)


def _scores(result: Mechanistic, draws: Draws, title: str, *, brief: bool = False) -> Iterator[Table]:
    ways = [way for way in WAYS if any((c.way, c.draws) == (way, draws) for c in result.cells)]
    rows = []
    for condition in _conditions(result):
        cells = [result.cell(*condition, way, draws) for way in ways]
        if any(cells):
            models = [m for m in result.models if (m.slots, m.overlap, m.dependence) == condition]
            rows.append((*_name(condition), _share([m.right for m in models]), *map(_said, cells)))
    if rows:
        heads = ("slots", "overlap", "dependence", "right", *(WAYS[way] for way in ways))
        yield Table(title, columns(*heads), tuple(rows), brief=brief)


# -- the figure


def _figure(result: Mechanistic) -> Iterator[Block]:
    rows = []
    for condition in _conditions(result):
        means = {way: found.sis for way in WAYS if (found := result.cell(*condition, way)) is not None}
        if "found" in means and known(means["found"].mean):
            slots, overlap, dependence = _name(condition)
            low, high = means["found"].ci95
            values = {way: each.mean for way, each in means.items()}
            rows.append(
                DotRow(
                    f"{slots} slots, overlap {overlap}, dependence {dependence}",
                    number(means["found"].mean),
                    marks(
                        ("main", values["found"]),
                        ("q95", values.get("true")),
                        ("hollow", values.get("raw")),
                        ("shuffle", values.get("ica")),
                        ("rotation", values.get("penalty")),
                    ),
                    interval=(low, high) if known(low) and known(high) else None,
                )
            )
    if rows:
        yield Dots(
            "Slot identifiability by condition",
            "Mean over seeds, on independent draws. A found basis is one linear map of the latents as trained.",
            "SIS; 1 is every slot in latents of its own",
            tuple(rows),
            (
                ("main", "found basis"),
                ("whisker", "95 % interval over seeds"),
                ("q95", "true latents"),
                ("hollow", "as trained"),
                ("shuffle", "ICA, oracle"),
                ("rotation", "penalty only"),
            ),
            span=True,
        )
    own = list(_scores(result, "own", "The same on draws with the dependence of training"))
    if own:
        yield from own
        yield Text(glossary("mechanistic")["Own draws"], note=True)


# -- Type S


def _gaps(result: Mechanistic) -> Iterator[Block]:
    if result.gaps:
        yield Table(
            "Two factors of one dimension: fewest derivatives of a mixed basis less those of the aligned one",
            columns("shared derivatives", "outputs of each", "shared", "gap", "closed form", "Type S"),
            tuple(
                (g.kind, count(g.outputs), count(g.shared), str(g.gap), str(g.formula), yes_no(g.gap > 0))
                for g in result.gaps
            ),
            brief=True,
        )


# -- the tables


def _models(result: Mechanistic) -> Iterator[Block]:
    scores = {(s.slots, s.overlap, s.dependence, s.seed, s.way): s for s in result.scores if s.draws == "independent"}
    shown = [way for way in CONTRASTED if any(key[-1] == way for key in scores)]
    rows = []
    for m in result.models:
        own = [scores.get((m.slots, m.overlap, m.dependence, m.seed, way)) for way in shown]
        rows.append(
            (
                *_name((m.slots, m.overlap, m.dependence)),
                str(m.seed),
                number(m.loss, 4),
                " + ".join(map(str, m.dimensions)),
                yes_no(m.certain),
                yes_no(m.linear),
                one_line(m.reason.replace("_", " ")),
                number(m.leak),
                number(m.next_leak),
                *(MISSING if s is None else number(s.contrast) for s in own),
            )
        )
    if rows:
        heads = (
            "slots",
            "overlap",
            "dependence",
            "seed",
            "loss",
            "dimensions",
            "certain",
            "linear",
            "reason",
            "leak",
            "next leak",
        )
        contrasts = [f"contrast, {WAYS[way]}" for way in shown]
        yield Text(f"{percent(result.right)} of the models have factors with the number and dimensions of the slots.")
        yield Table(
            "Plain models and the factors of their decoders",
            columns(*heads, *contrasts, words=("reason",)),
            tuple(rows),
        )
    lines = tuple(
        (
            *_name((s.slots, s.overlap, s.dependence)),
            str(s.seed),
            WAYS[s.way],
            s.draws,
            number(s.sis, 4),
            number(s.contrast),
        )
        for s in result.scores
    )
    if lines:
        names = ("slots", "overlap", "dependence", "seed", "way", "draws", "SIS", "contrast")
        table = Table("Every score", columns(*names, words=("way", "draws")), lines)
        yield Fold(f"{counted(len(lines), 'score')} of single models", (table,))
