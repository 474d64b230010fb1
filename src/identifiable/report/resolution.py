"""What the page of `resolve` says: `Resolution` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from identifiable.report.components import component_blocks, details, has_stability, reason_table, tone
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form, thinned
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Column,
    Curve,
    Curves,
    Heading,
    Page,
    Section,
    Table,
    Text,
)
from identifiable.report.resolution_methods import bibtex, how_to_read, paragraphs
from identifiable.report.rules import limit, reproducible_rule
from identifiable.report.words import (
    EFFECTIVE_RANK,
    count,
    counted,
    display_name,
    known,
    number,
    one_line,
    percent,
    ratio,
    short,
    significant,
    yes_no,
)
from identifiable.results import Component, Resolution, Start, Step

GUIDE = (
    "A component is called reproducible if other rows and another start would give it again, within its error. "
    "Components are numbered from 0, in the order of the columns that transform writes."
)
NO_REFITS = (
    "No refits were made, so there is no stability, and without it no component is called reproducible. Ask for refits with "
    "--stability."
)
ONE_START = "Only one start was made, so nothing here speaks for or against a better optimum elsewhere; ask for more with --restarts."
PAIRS_LISTED = 60
STARTS_LISTED = 60
CURVE_POINTS = 240

Figure = Callable[[Component], float | None]


def resolution_page(result: Resolution) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    sections = [
        Section("verdict", "Verdict", (resolution_card(saved), *rule_note(saved), *reason_table(saved.components))),
        alerts_section(saved, well=mostly(saved.identifiable, saved.components)),
        _components(saved),
        _trust(saved),
        _pairs(saved),
        _convergence(saved),
        _rank(saved),
        how_to_read(saved),
        reproduction(saved, paragraphs(saved), bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{one_line(saved.inputs[0].name)}: independent components",
        subtitle="Which directions of this representation are determined by the data, and which could as well be others?",
        guide=GUIDE,
    )


def resolution_card(result: Resolution) -> Card:
    """The headline, and the figures behind it."""
    table = result.inputs[0]
    facts = [
        ("rank", f"{count(result.rank)} of {count(table.d)}"),
        ("effective rank", number(result.whitening.effective_rank, 1)),
        ("starts", count(len(result.starts))),
        ("unresolved pairs", count(result.unresolved_pairs)),
        ("rows n", count(table.n)),
        ("n / d", ratio(table.n, table.d)),
    ]
    reached = tone(result.converged and mostly(result.identifiable, result.components))
    return Card(display_name(table.name), converged(result), f"{headline(result)}.", reached, tuple(facts))


def headline(result: Resolution) -> str:
    """The headline, with thousands apart as everywhere on the page."""
    return re.sub(r"\d+", lambda digits: count(int(digits[0])), result.headline)


def mostly(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether `part` is at least half of `whole`, and something."""
    return 0 < len(whole) <= 2 * len(part)


def rule_note(result: Resolution) -> list[Block]:
    """What it takes to be called reproducible, where the result records it."""
    rule = reproducible_rule(result.settings)
    return [Text(rule, note=True)] if rule else []


def converged(result: Resolution) -> str:
    return "converged" if result.converged else "NOT converged"


def _components(result: Resolution) -> Section:
    blocks: list[Block] = []
    if result.components and not has_stability(result.components):
        blocks.append(Text(NO_REFITS))
    blocks += [*component_blocks(result), *details(result.components)]
    return Section("components", "Components", tuple(blocks))


def _trust(result: Resolution) -> Section:
    """Where the reproducible components lie among all, in two pictures."""
    needed = limit(result.settings, "stability")
    blocks = [
        *_scatter(
            result.components,
            Curves(
                "Stability against negentropy",
                "One point per component. The further from a Gaussian (right), the easier it is to find again; a point low "
                "on the right is non-Gaussian, but mixes with another component. The index overstates negentropy far from a "
                "Gaussian.",
                "negentropy (index)",
                "stability: mean |correlation| between refits",
                log_across=True,
                top=1.0,
                threshold=None if needed is None else (f"{short(needed)} is needed", needed),
            ),
            lambda c: c.negentropy,
            lambda c: c.stability,
        ),
        *_scatter(
            result.components,
            Curves(
                "Curvature margin",
                "One point per component: the smallest curvature of the contrast over its pairs with the others. At 0 the "
                "component can be turned into another one for nothing.",
                "component",
                "curvature margin",
            ),
            lambda c: float(c.index),
            lambda c: c.curvature,
        ),
    ]
    return Section("trust", "How far to trust them", tuple(blocks))


