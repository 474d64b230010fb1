"""The page of `deconfound recommend`: which correction to use, how all of them compare, and the wells before and after."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Code,
    Column,
    Curves,
    DotRow,
    Dots,
    Fold,
    Grid,
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.screen import (
    NO_DIFFERENCE,
    design_section,
    long_table,
    screen_card,
    screen_name,
    size_words,
)
from identifiable.report.screen_names import RETRIEVAL, label_name, method_name
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    estimate,
    known,
    named,
    number,
    one_line,
    percent,
    plural,
    signed,
)
from identifiable.results import AskedMetric, MethodScore, Recommendation, TriedMethod, WellPicture

VERDICTS: dict[str, tuple[str, Tone]] = {
    "recommended": ("recommended", "good"),
    "tie": ("a tie", "caution"),
    "keep-as-is": ("keep as it is", "plain"),
}
PAPERS = {"consensus": "ljosa", "consensus_batch": "ando", "replicate_map": "kalinin"}  # of metrics
HEADS = {
    "nn_euclidean": "1-NN",
    "nn_cosine": "cosine",
    "consensus": "consensus",
    "consensus_batch": "other batch",
    "replicate_map": "mAP",
    "batch_readable": "batch",
}
FITTED = {"own controls": "controls", "all rows": "all wells, no labels"}
SPACES = {"before": "before", "after": "after"}
PICTURES = {"pca": ("PCA", "principal component"), "umap": ("UMAP", "UMAP axis")}
STYLES, GREY = (0, 1, 2, 3, 4, 5, 7), 6  # of clouds
DRAWN = 12  # methods in the figure
AS_IS = "as-is"
REACH = 1.5  # standard deviations, at which a plate map is deepest in colour
UNSAVED = "correction.safetensors"
BASIS = ".safetensors"


def _parts(result: Recommendation) -> str:
    """What was held out: 'batches'."""
    return plural(result.held_out)


def metric_name(key: str) -> str:
    return named(RETRIEVAL, key)


def page(result: Recommendation) -> Page:
    words = glossary("recommendation")
    before_after = "" if result.written == AS_IS else " before and after"
    fitted = [f"Methods: {method.name}" for method in result.methods]
    measured = [m.metric for m in result.metrics if m.metric in RETRIEVAL]
    return framed(
        result,
        title=f"{screen_name(result)}: which correction helps",
        subtitle=f"Corrections of a screen, compared with the table as it came on whole {_parts(result)} held out",
        guide="All numbers are compared with the input, the better of the table as it is and its z-scored columns. A method is used "
        "only if no biological metric suffers; otherwise the table is kept as it is.",
        verdict=[_card(result)],
        sections=[
            section("methods", "Methods, best first", _methods(result)),
            section("choice", "The choice, held out", _choice(result)),
            section("wells", f"Wells{before_after}", _pictures(result)),
            section("plates", f"The mean plate{before_after}", _plates(result)),
            section("asked", "What the metrics ask", _asked(result)),
            section("outputs", "Files, and new plates", _outputs(result)),
            design_section(result.design),
        ],
        reading=(
            Text(words[""]),
            terms(
                "recommendation",
                "Differences to the input",
                "Harmless",
                "Which method is used",
                "The choice, held out",
                "Keep your data as it is",
                *map(metric_name, measured),
            ),
        ),
        methods=(
            f"{size_words(result.design)}. {counted(len(result.methods), 'method')} were compared, with "
            f"{counted(result.folds, 'part')} of whole {plural(result.held_out)} held out in turn. "
            + " ".join(words[name] for name in ("Methods", *fitted) if name in words),
            f"Seed {result.provenance.seed}.",
        ),
        papers=dict.fromkeys(("nelson", *(PAPERS[metric] for metric in measured if metric in PAPERS))),
    )


def _card(result: Recommendation) -> Card:
    badge, tone = VERDICTS.get(result.verdict, (one_line(result.verdict), "caution"))

    held_out = {score.metric: score.value for score in result.nested}

    def from_to(metric: AskedMetric) -> tuple[str, str]:
        after = held_out.get(metric.metric)
        said = number(metric.value)
        if after is not None and result.verdict != "keep-as-is":
            said = f"{said} → {number(after)} held out"
        return metric_name(metric.metric), said

    best = "best method" if result.verdict == "keep-as-is" else "method"
    same = count(round(result.stable * result.folds)) if known(result.stable) else MISSING
    facts = [
        (best, method_name(one_line(result.chosen))),
        ("family chosen in", f"{same} of {counted(result.folds, 'fold')}"),
        *map(from_to, result.metrics),
        ("margin", number(result.margin, 2)),
    ]
    return screen_card(result, badge, tone, facts)


# -- the methods


def _limiting(result: Recommendation, method: TriedMethod) -> MethodScore | None:
    """The biological metric in which a method is worst against the input."""
    low = {m.metric for m in result.metrics if m.better == "low"}
    found = [s for s in result.scores if s.method == method.name and s.metric not in low and known(s.difference)]
    return min(found, key=lambda s: s.difference, default=None)


def _methods(result: Recommendation) -> Iterator[Block]:
    rows = []
    for method in result.methods[:DRAWN]:
        if method.family == "input" or (score := _limiting(result, method)) is None:
            continue
        rows.append(
            DotRow(
                label_name(one_line(method.name)),
                signed(score.difference),
                marks(("main", score.difference)),
                interval=score.difference_ci95,
                strong=method.name == result.chosen,
            )
        )
    if rows:
        yield Dots(
            "The metric in which each method is worst, minus the input",
            "Best first. Left of 0 the method loses biology in at least this metric.",
            "difference to the input",
            tuple(rows),
            (("main", "smallest difference"), ("whisker", f"95 % interval over {_parts(result)} held out")),
            NO_DIFFERENCE,
            span=True,
        )
    heads = _heads(result)
    lines = []
    for method in result.methods:
        found = [result.score(method.name, m.metric) for m in result.metrics]
        flags = ["chosen"] * (method.name == result.chosen) + ["tied"] * (method.tied and method.name != result.chosen)
        flags += [] if method.harmless or method.family == "input" else ["worse"]
        cells = tuple(MISSING if s is None else number(s.value) for s in found)
        picks = count(method.picks) if method.picks else MISSING
        lines.append((method_name(one_line(method.name)), ", ".join(flags) or MISSING, *cells, picks))
    yield Table(
        f"Scores on {_parts(result)} held out; ↓ lower is better. Worse: below the input in a biological metric. Tied: within a standard "
        f"error of the best correction in each. Folds: how often the method is chosen without some {_parts(result)}. Sphering: its ridge",
        columns("method", "verdict", *heads, "folds", words=("verdict",)),
        tuple(lines),
        strong=next((i for i, m in enumerate(result.methods) if m.name == result.chosen), None),
        brief=True,
        brief_rows=8,
    )
    yield Fold("Differences to the input with intervals, and how methods were fitted", tuple(_differences(result)))
    if result.skipped:
        yield Table(
            "Not tried",
            columns("method", "why", words=("why",)),
            tuple((method_name(one_line(name)), one_line(why)) for name, why in result.skipped.items()),
        )


def _heads(result: Recommendation) -> list[str]:
    """Short names of the metrics, for tables."""
    return [named(HEADS, m.metric) + (" ↓" if m.better == "low" else "") for m in result.metrics]


def _differences(result: Recommendation) -> Iterator[Block]:
    lines = []
    for method in result.methods:
        found = [result.score(method.name, m.metric) for m in result.metrics]
        cells = (MISSING if s is None else estimate(s.difference, s.difference_ci95, signed) for s in found)
        fitted = named({**FITTED, "training": f"other {_parts(result)}"}, method.fitted)
        lines.append((method_name(one_line(method.name)), *cells, fitted, one_line(method.note) or MISSING))
    heads = _heads(result)
    table = Table(
        "Method minus input [95 %]",
        columns("method", *heads, "fitted to", "fit", words=("fitted to", "fit")),
        tuple(lines),
    )
    yield from long_table(table, "method")


# -- the choice


def _choice(result: Recommendation) -> Iterator[Block]:
    if result.nested:
        yield Table(
            f"A method chosen without each part of the {_parts(result)}, scored on that part",
            columns("metric", "held out", "minus input [95 %]"),
            tuple(
                (
                    metric_name(s.metric),
                    number(s.value),
                    estimate(s.difference, s.difference_ci95, signed),
                )
                for s in result.nested
            ),
            brief=True,
        )
    lines = tuple(
        (one_line(", ".join(pick.held_out)), method_name(one_line(pick.method)), one_line(pick.family))
        for pick in result.picks
    )
    yield Fold(
        "The method chosen without each part",
        (Table("Picks", columns("held out", "method", "family", words=("method", "family")), lines),),
    )


# -- pictures


def _pictures(result: Recommendation) -> Iterator[Block]:
    for picture in result.pictures:
        name, axis = PICTURES[picture.method]
        for colours, names, what in (
            (picture.batch, picture.batches, "batch"),
            (picture.label, picture.labels, "target" if result.design.targets else "perturbation"),
        ):
            for space, points in (("before", picture.before), ("after", picture.after)):
                if not any(all(map(known, p)) for p in points) or _is_before(result, space):
                    continue
                said = "of the table as it is" if result.written == AS_IS else space
                yield _scatter(picture, points, colours, names, f"{name} {said}, coloured by {what}", axis)
    if result.pictures:
        after = "" if result.written == AS_IS else f"After: {method_name(one_line(result.written))}. "
        yield Text(f"{after}Each dot is a well, at most 500 drawn at random. Grey: all other names.", note=True)


def _is_before(result: Recommendation, space: str) -> bool:
    """Whether a picture is that of the table before: where the table is kept, nothing comes after."""
    return result.written == AS_IS and space == "after"


def _scatter(
    picture: WellPicture,
    points: tuple[tuple[float, float], ...],
    colours: tuple[int, ...],
    names: tuple[str, ...],
    title: str,
    axis: str,
) -> Curves:
    clouds = [Cloud("other", _where(points, colours, -1), "main", GREY)] if -1 in colours else []
    clouds += [
        Cloud(one_line(name), _where(points, colours, k), "main", STYLES[k % len(STYLES)])
        for k, name in enumerate(names)
    ]
    return Curves(
        title,
        "Axes are in units of the spread along the first. Points far out are drawn at the edge.",
        f"{axis} 1",
        f"{axis} 2",
        clouds=tuple(cloud for cloud in clouds if cloud.points),
        across_base=0.0,
    )


def _where(
    points: tuple[tuple[float, float], ...], colours: tuple[int, ...], colour: int
) -> tuple[tuple[float, float], ...]:
    return tuple(p for p, c in zip(points, colours, strict=False) if c == colour and all(map(known, p)))


def _plates(result: Recommendation) -> Iterator[Block]:
    for plate in result.plate_maps:
        if _is_before(result, plate.space):
            continue
        yield Grid(
            "Mean plate" if result.written == AS_IS else f"Mean plate, {named(SPACES, plate.space)}",
            "Along the direction in which controls vary most within plates, plate means taken out. Edges or gradients are "
            "position effects; treatments that always have the same address show as well.",
            plate.rows,
            plate.columns,
            plate.values,
            REACH,
            "standard deviations",
        )


# -- what was asked, and files


def _asked(result: Recommendation) -> Iterator[Block]:
    yield Table(
        "Only wells (medians, of consensus metrics) for which a right answer exists are counted",
        columns(
            "metric", "label", "other", "can be right", "of", "chance", "input", "better input",
            words=("label", "other", "better input"),
        ),
        tuple(
            (
                metric_name(m.metric),
                one_line(m.label),
                one_line(m.across),
                count(m.queries),
                count(m.of),
                number(m.chance),
                estimate(m.value, m.ci95),
                method_name(one_line(m.reference)),
            )
            for m in result.metrics
        ),
    )  # fmt: skip
    if result.wells < result.design.n:
        yield Text(
            f"Measured on {counted(result.wells, 'well')} of {count(result.design.n)}, whole perturbations drawn at random "
            f"({percent(result.wells / result.design.n)}).",
            note=True,
        )


def _outputs(result: Recommendation) -> Iterator[Block]:
    if result.outputs:
        files = tuple((one_line(path),) for path in result.outputs)
        yield Table("Files", (Column("file", "code"),), files)
    if result.verdict == "keep-as-is":
        yield Text("The table that is written is the input, with a column that says so.")
        return
    method = next((m for m in result.methods if m.name == result.written), None)
    if method is not None and (method.fitted == "all rows" or method.family == "tvn"):
        yield Text(
            "This method corrects only the plates it was fitted to. With new plates, run recommend on all of them."
        )
        return
    scaled = "Each new plate or batch is scaled by its own controls, found by the same columns, before the map. "
    needs = scaled if method is not None and method.family.startswith("control") else "New plates need no refit. "
    saved = next((path for path in result.outputs if path.endswith(BASIS)), None)
    keep = "" if saved else f"To keep the correction, run the command again with --save {UNSAVED}."
    yield Text(f"{needs}{keep}".strip())
    name = shlex.quote(one_line(saved or UNSAVED))
    yield Code("On new plates", f"identifiable transform {name} new_plates.parquet -o new_corrected.parquet")
