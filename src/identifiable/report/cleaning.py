"""What the page of `deconfound clean` says: `Cleaning` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math

from identifiable.report.cleaning_reading import (
    CURVE_HEADS,
    REMOVED_HEADS,
    SPACES,
    apply_command,
    apply_words,
    before,
    chosen,
    cost_words,
    curve_lines,
    done,
    gain_name,
    gain_words,
    gains,
    metric_lines,
    metric_notes,
    metric_space_name,
    metric_spaces,
    points,
    removed_lines,
    removed_words,
    role_words,
    share_words,
)
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Code,
    Column,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    LegendKind,
    Page,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.render.figures import drawn_marks
from identifiable.report.screen_methods import (
    GOOD,
    INVARIANT,
    SAME_AXES,
    cleaning_bibtex,
    cleaning_paragraphs,
    cleaning_reading,
    space_name,
    verdict_name,
)
from identifiable.report.screen_reading import (
    columns_of,
    design_section,
    inside,
    long_table,
    marks,
    screen_name,
    sentence_of,
)
from identifiable.report.words import MISSING, count, counted, known, number, one_line, percent, signed
from identifiable.results import Cleaning, CleanPoint, Interval

GUIDE = (
    "Plate AUROC says how well plates can still be told apart, 0.5 is not at all; replicate mAP how well replicates on other plates find "
    "each other. A cleaning is worth its name if the first falls, the second stays, and dropping other axes does not do as well."
)
STYLES = {"ica": 1, "pca": 2, "rand": 0}


def cleaning_page(result: Cleaning) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    words = [text for text in (cost_words(saved), gain_words(saved)) if text]
    sections = [
        Section("verdict", "Verdict", (card, *map(Text, words))),
        alerts_section(saved, well=card.tone != "caution"),
        _trade_off(saved),
        _removed(saved),
        _metrics(saved),
        _outputs(saved),
        design_section(saved.design, folded=True),
        cleaning_reading(saved),
        reproduction(saved, cleaning_paragraphs(saved), cleaning_bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{screen_name(saved)}: cleaned, and at what price",
        subtitle="A screen without its technical components, beside dropping as many axes of PCA or of a random rotation",
        guide=GUIDE,
    )


def _card(result: Cleaning) -> Card:
    start, end = before(result), chosen(result)
    facts = [
        (done(result), share_words(result)),
        ("biology lost", percent(result.biology_lost)),
        ("of a budget of", percent(result.budget)),
        ("plate AUROC", _from_to(start, end, "plate_auroc")),
        ("replicate mAP", _from_to(start, end, "replicate_map")),
        ("wells", count(result.design.n)),
        ("roles", role_words(result.attribution)),
    ]
    tone: Tone = "good" if result.verdict in GOOD else "plain" if result.verdict == "nothing-to-remove" else "caution"
    return Card(screen_name(result), verdict_name(result.verdict), sentence_of(result.text), tone, tuple(facts))


def _from_to(start: CleanPoint | None, end: CleanPoint | None, field: str) -> str:
    said = [MISSING if point is None else number(getattr(point, field)) for point in (start, end)]
    return said[0] if start == end else " → ".join(said)


def _trade_off(result: Cleaning) -> Section:
    if not result.curve:
        return Section("trade-off", "The trade-off", ())
    blocks: list[Block] = [Text(SAME_AXES), *_curves(result), *_gains(result)]
    heads = (Column("axes removed"), Column("space", "text"), *map(Column, CURVE_HEADS))
    caption = "Spaces at the same number of axes removed"
    blocks.append(Fold("The trade-off in figures", tuple(long_table(caption, heads, curve_lines(result), "line"))))
    return Section("trade-off", "The trade-off", tuple(blocks))


def _curves(result: Cleaning) -> list[Block]:
    drawn = [(space, placed) for space in SPACES if (placed := _placed(points(result, space)))]
    if not drawn:
        return []
    lowest = min(y for _, placed in drawn for _, y in placed)
    picked = _placed([point for point in [chosen(result)] if point is not None and result.removed])
    clouds = [Cloud("", placed, "main", STYLES[space]) for space, placed in drawn]
    if picked:
        clouds.append(Cloud(f"chosen: {counted(len(result.removed), 'component')} removed", picked, "hollow"))
    return [
        Curves(
            "What is left of plate, and what of biology, as axes are removed",
            "Each dot is a number of axes removed; lines start at the right, with none.",
            "plate AUROC (0.5: plates cannot be told apart)",
            "replicate mAP",
            tuple(
                Curve(f"{space_name(space)} axes removed", placed, STYLES[space], dotted=False)
                for space, placed in drawn
            ),
            clouds=tuple(clouds),
            base=math.floor(20 * lowest) / 20,
            across_base=0.5,
        )
    ]


def _gains(result: Cleaning) -> list[Block]:
    """Paired differences of replicate mAP, with the line of no difference."""
    rows = [
        DotRow(
            gain_name(d),
            signed(d.difference),
            marks(("main", d.difference), low=-1.0),
            interval=inside(d.ci95, -1, 1),
        )
        for d in gains(result)
        if marks(("main", d.difference), low=-1.0)
    ]
    if not rows:
        return []
    legend: list[tuple[LegendKind, str]] = [
        ("main", "difference"),
        ("whisker", "95 % interval, plates left out in turn"),
    ]
    shown = drawn_marks(rows)
    return [
        Dots(
            "Replicate mAP of the cleaned ICA space less that of others",
            "Right of 0 the cleaned ICA space is better. PCA and Rand have as many axes removed; before cleaning none is.",
            "difference of replicate mAP",
            tuple(rows),
            tuple((kind, words) for kind, words in legend if kind in shown),
            ("no difference", 0.0),
            span=True,
        )
    ]


def _placed(found: list[CleanPoint]) -> tuple[Interval, ...]:
    """Points of a curve that can be drawn: both figures are shares."""
    return tuple(
        (p.plate_auroc, p.replicate_map)
        for p in found
        if known(p.plate_auroc) and known(p.replicate_map) and 0 <= p.plate_auroc <= 1 and -1 <= p.replicate_map <= 1
    )


def _removed(result: Cleaning) -> Section:
    lines = removed_lines(result)
    caption = f"{removed_words(result)}, the most technical first; weight 0 is dropped, 1 kept"
    blocks = long_table(caption, columns_of(REMOVED_HEADS, (2, 3, 4)), lines, "component")
    return Section("removed", "What was removed", tuple(blocks) or (Text("No component was removed."),))


def _metrics(result: Cleaning) -> Section:
    lines = metric_lines(result)
    if not lines:
        return Section("metrics", "Metrics", ())
    heads = (Column("metric", "text"), *(Column(metric_space_name(space)) for space in metric_spaces(result)))
    blocks: list[Block] = [
        Table("↑ better if high, ↓ if low, = the same for every rotation; [95 % interval]", heads, tuple(lines))
    ]
    if any(m.rotation_invariant for m in result.metrics):
        blocks.append(Text(INVARIANT, note=True))
    blocks += [Text(note, note=True) for note in metric_notes(result)]
    return Section("metrics", "Metrics", tuple(blocks))


def _outputs(result: Cleaning) -> Section:
    blocks: list[Block] = []
    if result.outputs:
        blocks.append(Table("Files", (Column("file", "code"),), tuple((one_line(path),) for path in result.outputs)))
    blocks += [Text(apply_words(result)), Code("On new plates", apply_command(result))]
    return Section("outputs", "What was written, and new plates", tuple(blocks))
