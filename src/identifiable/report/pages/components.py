"""Components in words and tables: shared by the page of one model and the page of a joint resolution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from identifiable.report.messages import Extent, message, wordings
from identifiable.report.page import Badge, Block, Fold, Gauge, Hint, Picture, Spark, Table, Text, Tone, columns
from identifiable.report.words import (
    MISSING,
    beside,
    clip,
    count,
    counted,
    known,
    number,
    one_line,
    percent,
    plus_minus,
    probability,
    share,
    short,
    yes_no,
)
from identifiable.results import Component, Reason, Resolution

Settings = Mapping[str, Any]

PICTURED = 40  # components with pictures; the others are numbers, folded away
COMPONENTS_LISTED = 2000  # beyond it a page would not travel by mail
NAMED = 12  # places written out before "and so many more"
CLEAR = 2  # standard errors from 0 at which a skew or a kurtosis is put into words

GISTS = {  # a reason in a few words, which keep a line of the table one line high
    "gaussian": "Gaussian",
    "match_by_chance": "could be chance",
    "no_partner": "no partner",
    "not_refitted": "not refitted",
    "not_reproducible": "not reproducible",
    "not_settled": "not settled",
    "one_row": "one row",
    "refits_differ": "refits differ",
    "sign_uncertain": "sign uncertain",
    "uncertain_direction": "uncertain direction",
    "weak_match": "weak match",
}

SIGNS = {"skew": "skew", "loading": "largest loading"}


def limit(settings: Settings, name: str) -> float | None:
    """The limit of that name; None in results that do not record it."""
    limits = settings.get("limits")
    return recorded(limits.get(name)) if isinstance(limits, Mapping) else None


def recorded(value: Any) -> float | None:
    """`value` if it is a number: settings are free-form."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and known(value) else None


def reproducible_limits(settings: Settings) -> str:
    """One sentence with every limit that the settings record; empty if there is none."""
    mean, worst = limit(settings, "stability"), limit(settings, "stability_min")
    level, angle = limit(settings, "gaussian_level"), limit(settings, "angle_se")
    residual, row = limit(settings, "residual"), limit(settings, "variance_in_one_row")
    parts = []
    if mean is not None and worst is not None:
        parts.append(f"refits on halves find it at mean |r| ≥ {short(mean)}, worst ≥ {short(worst)}")
    margin = limit(settings, "unseen_margin")
    if margin is not None:
        parts.append(f"on rows not fitted to, curvature with every other ≥ {short(margin)} standard errors")
    if angle is not None:
        parts.append(f"angle error ≤ {short(angle)} rad")
    if level is not None:
        parts.append(f"not Gaussian (p < {short(level)}) or the only one that is")
    if row is not None:
        parts.append(f"≤ {percent(row)} of its variance in one row")
    if residual is not None:
        parts.append(f"still to turn ≤ {short(residual)} rad")
    return f"What is asked of a reproducible component: {'; '.join([*parts, 'sign certain'])}." if parts else ""


def tone(reproducible: bool) -> Tone:
    return "good" if reproducible else "caution"


def has_stability(components: Iterable[Component]) -> bool:
    """Whether any component was refitted."""
    return any(known(c.stability) for c in components)


def shape(component: Component) -> str:
    """The density in words: its tails and its lean, where they differ clearly from a Gaussian's."""
    lean, tail = component.skew, component.kurtosis
    if not (known(tail) and known(component.kurtosis_se)):
        tails = "tails too heavy to measure"
    elif tail > CLEAR * component.kurtosis_se:
        tails = "heavier tails"
    elif tail < -CLEAR * component.kurtosis_se:
        tails = "lighter tails"
    else:
        tails = "tails as a Gaussian"
    if not (known(lean) and known(component.skew_se)) or abs(lean) <= CLEAR * component.skew_se:
        return tails
    return f"{tails}, leaning {'right' if lean > 0 else 'left'}"


def stability_cell(value: float | None) -> str:
    """A stability, never rounded up to perfect agreement."""
    return beside(value, 1.0)


def reasons(components: Iterable[Component]) -> list[tuple[str, list[Component]]]:
    """Components by why they are called what they are, the most frequent reason first."""
    kinds: dict[str, list[Component]] = {}
    for component in components:
        kinds.setdefault(component.reason.code, []).append(component)
    found = [(_common([c.reason for c in m]) or f"{MISSING} (no reason recorded)", m) for m in kinds.values()]
    return sorted(found, key=lambda item: -len(item[1]))


def _common(several: Sequence[Reason]) -> str:
    """What reasons of one code say together: each number from its lowest to its highest."""
    first, texts = several[0], {one_line(reason.message) for reason in several}
    if len(texts) == 1:
        return texts.pop()
    if first.code not in wordings("Reason"):  # of an older version, which has words only
        return f"{one_line(first.message)}; and others"
    extent: dict[str, Extent] = {}
    for name in first.values.keys() - {"component"}:  # its number is a name, of which a range would say nothing
        found = [reason.values[name] for reason in several if recorded(reason.values.get(name)) is not None]
        extent |= {name: Extent(min(found), max(found))} if found else {}
    return one_line(message("Reason", first.code, extent))


def gist(reason: Reason) -> str:
    """A reason in a few words; the table of reasons has it whole."""
    if reason.code.startswith("turns_into") and "component" in reason.values:
        return f"turns into {one_line(str(reason.values['component']))}"
    return GISTS.get(reason.code) or clip(one_line(reason.message), 20)


def named(components: Sequence[Component]) -> str:
    """'0, 4, 7 and 12 more'."""
    first = ", ".join(str(c.index) for c in components[:NAMED])
    left = len(components) - NAMED
    return f"{first} and {count(left)} more" if left > 0 else first


