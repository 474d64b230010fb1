"""The page of `resolve` for one model: which components are reproducible, how far to trust them, how they were found."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from identifiable.report.frame import framed, glossary, section, shell_words, terms, thinned, written_by
from identifiable.report.page import Block, Card, Cloud, Code, Curve, Curves, Heading, Page, Table, Terms, Text, columns
from identifiable.report.pages.components import (
    component_blocks,
    details,
    has_stability,
    limit,
    reason_table,
    reproducible_limits,
    tone,
)
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
    setting,
    short,
    significant,
    yes_no,
)
from identifiable.results import Component, Resolution, Start, Step

GUIDE = (
    "A component is called reproducible if other rows and another start would give it again, within its error and with its sign. "
    "Components are numbered from 0, in the order of the columns that transform writes."
)
PAIRS_LISTED = 60
PAIRS_PRINTED = 8
STARTS_LISTED = 60
CURVE_POINTS = 240
PAPERS = ("nelson", "hyvarinen1999", "ablin", "hyvarinen1998", "himberg")
READING = ("Reproducible", "Stability", "Density", "Negentropy, skew, kurtosis", "Curvature margin", "Angle error")

Reading = Callable[[Component], float | None]


def page(result: Resolution) -> Page:
    order = result.settings.get("order")
    words = glossary("resolution")
    ordered = words["Order and sign"].format(order=setting(order) if isinstance(order, str) else "a fixed rule")
    return framed(
        result,
        title=f"{one_line(result.inputs[0].name)}: independent components",
        subtitle="Which directions of this representation do the data determine, and which could as well be others?",
        guide=GUIDE,
        verdict=(
            card(result, brief=True),
            *rule_note(result),
            *reason_table(result.components, brief=True),
        ),
        sections=[
            section("steps", "What to do next", _steps(result)),
            section("components", "Components", _components(result)),
            section("trust", "How far to trust them", _trust(result)),
            section("pairs", "Components that cannot be separated", _pairs(result)),
            section("convergence", "Convergence", _convergence(result)),
            section("rank", "Rank and spectrum", _rank(result)),
        ],
        reading=(
            Text(words[""]),
            terms("resolution", *READING),
            Terms((("Order and sign", ordered), ("Variance", words["Variance"]))),
        ),
        methods=(whitened(result), _solved(result), judged([result]), words["Sources"]),
        papers=(*PAPERS, "roy"),
    )


# -- the verdict


def card(result: Resolution, *, brief: bool = False) -> Card:
    """The headline, and the numbers behind it."""
    table = result.inputs[0]
    facts = [
        ("rank", f"{count(result.rank)} of {count(table.d)}"),
        ("effective rank", number(result.whitening.effective_rank, 1)),
        ("starts", count(len(result.starts))),
        ("unresolved pairs", count(result.unresolved_pairs)),
        ("rows n", count(table.n)),
        ("n / d", ratio(table.n, table.d)),
        ("passes", number(result.passes, 1)),
        ("contrast", significant(result.contrast)),
    ]
    reached = tone(result.converged and mostly(result.identifiable, result.components))
    state = converged(result)
    if result.converged and has_stability(result.components):
        state = part_of(result.identifiable, result.components, "reproducible")
    return Card(display_name(table.name), state, f"{result.headline}.", reached, tuple(facts), brief=brief)


def part_of(part: Sequence[object], whole: Sequence[object], what: str) -> str:
    """'all shared', 'most shared', 'few shared' or 'none shared'."""
    size = "none" if not part else "all" if len(part) == len(whole) else "most" if mostly(part, whole) else "few"
    return f"{size} {what}"


def mostly(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether `part` is at least half of `whole`, and something."""
    return 0 < len(whole) <= 2 * len(part)


def rule_note(result: Resolution) -> list[Block]:
    """What it takes to be called reproducible, where the result records it."""
    asked = reproducible_limits(result.settings)
    return [Text(asked, note=True)] if asked else []


def converged(result: Resolution) -> str:
    return "converged" if result.converged else "NOT converged"