def _scatter(components: Sequence[Component], frame: Curves, across: Figure, up: Figure) -> list[Block]:
    """`frame` with a point for every component that has both figures; those that have not are counted."""
    points: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for component in components:
        x, y = across(component), up(component)
        if x is not None and y is not None and known(x) and known(y) and (x > 0 or not frame.log_across):
            points[component.identifiable].append((x, y))
    clouds = (
        Cloud("reproducible", tuple(points[True]), "main"),
        Cloud("not reproducible", tuple(points[False]), "hollow"),
    )
    drawn = tuple(cloud for cloud in clouds if cloud.points)
    if not drawn:
        return []
    left = len(components) - sum(len(cloud.points) for cloud in drawn)
    missing = f" Left out, as a figure is missing: {count(left)}." if left else ""
    return [replace(frame, clouds=drawn, description=frame.description + missing)]


def _rank(result: Resolution) -> Section:
    found = result.whitening
    spectrum = found.spectrum
    blocks: list[Block] = []
    largest = spectrum[0] if spectrum else 0.0
    points: tuple[tuple[float, float], ...] = ()
    if known(largest) and largest > 0:
        kept = thinned(len(spectrum), CURVE_POINTS)
        points = tuple((k + 1.0, spectrum[k] / largest) for k in kept if known(spectrum[k]) and spectrum[k] > 0)
    if points:
        blocks.append(
            Curves(
                "Spectrum",
                "Standard deviation along each principal direction over the largest, logarithmic scale. What lies beyond "
                "the rank is dropped, never divided by.",
                "principal direction",
                "standard deviation / largest",
                (Curve(display_name(result.inputs[0].name), points, 1),),
                log=True,
                cut=(f"rank {count(found.rank)}", found.rank + 0.5) if found.rank < len(spectrum) else None,
            )
        )
    rule = "all but constant or collinear directions" if found.rule == "auto" else "given by the user"
    blocks += [
        Table(
            "Whitening",
            (Column("what", "text"), Column("value")),
            (
                ("rank", count(found.rank)),
                ("how it was chosen", rule),
                ("effective rank", number(found.effective_rank, 1)),
                ("directions dropped", count(found.dropped)),
                ("constant columns", count(found.constant)),
                ("condition number of what is kept", number(found.condition, 1)),
                ("tolerance, of columns brought to equal scale", number(found.tolerance)),
                ("precision of the passes", one_line(found.precision)),
            ),
        ),
        Text(EFFECTIVE_RANK, note=True),
    ]
    return Section("rank", "Rank and spectrum", tuple(blocks))


def _pairs(result: Resolution) -> Section:
    """Components that cannot be told apart, and those whose order is a toss-up."""
    blocks: list[Block] = []
    if result.unresolved:
        blocks.append(
            Text(
                "Within each of these pairs the two components can be turned into each other with little or no loss of "
                "contrast: the plane they span is determined by the data, the axes in it are not."
            )
        )
        blocks += _capped(
            "Pairs that cannot be resolved, listed",
            ("component", "and", "curvature", "angle error (rad)"),
            [(str(p.first), str(p.second), number(p.curvature), number(p.angle_se)) for p in result.unresolved],
            "pair",
        )
    elif len(result.components) > 1:
        blocks.append(
            Text(
                f"No pair is flat locally: at this solution, no two components turn into each other for nothing. {_still(result)}"
            )
        )
    if result.ties:
        blocks.append(Heading("Ties in the order"))
        blocks.append(
            Text(
                "These reproducible components are neighbours whose order is not certain: other rows may swap their columns. "
                "Match components by correlation rather than by place."
            )
        )
        blocks += _capped(
            "Ties",
            ("component", "and", "gap in standard errors"),
            [(str(t.first), str(t.second), number(t.gap, 2)) for t in result.ties],
            "tie",
        )
    return Section("pairs", "What cannot be told apart", tuple(blocks))


def _still(result: Resolution) -> str:
    """What pairs that are told apart at this solution leave open: other rows and other optima."""
    if not has_stability(result.components):
        return "Whether other rows give the same components was not measured."
    left = len(result.components) - len(result.identifiable)
    if not left:
        return "Every component is also reproducible."
    verb = "is" if left == 1 else "are"
    return (
        f"That is a local figure: of {counted(len(result.components), 'component')}, {count(left)} {verb} still not reproducible, "
        "for the reasons under the verdict."
    )


