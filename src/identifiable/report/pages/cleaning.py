"""The page of `deconfound clean`: what was removed, what that costs, and whether other axes would have done as well."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, marks, section, terms
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
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.attribution import fixed, mostly, ranked, role_words
from identifiable.report.pages.screen import (
    NO_DIFFERENCE,
    design_section,
    long_table,
    screen_card,
    screen_name,
    size_words,
)
from identifiable.report.screen_names import RETRIEVAL
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    estimate,
    interval,
    known,
    named,
    number,
    one_line,
    percent,
    plural,
    signed,
)
from identifiable.results import Cleaning, CleanPoint, Interval, SpaceMetric

VERDICTS: dict[str, tuple[str, Tone]] = {
    "ica-cleaning-helps": ("ICA cleaning helps", "good"),
    "no-gain": ("no gain", "caution"),
    "nothing-to-remove": ("nothing to remove", "plain"),
    "keep-as-is": ("keep the table as it is", "caution"),
    "harms": ("cleaning harms", "caution"),
}
SPACES = {"ica": "ICA", "pca": "PCA", "rand": "Rand"}
OTHER_SPACES = {"whole": "before cleaning", "base": "Base"}
STYLES = {"ica": 1, "pca": 2, "rand": 0}
METRICS = {  # name, which `glossary/cleaning.md` explains, and papers
    "replicate_map": ("replicate mAP", ("kalinin",)),
    "replicate_map_others": ("replicate mAP, others", ("kalinin",)),
    "plate_auroc": ("plate AUROC", ()),
    "consistency": ("perturbation consistency", ("celik",)),
    "recall": ("relationship recall", ("celik",)),
    "ilisi": ("iLISI", ("korsunsky",)),
    "clisi": ("cLISI", ("korsunsky",)),
    "kbet": ("kBET", ("buttner",)),
    "graph_connectivity": ("graph connectivity", ("luecken",)),
    "silhouette_label": ("silhouette, perturbation", ("rousseeuw", "luecken")),
    "silhouette_batch": ("silhouette, batch", ("rousseeuw", "luecken")),
    "bras": ("BRAS", ()),
    "pcr_batch": ("PCR, batch", ("luecken",)),
    "pcr_plate": ("PCR, plate", ("luecken",)),
}
AS_WRITTEN = "the table as written"
OWN_UNITS = ", in its own units"
BASIS = ".safetensors"
UNSAVED = "cleaning.safetensors"


def page(result: Cleaning) -> Page:
    words = glossary("cleaning")
    shown = dict.fromkeys(("plate_auroc", "replicate_map", *(m.metric for m in result.metrics)))
    checked = dict.fromkeys(RETRIEVAL[c.metric] for c in result.checks if c.metric in set(RETRIEVAL) - set(METRICS))
    measured = [METRICS[key] for key in shown if key in METRICS]
    return framed(
        result,
        title=f"{screen_name(result)}: cleaned, and at what price",
        subtitle="Features without what technical components contribute, compared with the table as it came and with other axes removed",
        guide="Plate AUROC is how well plates can still be separated (0.5: not at all), replicate mAP how well replicates on other "
        "plates are found. A useful cleaning lowers the first, keeps the second, and does better than removing other axes.",
        verdict=[_card(result)],
        sections=[
            section("checks", "Cleaned against input", _checks(result)),
            section("trade-off", "The trade-off", _trade_off(result)),
            section("removed", "What was removed", _removed(result)),
            section("metrics", "Metrics", _metrics(result)),
            section("outputs", "Files, and how to clean new plates", _outputs(result)),
            design_section(result.design),
        ],
        reading=(
            Text(words[""]),
            terms("cleaning", "Biology lost", "Same number of axes", "The same for every rotation (=)"),
            terms("attribution", "Technical", "Biological"),
            terms("cleaning", *(name for name, _ in measured)),
            terms("recommendation", *checked),
        ),
        methods=(
            f"{size_words(result.design)}. Of {counted(len(result.weights), 'component')}, {count(len(_touched(result)))} "
            f"{_done(result)}. {words['Methods']}",
            f"{words['Sources']} Seed {result.provenance.seed}.",
        ),
        papers=dict.fromkeys(
            ("nelson", "hyvarinen1999", "benjamini", "kalinin", *(paper for _, of in measured for paper in of))
        ),
    )


def _card(result: Cleaning) -> Card:
    start, end = _before(result), _point(result, "ica", len(result.removed))

    def from_to(field: str) -> str:
        said = [MISSING if point is None else number(getattr(point, field)) for point in (start, end)]
        return said[0] if start == end else " → ".join(said)

    facts = [
        (_done(result), f"{count(len(_touched(result)))} of {counted(len(result.weights), 'component')}"),
        ("biology lost, all plates", percent(result.biology_lost)),
        ("budget", percent(result.budget)),
        ("plate AUROC, half against half", from_to("plate_auroc")),
        ("replicate mAP, half against half", from_to("replicate_map")),
        ("roles", _roles(result)),
    ]
    badge, tone = VERDICTS.get(result.verdict, (one_line(result.verdict), "caution"))
    return screen_card(result, badge, tone, facts)


def _roles(result: Cleaning) -> str:
    """Those of the components that refits find again."""
    attribution = result.attribution
    kept = [card for card in attribution.components if card.index not in attribution.refused]
    refused = len(attribution.refused)
    left = [f"{count(refused)} not reproducible"] if refused else []
    return ", ".join([*filter(None, [role_words(kept)]), *left]) or MISSING


def _done(result: Cleaning) -> str:
    return "dropped" if result.method == "drop" else "shrunk"


def _touched(result: Cleaning) -> list[int]:
    """The components that were dropped or shrunk."""
    return [i for i, weight in enumerate(result.weights) if known(weight) and weight < 1]


# -- cleaned against input


def _checks(result: Cleaning) -> Iterator[Block]:
    """Metrics of biology in the table as it came and in the cleaned one; then the differences, with the margin."""
    margin = result.settings.get("margin")
    judged = {False: AS_WRITTEN, True: f"{plural(str(result.settings.get('held_out', 'batch')))} not used to choose"}
    lines = tuple(
        (
            f"{_metric_name(c.metric)} {'↑' if c.better == 'high' else '↓'}",
            judged[c.held_out] + ("" if c.scaled else OWN_UNITS),
            number(c.input),
            number(c.cleaned),
            estimate(c.difference, c.ci95, signed),
        )
        for c in result.checks
    )
    if not lines:
        return
    yield Table(
        f"All wells with a possible answer. Every feature in standard deviations of its own table (unless it says{OWN_UNITS}); ↑ higher is "
        "better, ↓ lower is better. Replicate mAP here: replicates among the controls of their own batch",
        columns("metric", "judged on", "input", "cleaned", "difference [95 %]", words=("metric", "judged on")),
        lines,
        brief=True,
    )
    limit = f" More than {number(margin, 2)} to the left, the table is not written." if known(margin) else ""
    for held_out, where in judged.items():
        rows = tuple(
            DotRow(_metric_name(c.metric), signed(c.difference), marks(("main", c.difference)), interval=c.ci95)
            for c in result.checks
            if c.held_out == held_out and c.scaled and c.better == "high" and known(c.difference)
        )
        if rows:
            yield Dots(
                f"Cleaned minus input: {where}",
                f"To the right of 0, biology is found better in the cleaned table.{limit}",
                "difference",
                rows,
                (("main", "difference"), ("whisker", "95 % interval, batches left out in turn")),
                NO_DIFFERENCE,
                span=True,
            )


# -- the trade-off


def _point(result: Cleaning, space: str, removed: int) -> CleanPoint | None:
    return next((p for p in result.curve if (p.space, p.removed) == (space, removed)), None)


def _before(result: Cleaning) -> CleanPoint | None:
    """The space with nothing removed, which is the same for all."""
    return next((p for p in result.curve if p.removed == 0), None)


def space_name(space: str) -> str:
    return named({**SPACES, **OTHER_SPACES}, space)


def _trade_off(result: Cleaning) -> Iterator[Block]:
    yield from _chosen(result)
    yield from _curves(result)
    yield from _gains(result)
    sizes = sorted({p.removed for p in result.curve})
    points = (_point(result, space, size) for size in sizes for space in SPACES)
    heads = ("space", "plate AUROC", "replicate mAP", "95 % interval", "biology lost")
    table = Table(
        "Spaces at the same number of axes removed",
        (Column("axes removed"), *columns(*heads)),
        tuple((count(p.removed), space_name(p.space), *_cells(p)) for p in points if p is not None),
    )
    yield from [Fold("The trade-off as numbers", tuple(long_table(table, "line")))] if table.rows else []


def _cells(point: CleanPoint | None) -> tuple[str, ...]:
    if point is None:
        return (MISSING,) * 4
    auroc, precision = number(point.plate_auroc), number(point.replicate_map)
    return auroc, precision, interval(point.replicate_map_ci95), percent(point.biology_lost)


def _chosen(result: Cleaning) -> Iterator[Block]:
    """The chosen number of axes removed, of ICA and of the other spaces, with the paired difference to each."""
    gains: dict[str, str] = {
        d.against: estimate(d.difference, d.ci95, signed) for d in result.differences if known(d.difference)
    }
    removed = len(result.removed)
    at = {"whole": _before(result), **({space: _point(result, space, removed) for space in SPACES} if removed else {})}
    lines = tuple(
        (space_name(space), *_cells(point), gains.get(space, MISSING))
        for space, point in at.items()
        if point is not None or space in gains
    )
    if lines:
        yield Table(
            f"Axes removed from each space: {count(removed)}, chosen on one half of the plates and judged on the other. "
            "Replicate mAP here: mean over the wells of both halves, among the controls of their half. ICA - this: its paired difference",
            columns("space", "plate AUROC", "replicate mAP", "95 % interval", "biology lost", "ICA - this [95 %]"),
            lines,
            brief=True,
        )


def _curves(result: Cleaning) -> Iterator[Block]:
    curves = {space: _placed([p for p in result.curve if p.space == space]) for space in SPACES}
    drawn = {space: points for space, points in curves.items() if points}
    if not drawn:
        return
    picked = _placed([_point(result, "ica", len(result.removed))]) if result.removed else ()
    label = f"chosen: {counted(len(result.removed), 'component')} removed"
    lowest = min(y for points in drawn.values() for _, y in points)
    yield Curves(
        "What is left of plate effects and of biology as axes are removed",
        "Each dot is a number of axes removed; lines start at the right with none. Up and left is better.",
        "plate AUROC (0.5: plates cannot be separated)",
        "replicate mAP",
        tuple(Curve(f"{SPACES[space]} axes removed", points, STYLES[space], False) for space, points in drawn.items()),
        clouds=(
            *(Cloud("", points, "main", STYLES[space]) for space, points in drawn.items()),
            *([Cloud(label, picked, "hollow")] if picked else []),
        ),
        base=math.floor(20 * lowest) / 20,
        across_base=0.5,
    )


def _placed(points: Sequence[CleanPoint | None]) -> tuple[Interval, ...]:
    """The points that can be drawn (both numbers are shares), by the number of axes removed."""
    found = sorted((p for p in points if p is not None), key=lambda p: p.removed)
    placed = ((p.plate_auroc, p.replicate_map) for p in found)
    return tuple((x, y) for x, y in placed if 0 <= x <= 1 and -1 <= y <= 1)


def _gains(result: Cleaning) -> Iterator[Block]:
    """Paired differences of replicate mAP, with the line of no difference."""
    rows = tuple(
        DotRow(
            f"ICA - {space_name(d.against).removesuffix(' cleaning')}",
            signed(d.difference),
            marks(("main", d.difference)),
            interval=d.ci95,
        )
        for d in result.differences
        if known(d.difference)
    )
    if rows:
        yield Dots(
            "Replicate mAP of the cleaned ICA space minus that of the others",
            "To the right of 0, the cleaned ICA space is better. PCA and Rand have as many axes removed; before cleaning has none.",
            "difference in replicate mAP",
            rows,
            (("main", "difference"), ("whisker", "95 % interval, plates held out in turn")),
            NO_DIFFERENCE,
            span=True,
        )


# -- what was removed, and metrics


def _removed(result: Cleaning) -> Iterator[Block]:
    cards = {card.index: card for card in result.attribution.components}
    places = list(dict.fromkeys((*result.removed, *_touched(result))))
    ordered = [card.index for card in ranked((cards[i] for i in places if i in cards), "technical")]

    def line(index: int) -> tuple[str, ...]:
        weight = number(result.weights[index], 2) if 0 <= index < len(result.weights) else MISSING
        if (card := cards.get(index)) is None:
            return (str(index), MISSING, weight, MISSING, MISSING, MISSING)
        role = one_line(card.role) + (", not reproducible" if index in result.attribution.refused else "")
        return (str(index), role, weight, fixed(card.technical), fixed(card.biological), mostly(card))

    if not places:
        yield Text("No component was removed.")
    if refused := len(set(places) & set(result.attribution.refused)):
        yield Text(
            f"{count(refused)} of these {'is' if refused == 1 else 'are'} not reproducible one by one: refits find others. "
            "What is judged is the table without all of them, on plates that were not used to choose.",
            brief=True,
            note=True,
        )
    total = f"{count(len(_touched(result)))} of {counted(len(result.weights), 'component')}"
    table = Table(
        f"{_done(result).capitalize()}: {total}, the most technical first; weight 0 is dropped, 1 kept",
        columns("component", "role", "weight", "technical", "biological", "mostly", words=("role", "mostly")),
        tuple(map(line, (*ordered, *(i for i in places if i not in cards)))),
        brief=True,
    )
    yield from long_table(table, "component")


def _metrics(result: Cleaning) -> Iterator[Block]:
    """Metrics down, spaces across."""
    spaces = list(dict.fromkeys(m.space for m in result.metrics))
    rows: dict[str, dict[str, SpaceMetric]] = {}
    notes: dict[str, str] = {}
    for m in result.metrics:
        same = " =" if m.rotation_invariant else ""
        label = f"{_metric_name(m.metric)} {'↑' if m.better == 'high' else '↓'}{same}"
        rows.setdefault(label, {}).setdefault(m.space, m)
        if m.note:
            notes.setdefault(one_line(m.note), _metric_name(m.metric))
    heads = (f"{space_name(space)}, cleaned" if space in SPACES else space_name(space) for space in spaces)
    if rows:
        yield Table(
            "On one half of the plates, axes chosen on the other; ↑ higher is better, ↓ lower is better, = the same for every rotation; "
            "[95 % interval]. Replicate mAP here: mean over perturbations",
            columns("metric", *heads),
            tuple(
                (label, *(estimate(of[s].value, of[s].ci95) if s in of else MISSING for s in spaces))
                for label, of in rows.items()
            ),
            brief=True,
        )
    yield from (Text(f"{name[0].upper()}{name[1:]}: {note}", note=True) for note, name in notes.items())


def _metric_name(metric: str) -> str:
    return named({**RETRIEVAL, **{key: name for key, (name, _) in METRICS.items()}}, metric)


# -- files


def _outputs(result: Cleaning) -> Iterator[Block]:
    if result.outputs:
        files = tuple((one_line(path),) for path in result.outputs)
        yield Table("Files", (Column("file", "code"),), files, brief=True)
    if not result.harmless and not result.outputs:
        yield Text(
            "No cleaned table was written. Use the input; to write the cleaned table all the same, pass --force.",
            brief=True,
        )
        return
    helps = result.verdict == "ica-cleaning-helps"
    if not result.removed:
        yield Text("Nothing was removed: the table that is written is the input.", brief=True)
        return
    if not helps:
        yield Text("The cleaned table gains nothing over the input. Use the input, on new plates too.", brief=True)
    saved = any(path.endswith(BASIS) for path in result.outputs)
    keep = "" if saved else f" To keep the map, run the command again with --save-basis {UNSAVED}."
    yield Text(
        f"New plates need no refit and no batch label: the same map is applied to their rows.{keep}", brief=helps
    )
    yield Code("On new plates", apply_command(result), brief=helps)


def apply_command(result: Cleaning) -> str:
    """How the same cleaning is applied to new plates."""
    basis = next((path for path in result.outputs if path.endswith(BASIS)), UNSAVED)
    return f"identifiable transform {shlex.quote(one_line(basis))} new_plates.parquet -o new_clean.parquet"
