"""The page of `mechanisms`: the factors, what each of them moves, the leak that counts them, and what single points say."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from identifiable.report.frame import framed, glossary, section, shell_words, terms, written_by
from identifiable.report.page import Block, Card, Cloud, Code, Curve, Curves, Fold, Grid, Page, Table, Text, columns
from identifiable.report.words import (
    MISSING,
    count,
    display_name,
    known,
    number,
    one_line,
    percent,
    sentence_of,
    yes_no,
)
from identifiable.results import IndependenceScores, MechanismFactor, Mechanisms

GUIDE = (
    "A factor is a set of latent directions that moves outputs which no other factor moves. The leak is 0 up to the number of factors "
    "and jumps behind it; the jump, not the value, counts."
)
READING = ("Factor", "Leak", "Certain", "Forms", "Angles", "Scores", "Null space")
SHOWN = 8  # factors whose maps are drawn
OPEN = 3  # of them without a click
LEAKS = 12
CLOSE = 10.0  # degrees: latents that are already the factors
SCORES = {
    "contrast": "contrast (D)",
    "overlap": "overlap (D)",
    "interaction": "interaction score (D)",
    "non_inclusion": "non-inclusion (M)",
    "margin": "margin (M)",
    "second_order": "second order (H₂)",
    "block_ima": "block IMA",
    "ima": "IMA",
}
FORMS = {"outputs": "outputs", "rows": "rows", "local": "local", "scaled": "outputs, scaled"}


def page(result: Mechanisms) -> Page:
    words = glossary("mechanisms")
    return framed(
        result,
        title=f"{display_name(result.decoder)}: its factors",
        subtitle="Which latent directions act together, and on which outputs?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("factors", "The factors", _factors(result)),
            section("maps", "What each factor moves", _maps(result)),
            section("leak", "How many factors", _leak(result)),
            section("points", "Point by point", _points(result)),
            section("scores", "How independent they are", _scores(result)),
            section("steps", "What to do next", _next(result)),
        ],
        reading=(Text(words[""]), terms("mechanisms", *READING)),
        methods=(words["Computed"], words["Judged"], words["Sources"]),
        papers=("matthes", "brady", "zheng", "gresele", "lachapelle", "costeira"),
    )


def _card(result: Mechanisms) -> Card:
    facts = (
        ("factors", count(result.n_factors)),
        ("dimensions", ", ".join(count(factor.dimension) for factor in result.factors)),
        ("points that agree", percent(result.agree)),
        ("points n", count(result.n)),
        ("latents → outputs", f"{count(result.latents)} → {count(result.outputs)}"),
        ("one basis for all points", yes_no(result.linear)),
    )
    badge = "certain" if result.certain else "not certain"
    said = sentence_of(result.headline)
    return Card(display_name(result.decoder), badge, said, "good" if result.certain else "caution", facts, brief=True)


def _name(factor: MechanismFactor) -> str:
    return f"factor {count(factor.index)}"


def _degrees(value: float | None) -> str:
    return f"{value:.1f}" if value is not None and known(value) else MISSING


def _factors(result: Mechanisms) -> Iterator[Block]:
    yield Text(sentence_of(result.reason.message), brief=True)
    yield Table(
        "Factors and their nearest latents, counted from 0; angles in degrees, 0 where latents or components are the factor already",
        columns("factor", "dimension", "outputs", "to axes", "to ICA", "over points", "latents", words=("latents",)),
        tuple(
            (
                _name(factor),
                count(factor.dimension),
                count(factor.n_outputs),
                _degrees(factor.axis_angle),
                _degrees(factor.ica_angle),
                _degrees(factor.turn),
                ", ".join(map(str, factor.axes)),
            )
            for factor in result.factors
        ),
        brief=True,
    )
    if result.moving:
        yield Text(
            f"Outputs change their owner from point to point: {percent(result.owned)} of the effect is where the owner says. "
            "The column of outputs counts those that a factor moves most.",
            note=True,
            brief=True,
        )


def _maps(result: Mechanisms) -> Iterator[Block]:
    drawn = [factor for factor in result.factors[:SHOWN] if factor.maps]
    if not drawn:
        return
    yield Text(
        "How much a factor moves each output at a point, as a share of the output that it moves most."
        + (" A cell is the mean of neighbouring outputs." if len(drawn[0].maps[0]) < result.outputs else "")
    )
    if result.picture is None:
        for point, *maps in zip(result.shown_points, *(factor.maps for factor in drawn), strict=False):
            yield _lines(result, drawn, maps, point)
        return
    grids = [
        _picture(result.picture, factor, values, point)
        for factor in drawn
        for point, values in zip(result.shown_points, factor.maps, strict=False)
    ]
    per = len(result.shown_points)
    yield from grids[: OPEN * per]
    if len(grids) > OPEN * per:
        yield Fold("More factors", tuple(grids[OPEN * per :]))


def _lines(result: Mechanisms, factors: list[MechanismFactor], maps: list[tuple[float, ...]], point: int) -> Grid:
    """Outputs that are no picture: one line for each factor."""
    cells = len(maps[0])
    step = _averaged(1, result.outputs, cells)
    return Grid(
        f"Point {count(point)}",
        f"What each factor moves at point {count(point)}: a line for each factor, from the first output on the left.",
        tuple(count(factor.index) for factor in factors),
        tuple(str(j * step) for j in range(cells)),
        tuple(maps),
        1.0,
        "of the largest",
        signed=False,
    )


def _picture(shape: tuple[int, int], factor: MechanismFactor, values: tuple[float, ...], point: int) -> Grid:
    step = _averaged(*shape, len(values))
    width = -(-shape[1] // step)
    lines = tuple(values[a : a + width] for a in range(0, len(values), width))
    return Grid(
        f"{_name(factor).capitalize()}, point {count(point)}",
        f"What {_name(factor)} moves at point {count(point)}, from the first output at the top left.",
        tuple(str(i * step) for i in range(len(lines))),
        tuple(str(j * step) for j in range(width)),
        lines,
        1.0,
        "of the largest",
        signed=False,
    )


def _averaged(height: int, width: int, cells: int) -> int:
    """How many outputs, each way, a cell is the mean of."""
    return next((s for s in range(1, height * width + 1) if -(-height // s) * -(-width // s) <= cells), 1)


def _leak(result: Mechanisms) -> Iterator[Block]:
    curves = tuple(
        Curve(FORMS[form.form], points, style, dotted=False)
        for style, form in enumerate(result.forms, start=1)
        if (points := tuple((k, v) for k, v in enumerate(form.leak, start=1) if known(v)))
    )
    if curves:
        yield Curves(
            "The leak",
            "How far the Jacobians are from having k factors. It stays low up to the number of factors, then jumps.",
            "k",
            "leak",
            curves,
            clouds=tuple(Cloud("", curve.points, "main", curve.style) for curve in curves),
            cut=(f"{count(result.n_factors)} found", result.n_factors + 0.5),
            across_base=1.0,
        )
    yield Table(
        "Leaks by form. Leak K + 1 should be near the column beside it, its value if there are no more factors",
        columns("form", "factors", "leak K", "leak K + 1", "no more factors", "resamples that agree", words=()),
        tuple(
            (
                FORMS[form.form],
                count(form.n_factors),
                number(form.leak[form.n_factors - 1]),
                number(form.leak[form.n_factors]) if len(form.leak) > form.n_factors else number(None),
                number(form.explained),
                percent(form.agreement) if form.agreement is not None else number(None),
            )
            for form in result.forms
        ),
        next((i for i, form in enumerate(result.forms) if form.form == result.form), None),
        brief=True,
    )
    yield Text(
        f"leak: {', '.join(number(v) for v in result.leak[:LEAKS])}{' …' if len(result.leak) > LEAKS else ''}",
        note=True,
    )


def _points(result: Mechanisms) -> Iterator[Block]:
    found = Counter(result.at_points)
    yield Table(
        "Points looked at one by one, without the others",
        columns("number of factors", "points"),
        tuple((count(k), count(n)) for k, n in sorted(found.items())),
    )
    if any(known(factor.turn_max) for factor in result.factors):
        yield Table(
            "Largest angle between a factor's subspace at a point and its common one, in degrees",
            columns("factor", "median point", "worst point"),
            tuple((_name(factor), _degrees(factor.turn), _degrees(factor.turn_max)) for factor in result.factors),
        )


def _scores(result: Mechanisms) -> Iterator[Block]:
    found: list[tuple[str, IndependenceScores]] = []
    if result.given is not None:
        found.append(("given blocks", result.given))
    if result.scores is not None:
        found.append(("factors", result.scores))
    if not found or all(len(scores.blocks) < 2 for _, scores in found):
        return
    yield Table(
        "Scores of blocks: given latents as they are, and the factors in their basis",
        columns("score", *(name for name, _ in found)),
        tuple((label, *(number(getattr(scores, key)) for _, scores in found)) for key, label in SCORES.items()),
    )


def _next(result: Mechanisms) -> Iterator[Block]:
    words, file = glossary("mechanisms"), written_by(result.provenance.command)
    for step in _steps(result):
        yield Text(words[step], brief=True)
        if step != "Change the basis":
            continue
        if file is not None:
            yield Code(
                "Factors of new latents",
                one_line(f"identifiable transform {file} {_points_of(result)} -o by_factor.npy"),
                brief=True,
            )
        else:
            yield Text(words["Write the basis"], brief=True)


def _points_of(result: Mechanisms) -> str:
    """The file of the points, quoted for the shell; a placeholder where the command named none."""
    words = shell_words(result.provenance.command)
    named = words[:2] == ["identifiable", "mechanisms"] and len(words) > 2 and not words[2].startswith("-")
    return shlex.quote(words[2]) if named else "latents.npy"


def _steps(result: Mechanisms) -> Iterator[str]:
    """Headings of the glossary."""
    if result.n_factors == 1:
        yield "One factor" if result.certain else "Unclear"
        return
    if not result.certain:
        yield "Points differ" if result.reason.code == "points_differ" else "Not certain"
    if not result.linear:
        yield "No common basis"
    elif all(known(f.axis_angle) and (f.axis_angle or 0.0) <= CLOSE for f in result.factors):
        yield "Already there"
    else:
        yield "Change the basis"
