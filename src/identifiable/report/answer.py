"""What `compare` found, in sentences: degree, form, shared dimensions, axes, neighbours, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.report.words import (
    UP_TO,
    count,
    counted,
    display_name,
    group_name,
    known,
    number,
    one_line,
    percent,
    ratio,
)
from identifiable.results import Alert, Neighbours, PairResult, Rung, SharedDimensions

DEGREES = {"nearly": "Nearly", "largely": "Largely", "partly": "Partly"}
NOUNS = {"signed_permutation": "reordering the axes", "similarity": "a similarity", "linear": "a linear map"}
SAME_AXES = 0.9  # share of the components that must match to call the features of two models the same
ASYMMETRIC = 0.1  # difference in R² from which on the two directions are told one by one
RE_EMBED_BELOW = 0.9  # of the target's variance: a map that explains less replaces no vectors


def answer(pair: PairResult, alerts: Sequence[Alert] = ()) -> str:
    """The sentence to take away. A result without the numbers for it (an older file) has the one it was saved with.

    `alerts` are those of the result: tables that hold the same values, and few rows, come into the sentence.
    """
    if pair.verdict.degree is None:
        return one_line(pair.verdict.text) or "This result holds no verdict."
    few = any(alert.code == "few_rows" for alert in alerts)
    both = {pair.source, pair.target}
    same = any(a.code == "identical_inputs" and {a.values["first"], a.values["second"]} == both for a in alerts)
    copies = f"{display_name(pair.source)} and {display_name(pair.target)} hold the same values." if same else ""
    return " ".join(part for part in (copies, _agreement(pair, few), _axes(pair)) if part)


def _agreement(pair: PairResult, few: bool) -> str:
    verdict, shared = pair.verdict, pair.shared
    there, back = verdict.r2, verdict.r2_back
    both = f"R² {r2(there)}" if r2(there) == r2(back) else f"R² {r2(there)} there and {r2(back)} back"
    if verdict.degree == "none":
        near_by = f" {near(pair.neighbours, 'But neighbours agree')}" if agree_nearby(pair) else ""
        return (
            f"No {'linear ' if near_by else ''}agreement beyond chance: a linear map between {display_name(pair.source)} and "
            f"{display_name(pair.target)} predicts held-out rows no better than {_floor(pair)} ({both}).{near_by}"
        )
    if shared is not None and loud(pair):
        verb, carry = ("is", "It carries") if shared.strong == 1 else ("are", "They carry")
        bound = " (at least: rows are few)" if few else ""
        return (
            f"Only {count(shared.strong)} of {count(shared.possible)} dimensions {verb} shared{bound}. {carry} "
            f"{percent(shared.variance_target)} of the variance, so a linear map explains much all the same ({both})."
        )
    found = dimensions(shared, few) if shared is not None else ""
    weaker = verdict.degree if (there or 0.0) <= (back or 0.0) else verdict.degree_back
    if verdict.degree != verdict.degree_back and abs((there or 0.0) - (back or 0.0)) > ASYMMETRIC:
        there_, back_ = (
            f"{display_name(a)} → {display_name(b)}: {_recoverable(degree)} (R² {r2(value)})"
            for a, b, degree, value in (
                (pair.source, pair.target, verdict.degree, there),
                (pair.target, pair.source, verdict.degree_back, back),
            )
        )
        said = f"{there_}; {back_}."
        return f"{said} {found[0].upper()}{found[1:]}." if found else said
    said = (
        f"Little agreement: a linear map explains little ({both})"
        if weaker == "little"
        else f"{DEGREES[str(weaker)]} the same up to {_form(pair, both)}"
    )
    return f"{said}: {found}." if found else f"{said}."


def loud(pair: PairResult) -> bool:
    """Whether few dimensions are shared, and these carry so much variance that a linear map explains much all the same."""
    return pair.shared is not None and pair.verdict.degree in ("nearly", "largely") and pair.shared.few


def agree_nearby(pair: PairResult) -> bool:
    """Whether no linear map holds, and rows have the same neighbours all the same."""
    return pair.verdict.degree == "none" and pair.neighbours is not None and pair.neighbours.agree


def degree_name(pair: PairResult) -> str:
    """The degree in a few words; the count of shared dimensions where these few make the degree."""
    verdict, shared = pair.verdict, pair.shared
    if verdict.degree is None:  # of an older version
        return verdict_name(verdict.group)
    if shared is not None and loud(pair):
        return f"{count(shared.strong)} of {counted(shared.possible, 'dimension')} shared"
    if verdict.degree == "none":
        return "no linear agreement" if agree_nearby(pair) else "no agreement"
    return "little agreement" if verdict.degree == "little" else f"{verdict.degree} the same"


def verdict_name(group: str | None) -> str:
    return "none of the groups" if group is None else group_name(group)


def _floor(pair: PairResult) -> str:
    """What held-out rows are predicted no better than; their mean also where R² is within its error of 0 and beats the shuffles."""
    shuffles = [rung.null.get("shuffle") for rung in pair.rungs if rung.group == "linear"]
    return "shuffled ones" if any(null is not None and null.p > 0.05 for null in shuffles) else "their mean"


def r2(value: float | None) -> str:
    """An R² in two decimals; 1 only where it is."""
    if value is None or not known(value):
        return number(value)
    if abs(value) < 0.005:
        return "0.00"
    return f"{value:.2f}" if value < 0.995 else "above 0.99" if value < 0.9999 else "1.00"


def _recoverable(degree: str | None) -> str:
    return {"nearly": "nearly all recoverable", "largely": "largely recoverable", "partly": "partly"}.get(
        str(degree), "little"
    )


def _form(pair: PairResult, both: str) -> str:
    """'a linear map (R² 0.96 there and 0.97 back; a similarity keeps 91 %, borderline)'."""
    form = pair.verdict.form
    if form is None or form.group is None:
        return f"a linear map ({both})"
    if form.state == "clear" and form_group(pair) == "rigid":
        return f"a rotation ({_details(pair, 'similarity')})"
    rungs: dict[str, Rung] = {rung.group: rung for rung in pair.rungs}
    named = form.group if form.state == "clear" else str(form.beyond)
    own = rungs.get(named)
    details = (
        both
        if named == "linear"
        else f"a linear map {both}"
        if own is None or own.r2 is None
        else _details(pair, named)
    )
    smaller = form.group if form.state == "borderline" else "similarity" if named == "linear" else None
    if smaller is not None and (rung := rungs.get(smaller)) is not None and rung.kept is not None:
        border = ", borderline" if form.state == "borderline" else ""
        details += f"; {NOUNS[smaller]} keeps {percent(min(max(rung.kept.value, 0.0), 1.0))}{border}"
    few = ", a lower bound" if pair.shared is not None and pair.shared.lower_bound else ""
    return f"{UP_TO[named]} ({details}{few})"


def form_group(pair: PairResult) -> str | None:
    """The group of the form; a similarity whose scale cannot be told from 1 is a rotation."""
    form = pair.verdict.form
    if form is None or form.group is None:
        return None
    group = form.group if form.state == "clear" else form.beyond
    return "rigid" if group == "similarity" and form.scale_state == "one" else group


def _details(pair: PairResult, group: str) -> str:
    """'R² 0.96; a linear map 0.98'."""
    own = next((rung.r2.value for rung in pair.rungs if rung.group == group and rung.r2 is not None), pair.verdict.r2)
    more = "" if r2(own) == r2(pair.verdict.r2) else f"; a linear map {r2(pair.verdict.r2)}"
    return f"R² {r2(own)}{more}"


def dimensions(shared: SharedDimensions, few: bool = False) -> str:
    """'11 of 96 dimensions shared, 37 partly'; with `few` rows at least so many."""
    if shared.withheld:
        return "too few independent rows to count shared dimensions"
    if shared.strong == shared.possible == 1:
        return "the one dimension is shared"
    if shared.strong == shared.possible:
        return f"all {counted(shared.possible, 'dimension')} shared"
    least = "at least " if shared.lower_bound or few else ""
    partly = f", {count(shared.partly)} partly" if shared.partly else ""
    return f"{least}{count(shared.strong)} of {count(shared.possible)} dimensions shared{partly}"


def _axes(pair: PairResult) -> str:
    axes = pair.axes
    if axes is None or axes.withheld is not None or axes.matched is None:
        return ""
    match = "component matches" if axes.matched == 1 else "components match"
    found = f"{count(axes.matched)} of {count(axes.components)} {match}"
    if axes.matched == axes.components > 1:
        found = f"all {count(axes.components)} components match"
    elif axes.at_least:
        found = (
            f"at least {found}" if axes.matched else f"none of {count(axes.components)} components certainly matches"
        )
    own = axes.own_source or 0, axes.own_target or 0
    names = display_name(pair.source), display_name(pair.target)
    within = f"{count(own[0])} repeat within {names[0]}, {count(own[1])} within {names[1]}"
    return f"After ICA {found} ({within})."


def near(neighbours: Neighbours | None, whose: str = "") -> str:
    """How many neighbours are kept, with the pair they belong to where there are several; empty where nobody looked."""
    if neighbours is None:
        return ""
    mutual = neighbours.mutual
    start = f"{whose}: of" if whose else "Of"
    return (
        f"{start} the {neighbours.k} nearest neighbours of a row, {percent(mutual.value)} are the same in both models "
        f"(by chance {percent(mutual.chance)}; among {count(neighbours.rows)} rows)."
    )


def advice(pair: PairResult, alerts: Sequence[Alert] = ()) -> Iterator[str]:
    """What to do next. `alerts` are those of the result: few rows, and rows that were paired without ids."""
    verdict, shared, axes = pair.verdict, pair.shared, pair.axes
    few_rows = next((alert for alert in alerts if alert.code == "few_rows"), None)
    if verdict.degree is None:
        return
    if agree_nearby(pair):
        yield (
            "The rows belong together, and the link is not linear: no map of compare or align carries vectors over. Judge such models "
            "by their neighbours (neighbours.mutual.value)."
        )
        return
    if verdict.degree == "none":
        if any(alert.code == "paired_by_position" for alert in alerts):
            yield "Check that row i is the same sample in both tables; pass ids to join rows by name."
        else:
            yield "Rows were joined by ids, and still nothing agrees: check that each list of ids belongs to its table."
        return
    if shared is not None and shared.lower_bound and shared.strong < shared.possible:
        needed = None if few_rows is None else few_rows.values.get("needed")
        enough = "" if needed is None else f"; {count(needed)} rows are enough"
        yield f"Bring more rows: {ratio(pair.n, pair.width)} per dimension give a lower bound only{enough}."
    form = verdict.form
    group = None if form is None else form.group if form.state == "clear" else form.beyond
    explained = verdict.r2 or 0.0
    if loud(pair):
        yield "Standardise the columns, or leave the loud ones out, and compare again: most dimensions do not agree."
    elif explained < RE_EMBED_BELOW and few_rows:
        yield (
            f"At most {percent(1 - explained)} of the variance of {display_name(pair.target)} is left unexplained: with few rows R² is "
            "a lower bound. Add rows before deciding; identifiable align measures what a search through a map finds."
        )
    elif explained < RE_EMBED_BELOW:
        yield (
            f"Vectors carried from {display_name(pair.source)} to {display_name(pair.target)} are not those of a new embedding: a linear "
            f"map leaves {percent(1 - explained)} of the variance unexplained. Embed the data again, or measure with identifiable align "
            "what a search through a map finds."
        )
    elif (verdict.r2_back or 0.0) < RE_EMBED_BELOW:
        yield (
            f"Stored vectors can be carried from {display_name(pair.source)} to {display_name(pair.target)} by a linear map, and not back."
        )
    elif group == "signed_permutation":
        yield "Stored vectors can be carried over by reordering and flipping columns."
    elif group == "similarity":
        yield "Distances are kept. Stored vectors can be carried over by a rotation; single columns cannot be compared."
    else:
        yield "Distances are not kept. Stored vectors can be carried over by a linear map; identifiable align measures what a search finds."
    if axes is not None and axes.withheld == "few_rows":
        yield f"Axes were not compared: that needs {count(axes.rows_needed)} rows."
    elif axes is not None and axes.withheld is None and (axes.matched or 0) >= SAME_AXES * axes.components > 0:
        yield "ICA gives the same features in both models: run identifiable resolve on each table to get them."
    elif axes is not None and axes.withheld is None and (axes.own_source or axes.own_target):
        yield "Do not compare single components of ICA between these models: few of them match."
