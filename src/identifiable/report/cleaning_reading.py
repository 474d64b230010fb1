"""What pages and terminal tables of `deconfound attribute` and `deconfound clean` both say."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from identifiable.report.pages.components import stability_cell
from identifiable.report.screen_evaluation_reading import change
from identifiable.report.screen_methods import NEW_PLATES, factor_name, metric_name, space_name
from identifiable.report.screen_reading import estimate, some
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    interval,
    known,
    number,
    one_line,
    percent,
    probability,
    yes_no,
)
from identifiable.results import (
    Attribution,
    Cleaning,
    CleanPoint,
    ComponentCard,
    ComponentRole,
    Share,
    SpaceMetric,
)
from identifiable.results.cleaning import CleanDifference

ROLES: tuple[ComponentRole, ...] = ("technical", "biological", "both", "neither")
SPACES = ("ica", "pca", "rand")
TOP_SHOWN = 10
NAME = 30
CLEAR = 0.05  # a q-value below it is said

COMPONENT_HEADS = (
    "component",
    "role",
    "technical",
    "biological",
    "mostly",
    "moved most by",
    "stability",
    "reproducible",
)
SCORE_HEADS = ("score", "share of variance", "95 % interval", "q")
SHARE_HEADS = ("factor", "share of variance", "p", "q")
TOP_HEADS = ("perturbation", "effect", "wells", "p", "q")
REMOVED_HEADS = ("component", "role", "weight", "technical", "biological", "mostly")
CURVE_HEADS = ("plate AUROC", "replicate mAP", "95 % interval", "biology lost")
BASIS = ".safetensors"
SPREAD = "spread"  # of wells, not of their values: no share of the same variance
UNSAVED = "cleaning.safetensors"


# -- components


def by_technical(components: Sequence[ComponentCard]) -> list[ComponentCard]:
    """The most technical first; those without a score last."""
    return sorted(
        components, key=lambda c: (not known(c.technical), -c.technical if known(c.technical) else 0.0, c.index)
    )


def by_biological(components: Sequence[ComponentCard]) -> list[ComponentCard]:
    return sorted(
        components, key=lambda c: (not known(c.biological), -c.biological if known(c.biological) else 0.0, c.index)
    )


def role_counts(result: Attribution) -> list[tuple[str, int]]:
    return [(role, len(result.of_role(role))) for role in ROLES]


def role_words(result: Attribution) -> str:
    """'12 technical, 30 biological, 2 both, 4 neither'."""
    return ", ".join(f"{count(size)} {role}" for role, size in role_counts(result))


def reproducible_words(result: Attribution) -> str:
    return f"{count(sum(c.identifiable for c in result.components))} of {count(len(result.components))}"


def largest_share(card: ComponentCard) -> Share | None:
    """The factor that explains most, if any explains something."""
    explained = [s for s in card.shares if known(s.share) and s.share > 0 and s.factor != SPREAD]
    return max(explained, key=lambda s: s.share, default=None)


def mostly(card: ComponentCard) -> str:
    found = largest_share(card)
    return MISSING if found is None else f"{factor_name(found.factor)} {fixed(found.share, 2)}"


def moved_by(card: ComponentCard, most: int = 2) -> str:
    """The perturbations that clearly move a component, the strongest first; where none does, the strongest with its q."""
    clear = [t for t in card.top if known(t.q) and t.q < CLEAR]
    if not clear and card.role in ("biological", "both") and card.top and known(card.top[0].q):
        first = card.top[0]
        return f"{clip(one_line(first.name), NAME)} {effect(first.effect, 2)} (q {number(first.q)})"
    return ", ".join(f"{clip(one_line(t.name), NAME)} {effect(t.effect, 2)}" for t in clear[:most]) or MISSING


def fixed(value: float, decimals: int = 3) -> str:
    """A score of about 0 to 1, always with the same decimals: beside 0.620 a 0.0004 is 0.000."""
    if not known(value) or abs(value) >= 100:
        return number(value)
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0 makes of -0 a plain 0


def effect(value: float, decimals: int = 3) -> str:
    """A shift with its sign."""
    return f"{'+' if known(value) and value > 0 else ''}{fixed(value, decimals)}"


def component_line(card: ComponentCard) -> tuple[str, ...]:
    return (
        str(card.index),
        one_line(card.role),
        fixed(card.technical),
        fixed(card.biological),
        mostly(card),
        moved_by(card),
        stability_cell(card.stability),
        yes_no(card.identifiable),
    )


def card_summary(card: ComponentCard) -> str:
    """A component in one line; its role, where the two scores do not say it."""
    role = "" if card.role in ("technical", "biological") else f" ({one_line(card.role)})"
    said = f"Component {card.index}{role}: technical {fixed(card.technical, 2)}, biological {fixed(card.biological, 2)}"
    found, moved = mostly(card), moved_by(card)
    said += f", mostly {found}" if found != MISSING else ""
    return said + (f"; moved by {moved}" if moved != MISSING else "")


def score_lines(card: ComponentCard) -> list[tuple[str, ...]]:
    """The two scores of a component, with intervals and q-values."""
    return [
        ("technical", fixed(card.technical), interval(card.technical_ci95), probability(card.technical_q)),
        ("biological", fixed(card.biological), interval(card.biological_ci95), probability(card.biological_q)),
    ]


def share_line(share: Share) -> tuple[str, ...]:
    return factor_name(share.factor), fixed(share.share), probability(share.p), probability(share.q)


def top_lines(card: ComponentCard) -> list[tuple[str, ...]]:
    return [
        (clip(one_line(t.name), NAME), effect(t.effect), count(t.wells), probability(t.p), probability(t.q))
        for t in card.top[:TOP_SHOWN]
    ]


# -- cleaning


def point_of(result: Cleaning, space: str, removed: int) -> CleanPoint | None:
    return next((p for p in result.curve if (p.space, p.removed) == (space, removed)), None)


def points(result: Cleaning, space: str) -> list[CleanPoint]:
    return sorted((p for p in result.curve if p.space == space), key=lambda p: p.removed)


def before(result: Cleaning) -> CleanPoint | None:
    """The space with nothing removed, which is the same for all."""
    return next((p for p in result.curve if p.removed == 0), None)


def chosen(result: Cleaning, space: str = "ica") -> CleanPoint | None:
    """What was chosen, or in another space as many axes removed."""
    return point_of(result, space, len(result.removed))


def touched(result: Cleaning) -> list[int]:
    """Components that were dropped or shrunk."""
    return [i for i, weight in enumerate(result.weights) if known(weight) and weight < 1]


def done(result: Cleaning) -> str:
    return "dropped" if result.method == "drop" else "shrunk"


def share_words(result: Cleaning) -> str:
    """'12 of 48'."""
    return f"{count(len(touched(result)))} of {count(len(result.weights))}"


def removed_words(result: Cleaning) -> str:
    """'Dropped: 12 of 48 components'."""
    return f"{done(result).capitalize()}: {share_words(result)} {'component' if len(result.weights) == 1 else 'components'}"


def cost_words(result: Cleaning) -> str:
    """What cleaning took out and what it cost, beside the other spaces; empty where it was not measured."""
    start = before(result)
    found = [(space, p) for space in SPACES if (p := chosen(result, space)) is not None and known(p.replicate_map)]
    if start is None or not found or not result.removed:
        return ""
    said = "; ".join(
        f"{space_name(space)} {number(p.plate_auroc)} and {estimate(p.replicate_map, p.replicate_map_ci95)}"
        for space, p in found
    )
    axes = f"{count(len(result.removed))} {'axis' if len(result.removed) == 1 else 'axes'}"
    return f"Plate AUROC {number(start.plate_auroc)} and replicate mAP {number(start.replicate_map)} before. With {axes} removed: {said}."


def gains(result: Cleaning) -> list[CleanDifference]:
    """Paired differences that were measured."""
    return [d for d in result.differences if known(d.difference)]


def gain_name(found: CleanDifference) -> str:
    """What ICA with the chosen axes removed is held against."""
    return f"ICA - {space_name(found.against).removesuffix(' cleaning')}"


def gain_words(result: Cleaning) -> str:
    """Paired differences of replicate mAP in words; empty where there are none."""
    said = "; ".join(f"{gain_name(d)} {change(d.difference, d.ci95)}" for d in gains(result))
    return f"Replicate mAP, paired: {said}." if said else ""


def removed_lines(result: Cleaning) -> list[tuple[str, ...]]:
    """Every component that was dropped or shrunk, the most technical first."""
    cards = {card.index: card for card in result.attribution.components}
    places = list(dict.fromkeys((*result.removed, *touched(result))))
    ordered = [card.index for card in by_technical([cards[i] for i in places if i in cards])]
    lines: list[tuple[str, ...]] = []
    for index in (*ordered, *(i for i in places if i not in cards)):
        card = cards.get(index)
        weight = result.weights[index] if 0 <= index < len(result.weights) else float("nan")
        about = (
            (one_line(card.role), number(weight, 2), fixed(card.technical), fixed(card.biological), mostly(card))
            if card is not None
            else (MISSING, number(weight, 2), MISSING, MISSING, MISSING)
        )
        lines.append((str(index), *about))
    return lines


def curve_lines(result: Cleaning) -> list[tuple[str, ...]]:
    """Spaces side by side at the same number of axes removed."""
    sizes = sorted({p.removed for p in result.curve})
    spaces = [space for space in SPACES if points(result, space)]
    return [
        (count(size), space_name(space), *_point(point))
        for size in sizes
        for space in spaces
        if (point := point_of(result, space, size)) is not None
    ]


def _point(point: CleanPoint) -> tuple[str, ...]:
    return (
        number(point.plate_auroc),
        number(point.replicate_map),
        interval(point.replicate_map_ci95),
        percent(point.biology_lost),
    )


def metric_spaces(result: Cleaning) -> list[str]:
    """The spaces that were measured, in their order."""
    return list(dict.fromkeys(m.space for m in result.metrics))


def metric_space_name(space: str) -> str:
    """A space as it heads a column of metrics: those of axes are cleaned ones."""
    return f"{space_name(space)}, cleaned" if space in SPACES else space_name(space)


def metric_label(metric: SpaceMetric) -> str:
    """The name of a metric with its marks: better high or low, the same for all rotations."""
    same = " =" if metric.rotation_invariant else ""
    return f"{metric_name(metric.metric)} {'↑' if metric.better == 'high' else '↓'}{same}"


def metric_lines(result: Cleaning) -> list[tuple[str, ...]]:
    """Metrics down, spaces across."""
    spaces = metric_spaces(result)
    rows: dict[str, dict[str, SpaceMetric]] = {}
    for metric in result.metrics:
        rows.setdefault(metric_label(metric), {}).setdefault(metric.space, metric)
    return [
        (label, *(estimate(found[s].value, found[s].ci95) if s in found else MISSING for s in spaces))
        for label, found in rows.items()
    ]


def metric_notes(result: Cleaning) -> list[str]:
    """What was noted of metrics, each note once."""
    notes: dict[str, str] = {}
    for m in result.metrics:
        if m.note:
            notes.setdefault(one_line(m.note), metric_name(m.metric))
    return [f"{name[0].upper()}{name[1:]}: {note}" for note, name in notes.items()]


def outputs_words(result: Cleaning) -> str:
    return f"Written: {some(result.outputs, 10)}." if result.outputs else ""


def apply_command(result: Cleaning) -> str:
    """How the same cleaning is applied to plates of tomorrow."""
    basis = next((path for path in result.outputs if path.endswith(BASIS)), UNSAVED)
    return f"identifiable transform {shlex.quote(one_line(basis))} new_plates.parquet -o new_clean.parquet"


def apply_words(result: Cleaning) -> str:
    """What it takes to clean new plates."""
    if any(path.endswith(BASIS) for path in result.outputs):
        return NEW_PLATES
    return f"{NEW_PLATES} To keep that map, clean again with --save-basis {UNSAVED}."