def _steps(result: Resolution) -> Iterator[Block]:
    """What can be done with what was found."""
    kept, total = len(result.identifiable), len(result.components)
    words = shell_words(result.provenance.command)
    if not total or not has_stability(result.components):  # said beside the components
        return
    if not kept:
        yield Text(
            "Use no single column. Add rows, or lower the rank (--rank); to ask whether two tables agree, whatever their axes, "
            "compare them:",
            brief=True,
        )
        yield Code("Compare", one_line(f"identifiable compare {_table_of(words)} other.npy"), brief=True)
        return
    chosen = "" if kept == total else " --only-identifiable"
    basis = written_by(result.provenance.command)
    save = "" if basis else "Save the basis with -o. "
    yield Text(
        f"{save}Use the {'components' if kept == total else 'reproducible components'} as features of these or new rows:",
        brief=True,
    )
    yield Code(
        "Use the basis",
        one_line(f"identifiable transform {basis or 'basis.safetensors'} {_table_of(words)} -o components.npy{chosen}"),
        brief=True,
    )


def _table_of(words: Sequence[str]) -> str:
    """The table as the command named it; a placeholder where it did not."""
    named = list(words[:2]) == ["identifiable", "resolve"] and len(words) > 2 and not words[2].startswith("-")
    return shlex.quote(words[2]) if named else "vectors.npy"


# -- the components


def _components(result: Resolution) -> Iterator[Block]:
    if result.components and not has_stability(result.components):
        why, do = (
            ("rows are too few for refits on halves", "Add rows")
            if result.settings.get("stability")
            else (
                "no refits were made",
                "Use --stability",
            )
        )
        yield Text(
            f"Stability is unknown because {why}, so no component can be called reproducible. {do}.",
            brief=True,
        )
    yield from component_blocks(result, brief=True)
    yield from details(result.components)


def _trust(result: Resolution) -> Iterator[Block]:
    """Where the reproducible components lie among all, in two pictures."""
    needed = limit(result.settings, "stability")
    stability = Curves(
        "Stability against negentropy",
        "One point per component. The further from a Gaussian (right), the easier a component is to find again. A point low on "
        "the right is non-Gaussian but mixes with another component. The index overstates negentropy far from a Gaussian.",
        "negentropy (index)",
        "stability: mean |correlation| between refits",
        log_across=True,
        top=1.0,
        threshold=None if needed is None else (f"{short(needed)} is needed", needed),
    )
    yield from _scatter(result.components, stability, lambda c: c.negentropy, lambda c: c.stability)
    curvature = Curves(
        "Curvature margin",
        "One point per component: the smallest curvature of the contrast over its pairs with the others. At 0 the component can "
        "be turned into another one without loss.",
        "component",
        "curvature margin",
    )
    yield from _scatter(result.components, curvature, lambda c: float(c.index), lambda c: c.curvature)


def _scatter(components: Sequence[Component], frame: Curves, across: Reading, up: Reading) -> Iterator[Block]:
    """`frame` with a point for every component that has both numbers; those that have not are counted."""
    points: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for component in components:
        x, y = across(component), up(component)
        if x is not None and y is not None and known(x) and known(y) and (x > 0 or not frame.log_across):
            points[component.identifiable].append((x, y))
    clouds = (
        Cloud("reproducible", tuple(points[True]), "main"),
        Cloud("not reproducible", tuple(points[False]), "hollow"),
    )
    left = len(components) - sum(map(len, points.values()))
    missing = f" Left out because a number is missing: {count(left)}." if left else ""
    if drawn := tuple(cloud for cloud in clouds if cloud.points):
        yield replace(frame, clouds=drawn, description=frame.description + missing)


def _pairs(result: Resolution) -> Iterator[Block]:
    """Components that cannot be separated, and those whose order is uncertain."""
    if result.unresolved:
        yield Text(
            "The two components of each pair can be turned into each other with little or no loss of contrast. The data determine "
            "the plane that they span, but not the axes in it."
        )
        lines = [(str(p.first), str(p.second), number(p.curvature), number(p.angle_se)) for p in result.unresolved]
        heads = ("and", "curvature", "angle error (rad)")
        yield from _capped("Pairs that cannot be separated", heads, lines, "pair", result.unresolved_pairs)
    elif len(result.components) > 1:
        yield Text(f"Every pair can be separated at this solution. {_still(result)}")
    if result.ties:
        yield Heading("Ties in the order")
        yield Text(
            "The order of these reproducible neighbours is uncertain: other rows may swap their columns. Match components by "
            "correlation, not by place."
        )
        ties = [(str(t.first), str(t.second), number(t.gap, 2)) for t in result.ties]
        yield from _capped("Ties in the order", ("and", "gap in standard errors"), ties, "tie")


