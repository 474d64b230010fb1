"""What the command line prints of a resolution, of one model or of several."""

from __future__ import annotations

from identifiable.report.components import has_stability, margins, named, reasons, stability_cell
from identifiable.report.frame import alert_lines, saved_form
from identifiable.report.joint import OPPOSITE, joint_headline, joint_rule, match_line, model_line
from identifiable.report.render.terminal import aligned, wrapped
from identifiable.report.resolution import NO_REFITS, converged, headline
from identifiable.report.rules import reproducible_rule
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    number,
    one_line,
    plus_minus,
    ratio,
    share,
    significant,
    yes_no,
)
from identifiable.results import Component, JointResolution, Resolution

COMPONENTS_SHOWN = 20  # more would scroll the headline off the screen
TIES_SHOWN = 8
MODELS_SHOWN = 5  # columns of partners that fit beside the figures
NAME, SHORT_NAME = 20, 8  # columns of a model's name in a line and over a column
REASON_WIDTH = 220


def resolution_table(result: Resolution) -> str:
    """Headline, the first components, why the others are not reproducible, alerts."""
    saved = saved_form(result)
    components = saved.components
    parts = [*_headline(saved), ""]
    if components:
        heads = (
            "comp.",
            "reprod.",
            "stability",
            "variance",
            "negentropy",
            "skew",
            "kurtosis",
            "curvature",
            "angle",
        )
        parts.append(aligned(heads, [_line(c) for c in components[:COMPONENTS_SHOWN]]))
        rest = components[COMPONENTS_SHOWN:]
        if rest:
            good = count(sum(c.identifiable for c in rest))
            parts.append(f"… and {count(len(rest))} more, {good} of them reproducible: in the report and the JSON")
        parts.append("")
    parts += [
        wrapped(f"Not reproducible: {count(len(found))} × {clip(why, REASON_WIDTH)} ({named(found)})", "  ")
        for why, found in reasons(c for c in components if not c.identifiable)
    ]
    if saved.unresolved:
        first = saved.unresolved[0]
        parts.append(
            wrapped(
                f"Cannot be told apart: {counted(saved.unresolved_pairs, 'pair')}, the worst {first.first} and {first.second}.",
                "  ",
            )
        )
    parts += _ties(saved)
    if components and not has_stability(components):
        parts.append(wrapped(NO_REFITS))
    rule = reproducible_rule(saved.settings)
    parts += [wrapped(rule, "  ")] if rule else []
    parts.append(
        wrapped(
            f"± one standard error. Negentropy: an index, too large far from a Gaussian. {margins(saved.settings)}",
            "  ",
        )
    )
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"


def _ties(result: Resolution) -> list[str]:
    """Which neighbours may swap places, if any."""
    if not result.ties:
        return []
    first = ", ".join(f"{t.first} and {t.second}" for t in result.ties[:TIES_SHOWN])
    left = len(result.ties) - TIES_SHOWN
    more = f" and {count(left)} more" if left > 0 else ""
    told = f"Ties in the order: {counted(len(result.ties), 'pair')} of neighbours that may swap places with other rows"
    return [wrapped(f"{told} ({first}{more}).", "  ")]


def _headline(result: Resolution) -> list[str]:
    table = result.inputs[0]
    shape = f"n {count(table.n)}, d {count(table.d)}, n/d {ratio(table.n, table.d)}"
    rank = f"rank {count(result.rank)}, effective rank {number(result.whitening.effective_rank, 1)}"
    starts = f", best of {count(len(result.starts))} starts" if len(result.starts) > 1 else ""
    state = converged(result)
    told = f"{headline(result)}. {state[0].upper()}{state[1:]} after {number(result.passes, 1)} passes{starts}"
    return [
        wrapped(f"{one_line(table.name)}   {shape}, {rank}", "  "),
        wrapped(f"{told}; contrast {significant(result.contrast)}."),
    ]


def _line(component: Component) -> tuple[str, ...]:
    return (
        str(component.index),
        yes_no(component.identifiable),
        stability_cell(component.stability),
        share(component.variance),
        plus_minus(component.negentropy, component.negentropy_se),
        number(component.skew, 2),
        number(component.kurtosis, 2),
        number(component.curvature),
        number(component.angle_se, 4),
    )


def joint_table(result: JointResolution) -> str:
    """Headline, each model, the first matches, alerts."""
    saved = saved_form(result)
    names = [clip(one_line(i.name), NAME) for i in saved.inputs]
    parts = [wrapped(f"{joint_headline(saved)} Rows in common: {count(saved.n)}."), ""]
    lines = [(name, *model_line(model), converged(model)) for name, model in zip(names, saved.models, strict=True)]
    brief = ("reprod.", "rank", "d", "eff. rank", "unresolved", "passes", "alerts")
    parts += [aligned(("model", *brief, "state"), lines), ""]
    if saved.matches and len(names) <= MODELS_SHOWN:
        heads = (*(clip(name, SHORT_NAME) for name in names), "smallest |r|", "p", "shared", "reprod. in all")
        parts.append(aligned(heads, [match_line(m, saved.settings) for m in saved.matches[:COMPONENTS_SHOWN]]))
        rest = saved.matches[COMPONENTS_SHOWN:]
        if rest:
            both = count(sum(m.shared for m in rest))
            parts.append(f"… and {count(len(rest))} more, {both} of them shared: in the report and the JSON")
        parts.append(
            wrapped(
                f"Columns of models: the partner's place, {OPPOSITE} of opposite sign, {MISSING} none. p ≤: no draw reached it.",
                "  ",
            )
        )
    elif saved.matches:
        parts.append("The partners in each model are in the report and the JSON.")
    parts.append(wrapped(joint_rule(saved), "  "))
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"