def _capped(caption: str, heads: Sequence[str], lines: Sequence[tuple[str, ...]], what: str) -> list[Block]:
    """The first lines of a long list, and how many there are in all."""
    shown = tuple(lines[:PAIRS_LISTED])
    said = f"{caption}: {count(len(lines))}"
    columns = (Column(heads[0], "text"), *map(Column, heads[1:]))
    if len(shown) == len(lines):
        return [Table(said, columns, shown)]
    left = f"In the JSON result: {counted(len(lines) - len(shown), f'further {what}')}."
    return [Table(f"{said}, of which the first {count(len(shown))}", columns, shown), Text(left, note=True)]


def _convergence(result: Resolution) -> Section:
    cost = f"{number(result.passes, 1)} passes over all rows, contrast {significant(result.contrast)}."
    blocks: list[Block] = [Text(cost)]
    if not result.converged:
        blocks.append(
            Text(
                "The solver stopped before it converged: the components still move, and none of these figures is final. "
                "More rows, a lower rank or a larger tolerance help."
            )
        )
    blocks += _path(result.steps)
    blocks += _starts(result.starts)
    return Section("convergence", "Convergence", tuple(blocks))


def _path(steps: Sequence[Step]) -> list[Block]:
    """How far the components moved with every step, and how many of them."""
    places = thinned(len(steps), CURVE_POINTS) if steps else []
    shown = [steps[k] for k in places if known(steps[k].passes)]
    most = max(
        (s.active for s in steps if s.phase == "polish"), default=0
    )  # a few turned alone say nothing of the whole
    telling = [s for s in shown if s.phase == "search" or s.active == most]
    turns = _by_phase([(s, s.turn) for s in telling if known(s.turn) and s.turn > 0])
    if not turns:
        return []
    return [
        Curves(
            "Convergence",
            "Mean angle by which a step turns the components, logarithmic scale: the search finds where they are, "
            "the polish makes them exact.",
            "passes over all rows",
            "radians turned",
            turns,
            log=True,
        ),
        Curves(
            "Components at work",
            "Those that have settled are left out of the search, directions that come near no component wait for its next "
            "round, and a few that are far from their place are turned alone: such passes cost less.",
            "passes over all rows",
            "active components",
            _by_phase([(s, float(s.active)) for s in shown]),
        ),
    ]


def _by_phase(readings: Sequence[tuple[Step, float]]) -> tuple[Curve, ...]:
    """One curve for each phase of the solver that has readings."""
    return tuple(
        Curve(phase, points, style)
        for phase, style in (("search", 1), ("polish", 2))
        if (points := tuple((step.passes, value) for step, value in readings if step.phase == phase))
    )


def _starts(starts: Sequence[Start]) -> list[Block]:
    if not starts:
        return []
    contrasts = [s.contrast for s in starts if known(s.contrast)]
    best = max(contrasts, default=None)
    strong = next((i for i, s in enumerate(starts[:STARTS_LISTED]) if s.contrast == best), None)
    rescued = sum(s.rescued for s in starts)
    told = ONE_START
    if len(starts) > 1 and best:
        gap = (best - min(contrasts)) / abs(best)
        told = (
            f"{count(len(starts))} starts; the worst of them ends {_gap(gap)} below the best. Starts that agree do not prove "
            "that there is no better optimum, but starts that differ show that the solver can be trapped."
        )
    audit = (
        f" The audit of pairs at 45 degrees turned {counted(rescued, 'pair')} that stood wrong."
        if rescued
        else " The audit of pairs at 45 degrees found no pair that stood wrong."
    )
    more = f", of which the first {STARTS_LISTED}" if len(starts) > STARTS_LISTED else ""
    return [
        Heading("Wrong optima"),
        Text(told + audit),
        Table(
            f"Starts: {count(len(starts))}{more}",
            (Column("start", "text"), *map(Column, ("contrast", "passes", "converged", "pairs rescued"))),
            tuple(
                (str(s.seed), significant(s.contrast), number(s.passes, 1), yes_no(s.converged), count(s.rescued))
                for s in starts[:STARTS_LISTED]
            ),
            strong if len(starts) > 1 else None,
        ),
    ]


def _gap(value: float) -> str:
    return "less than 1 %" if value < 0.01 else percent(value)