def _still(result: Resolution) -> str:
    """What is open where every pair can be separated: other rows and other optima."""
    if not has_stability(result.components):
        return "Whether other rows give the same components was not measured."
    left, total = len(result.components) - len(result.identifiable), counted(len(result.components), "component")
    if not left:
        return "Every component is also reproducible."
    return f"This is local: {count(left)} of {total} {'is' if left == 1 else 'are'} not reproducible, for the reasons under the verdict."


def _capped(
    caption: str, heads: Sequence[str], lines: Sequence[tuple[str, ...]], what: str, total: int = 0
) -> Iterator[Block]:
    """The first lines of a long list, and how many there are in all: `total`, where the result lists the worst only."""
    shown, total = tuple(lines[:PAIRS_LISTED]), max(total, len(lines))
    worst = "worst" if total > len(lines) else "first"
    first = f", of which the {worst} {count(len(shown))}" if total > len(shown) else ""
    yield Table(
        f"{caption}: {count(total)}{first}", columns("component", *heads), shown, brief=True, brief_rows=PAIRS_PRINTED
    )
    if left := len(lines) - len(shown):
        yield Text(f"In the JSON result: {counted(left, f'further {what}')}.", note=True)


# -- the solver


def _convergence(result: Resolution) -> Iterator[Block]:
    yield Text(f"{number(result.passes, 1)} passes over all rows, contrast {significant(result.contrast)}.")
    if not result.converged:
        yield Text(
            "The solver stopped before it converged: the components still move, and these numbers are not final. Use more rows, "
            "a lower rank or a larger tolerance.",
            brief=True,
        )
    yield from _path(result.steps)
    if result.starts:
        yield from _starts(result.starts)


def _path(steps: Sequence[Step]) -> Iterator[Block]:
    """How far the components moved with every step, and how many of them."""
    shown = [steps[k] for k in thinned(len(steps), CURVE_POINTS) if known(steps[k].passes)] if steps else []
    most = max((s.active for s in steps if s.phase == "polish"), default=0)  # a few turned alone are not the whole
    whole = [s for s in shown if s.phase == "search" or s.active == most]
    turns = _by_phase([(s, s.turn) for s in whole if known(s.turn) and s.turn > 0])
    if turns:
        yield Curves(
            "Convergence",
            "Mean angle by which a step turns the components, logarithmic scale. The search finds where they are; the polish "
            "makes them exact.",
            "passes over all rows",
            "radians turned",
            turns,
            log=True,
        )
        yield Curves(
            "Components at work",
            "Settled components are left out of the search, directions that come near no component wait for its next round, and "
            "a few that are far from their place are turned alone: such passes cost less.",
            "passes over all rows",
            "active components",
            _by_phase([(s, float(s.active)) for s in shown]),
        )


def _by_phase(readings: Sequence[tuple[Step, float]]) -> tuple[Curve, ...]:
    """One curve for each phase of the solver that has readings."""
    return tuple(
        Curve(phase, points, style)
        for phase, style in (("search", 1), ("polish", 2))
        if (points := tuple((step.passes, value) for step, value in readings if step.phase == phase))
    )


def _starts(starts: Sequence[Start]) -> Iterator[Block]:
    contrasts = [s.contrast for s in starts if known(s.contrast)]
    best = max(contrasts, default=None)
    compared = "With one start only, a better optimum elsewhere cannot be seen. Use --restarts."
    if len(starts) > 1 and best:
        gap = (best - min(contrasts)) / abs(best)
        compared = (
            f"{count(len(starts))} starts; the worst ends {'less than 1 %' if gap < 0.01 else percent(gap)} below the best. "
            "Starts that differ show that the solver can be trapped; starts that agree do not prove that it was not."
        )
    audit = f"The audit of pairs at 45 degrees corrected {counted(sum(s.rescued for s in starts), 'pair')}."
    shown = starts[:STARTS_LISTED]
    more = f", of which the first {STARTS_LISTED}" if len(starts) > STARTS_LISTED else ""
    strong = next((i for i, s in enumerate(shown) if s.contrast == best), None)
    yield Heading("Wrong optima")
    yield Text(f"{compared} {audit}")
    yield Table(
        f"Starts: {count(len(starts))}{more}",
        columns("start", "contrast", "passes", "converged", "pairs rescued"),
        tuple(
            (str(s.seed), significant(s.contrast), number(s.passes, 1), yes_no(s.converged), count(s.rescued))
            for s in shown
        ),
        strong if len(starts) > 1 else None,
    )