def span(components: Sequence[Component]) -> str:
    """'Component 0', or 'Components 0 to 39'."""
    first, last = components[0].index, components[-1].index
    return f"Component {first}" if first == last else f"Components {first} to {last}"


def component_blocks(result: Resolution, pictured: int = PICTURED, *, brief: bool = False) -> Iterator[Block]:
    """The first components with pictures, the others folded away; `brief` marks the first for the command line."""
    components = result.components
    if not components:
        yield Text("No component was found: the representation does not vary.", brief=brief)
        return
    first, rest = components[:pictured], components[pictured:COMPONENTS_LISTED]
    yield _table(first, result.settings, result.density_edges, brief=brief)
    if rest:
        good = f"{count(sum(c.identifiable for c in rest))} of {count(len(rest))} reproducible"
        yield Fold(f"{span(rest)}: {good}", (_table(rest, result.settings),), brief=brief)
    if len(components) > COMPONENTS_LISTED:
        left = counted(len(components) - COMPONENTS_LISTED, "further component")
        yield Text(f"In the JSON result: {left}.", note=True)


def margins(settings: Settings) -> str:
    """What curvature and angle error are, and the limit of the second."""
    most = limit(settings, "angle_se")
    kept = f", at most {short(most)} to be reproducible" if most is not None else ""
    return (
        "Curvature: the margin of Theorem 2 over pairs with another component, where 0 is flat. Angle error: standard error "
        f"of the direction in radians{kept}."
    )


def _table(
    components: Sequence[Component], settings: Settings, edges: Sequence[float] = (), *, brief: bool = False
) -> Table:
    """One line per component; with `edges`, each with its histogram, its bar and its badge."""
    pictures: dict[int, tuple[Picture | None, ...]] = {}
    if edges:
        pictures = {
            1: tuple(Badge(tone(c.identifiable)) for c in components),
            2: tuple(None if c.identifiable else Hint(one_line(c.reason.message)) for c in components),
            3: tuple(spark(c.density, edges) for c in components),
            4: tuple(_gauge(c) for c in components),
        }
    words = ("reproducible", "why not", "density")
    return Table(
        f"{span(components)}. {margins(settings)}",
        columns(
            "comp.", *words, "stability", "variance", "negentropy", "curvature", "angle error",
            words=words, hidden=("density",),
        ),
        tuple(map(_line, components)),
        pictures=pictures,
        brief=brief,
    )  # fmt: skip


def _line(component: Component) -> tuple[str, ...]:
    return (
        str(component.index),
        yes_no(component.identifiable),
        "" if component.identifiable else gist(component.reason),
        shape(component),
        stability_cell(component.stability),
        share(component.variance),
        number(component.negentropy),
        number(component.curvature),
        number(component.angle_se, 4),
    )


def spark(density: Sequence[float], edges: Sequence[float]) -> Spark | None:
    """A histogram, where there is one to draw."""
    drawable = (
        len(density) > 0
        and len(edges) == len(density) + 1
        and all(known(v) and v >= 0 for v in density)
        and all(map(known, edges))
        and all(low < high for low, high in pairwise(edges))
    )
    return Spark(tuple(density), tuple(edges)) if drawable else None


def _gauge(component: Component) -> Gauge | None:
    value = component.stability
    return None if value is None or not known(value) else Gauge(value, tone(component.identifiable))


def reason_table(components: Sequence[Component], *, brief: bool = False) -> Iterator[Block]:
    """What the verdicts rest on and for which components, those against a component first."""
    judged = [
        (reason, yes_no(verdict), count(len(members)), named(members))
        for verdict in (False, True)
        for reason, members in reasons(c for c in components if c.identifiable == verdict)
    ]
    if judged:
        heads = columns("reason", "reproducible", "components", "which", words=("reproducible", "which"))
        caption = "Reasons of the verdicts: the first objection to each component; numbers from lowest to highest"
        yield Table(caption, heads, tuple(judged), brief=brief)


def details(components: Sequence[Component]) -> Iterator[Block]:
    """The numbers of each component that the first table leaves out."""
    shown = components[:COMPONENTS_LISTED]
    if not shown:
        return
    shapes = Table(
        "± one standard error, where rows differ enough to give one. Negentropy is an index: near its value close to a "
        "Gaussian, too large far from one. Gaussian p: the test allows for the choice of the direction",
        columns("component", "negentropy (index)", "skew", "kurtosis", "Gaussian p"),
        tuple(
            (
                str(c.index),
                plus_minus(c.negentropy, c.negentropy_se),
                plus_minus(c.skew, c.skew_se),
                plus_minus(c.kurtosis, c.kurtosis_se),
                probability(c.gaussian_p),
            )
            for c in shown
        ),
    )
    heads = ("sign fixed by", "hardest pair", "worst refit", "sign kept", "places it may take", "still to turn")
    order = Table(
        "Hardest pair: where the curvature is smallest. Worst refit: smallest |correlation| with a partner. Sign kept: in "
        "every refit that finds it. Places: those its key allows, to three standard errors. Still to turn: radians of the "
        "next step of the solver",
        columns("component", *heads, words=("sign fixed by",)),
        tuple(
            (
                str(c.index),
                SIGNS.get(c.sign, one_line(c.sign)),
                MISSING if c.hardest is None else f"with {c.hardest}",
                stability_cell(c.stability_min),
                yes_no(c.sign_kept),
                " to ".join(map(str, dict.fromkeys(c.places))),
                number(c.residual),
            )
            for c in shown
        ),
    )
    yield Fold("Shape of each component: negentropy, skew and kurtosis with standard errors", (shapes,))
    yield Fold("Sign, order and convergence of each component", (order,))