def _rank(result: Resolution) -> Iterator[Block]:
    found = result.whitening
    spectrum = found.spectrum
    largest = spectrum[0] if spectrum and known(spectrum[0]) else 0.0
    kept = thinned(len(spectrum), CURVE_POINTS) if largest > 0 else []
    points = tuple((k + 1.0, spectrum[k] / largest) for k in kept if known(spectrum[k]) and spectrum[k] > 0)
    if points:
        yield Curves(
            "Spectrum",
            "Standard deviation along each principal direction over the largest, logarithmic scale. Directions beyond the rank "
            "are dropped, never divided by.",
            "principal direction",
            "standard deviation / largest",
            (Curve(display_name(result.inputs[0].name), points, 1),),
            log=True,
            cut=(f"rank {count(found.rank)}", found.rank + 0.5) if found.rank < len(spectrum) else None,
        )
    yield Table(
        "Whitening",
        columns("what", "value"),
        (
            ("rank", count(found.rank)),
            (
                "how it was chosen",
                "without constant or collinear directions" if found.rule == "auto" else "given by the user",
            ),
            ("effective rank", number(found.effective_rank, 1)),
            ("directions dropped", count(found.dropped)),
            ("constant columns", count(found.constant)),
            ("condition number of what is kept", number(found.condition, 1)),
            ("tolerance, of columns brought to equal scale", number(found.tolerance)),
            ("precision of the passes", one_line(found.precision)),
        ),
    )
    yield Text(EFFECTIVE_RANK, note=True)


# -- methods


def whitened(result: Resolution) -> str:
    table, found = result.inputs[0], result.whitening
    constant = f" {counted(found.constant, 'constant column')} left out." if found.constant else ""
    rank = (
        f"The rank, {count(found.rank)}, leaves out constant and collinear directions: principal directions of the columns, "
        f"brought to equal scale, below {number(found.tolerance)} times the largest standard deviation ({count(found.dropped)} "
        "dropped)."
        if found.rule == "auto" and known(found.tolerance)
        else f"The rank, {count(found.rank)}, was given."
    )
    return (
        f"{display_name(table.name)} ({count(table.n)} rows, {count(table.d)} columns) was centred and whitened from moments in "
        f"double precision.{constant} {rank}"
    )


def _solved(result: Resolution) -> str:
    contrast = result.settings.get("contrast")
    named = f" with the {setting(contrast)} contrast" if isinstance(contrast, str) else ""
    solvers = {"search": "a fixed-point search (FastICA)", "polish": "a quasi-Newton polish over rotations"}
    phases = {step.phase for step in result.steps}
    how = ", then ".join(words for phase, words in solvers.items() if phase in phases)
    starts = f" The best of {count(len(result.starts))} starts was kept." if len(result.starts) > 1 else ""
    return (
        f"Independent components were found by ICA{named}{how and f': {how}'}. The sign of the contrast of each component was "
        f"adapted to its tails.{starts} The solver {'converged' if result.converged else 'did NOT converge'} after "
        f"{number(result.passes, 1)} passes over all rows, in {result.whitening.precision} precision. Seed {result.provenance.seed}."
    )


def judged(models: Sequence[Resolution]) -> str:
    """How components were judged, with one model or more."""
    refits = {n for m in models if isinstance(n := m.settings.get("stability"), int)}
    many = counted(refits.pop(), "refit") if len(refits) == 1 else "refits"
    stability = (
        f"Stability is the mean |correlation| between matched components of {many} on halves of the rows, each from a start of "
        "its own, compared between halves that share no row."
        if any(has_stability(m.components) for m in models)
        else "No refits were made, so stability is unknown."
    )
    return f"{stability} {glossary('resolution')['Judged']}"
