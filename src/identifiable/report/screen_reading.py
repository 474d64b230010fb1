"""What pages and terminal tables of a screen both say: its size, its roles, and what the audit found, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from identifiable.report.frame import Screened
from identifiable.report.page import Block, Column, Fold, Mark, MarkKind, Section, Table, Text
from identifiable.report.screen_methods import batches_words, representation_name
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    interval,
    known,
    listed,
    number,
    one_line,
    percent,
    probability,
    short,
    yes_no,
)
from identifiable.results import Audit, BlindScore, Finding, Interval, ScreenDesign

SEVERITIES = ("stop", "caution", "fine")
LISTED = 30  # lines of a table before the rest is folded away
MOST_LISTED = 2000  # beyond it a page would not travel by mail
NAME = 40  # characters of a perturbation's or a column's name
EXAMPLES = 5
PREDICTED = {
    "perturbation": "perturbations from controls",
    "each perturbation": "each perturbation from controls",
    "any perturbation": "any perturbation from controls",
    "plate": "plates from each other",
    "batch": "batches from each other",
}

ROLE_HEADS = ("role", "column", "values", "most frequent")
BLIND_HEADS = ("given", "to tell", "left out", "AUROC", "95 % interval", "by chance", "classes", "easiest")
DEPENDENCE_HEADS = ("label with", "information", "shuffled, mean", "q95", "share", "p")
FOLD_HEADS = ("fold", "plates", "wells", "controls", "without", "problem")


def screen_name(result: Screened) -> str:
    """The table as it is called in titles."""
    return display_name(result.inputs[0].name) if result.inputs else "screen"


def size_words(design: ScreenDesign) -> str:
    """'n 6,000, d 48, 12 plates in 3 batches, 40 perturbations, 960 control wells'."""
    batches = f" in {batches_words(design.batches)}" if design.batches is not None else ""
    return (
        f"n {count(design.n)}, d {count(design.d)}, {counted(design.plates, 'plate')}{batches}, "
        f"{counted(design.perturbations, 'perturbation')}, {counted(design.controls, 'control well')}"
    )


def sentence_of(text: str) -> str:
    """The words of a result as a sentence on one line."""
    said = one_line(text).strip()
    if not said:
        return MISSING
    return f"{said[0].upper()}{said[1:]}{'' if said.endswith(('.', '!', '?')) else '.'}"


def estimate(value: float | None, bounds: Interval | None) -> str:
    """'0.809 [0.790, 0.828]', without the interval where there is none."""
    said = interval(bounds)
    return number(value) if said == MISSING or not known(value) else f"{number(value)} {said}"


def inside(bounds: Interval | None, low: float, high: float) -> Interval | None:
    """An interval as far as figures can go, if there is one to draw."""
    if bounds is None or not (known(bounds[0]) and known(bounds[1])):
        return None
    return max(low, min(high, bounds[0])), max(low, min(high, bounds[1]))


def marks(*wanted: tuple[MarkKind, float], low: float = 0.0, high: float = 1.0) -> tuple[Mark, ...]:
    """Marks of a dot plot, of figures that can be drawn."""
    return tuple(Mark(kind, value) for kind, value in wanted if known(value) and low <= value <= high)


def some(names: Iterable[str], most: int = EXAMPLES) -> str:
    """'a, b, c and 4 more'."""
    items = [clip(one_line(name), NAME) for name in names]
    return f"{', '.join(items[:most])} and {count(len(items) - most)} more" if len(items) > most else ", ".join(items)


# -- the design


def design_section(design: ScreenDesign, *, folded: bool = False) -> Section:
    """Roles and counts."""
    roles = Table("Roles found", columns_of(ROLE_HEADS, numbers=(2,)), tuple(role_lines(design)))
    counts = Table("Counts", (Column("what", "text"), Column("count", "text")), tuple(count_lines(design)))
    blocks: tuple[Block, ...] = (*((roles,) if design.roles else ()), counts)
    return Section("design", "The screen", (Fold("Roles and counts", blocks),) if folded else blocks)


def role_lines(design: ScreenDesign) -> list[tuple[str, ...]]:
    return [
        (
            one_line(r.role).replace("_", " "),
            clip(one_line(r.column), NAME),
            count(r.values),
            some(r.examples) or MISSING,
        )
        for r in design.roles
    ]


def count_lines(design: ScreenDesign) -> list[tuple[str, str]]:
    """What there is of everything, in words."""
    lines = [
        ("wells", count(design.n)),
        ("features", count(design.d)),
        ("batches", MISSING if design.batches is None else count(design.batches)),
        ("plates", count(design.plates)),
        ("perturbations", count(design.perturbations)),
        ("targets", MISSING if design.targets is None else count(design.targets)),
        ("control wells", count(design.controls)),
        ("wells on a plate", _range(design.wells_per_plate)),
        ("controls on a plate", _range(design.controls_per_plate)),
        ("wells of a perturbation", _range(design.wells_per_perturbation)),
    ]
    if design.grid is not None:
        lines.append(("wells in use", f"{count(design.grid[0])} rows × {count(design.grid[1])} columns"))
    return lines


def _range(spread: tuple[int, float, int]) -> str:
    """'60 to 80, median 76'."""
    least, median, most = spread
    if least == most:
        return count(least)
    return f"{count(least)} to {count(most)}, median {short(round(median, 1)) if known(median) else MISSING}"


def columns_of(heads: Sequence[str], numbers: Sequence[int]) -> tuple[Column, ...]:
    """Columns of words, those at `numbers` of figures."""
    return tuple(Column(head, "number" if i in numbers else "text") for i, head in enumerate(heads))


def long_table(caption: str, columns: tuple[Column, ...], lines: Sequence[tuple[str, ...]], what: str) -> list[Block]:
    """A table of which all but the first lines are folded away."""
    if not lines:
        return []
    blocks: list[Block] = [Table(caption, columns, tuple(lines[:LISTED]))]
    if len(lines) > LISTED:
        rest = Table(caption, columns, tuple(lines[LISTED:MOST_LISTED]))
        blocks.append(Fold(f"{counted(len(lines) - LISTED, f'more {what}')}", (rest,)))
    if len(lines) > MOST_LISTED:
        blocks.append(Text(f"In the JSON result: {counted(len(lines) - MOST_LISTED, f'further {what}')}.", note=True))
    return blocks


def skipped_section(skipped: Mapping[str, str]) -> Section:
    """What was not evaluated, and why."""
    lines = [(clip(one_line(name), NAME), one_line(why)) for name, why in skipped.items()]
    heads = (Column("perturbation", "text"), Column("why", "text"))
    caption = f"Not evaluated: {counted(len(lines), 'perturbation')}"
    return Section("skipped", "Skipped", tuple(long_table(caption, heads, lines, "perturbation")))


def skipped_words(skipped: Mapping[str, str]) -> str:
    """One sentence of what was skipped; empty if nothing was."""
    if not skipped:
        return ""
    return f"Not evaluated: {counted(len(skipped), 'perturbation')} ({some(skipped)})."


# -- the audit


def findings_by_severity(result: Audit) -> list[Finding]:
    """What stops one first, what is fine last."""
    return sorted(result.findings, key=lambda f: SEVERITIES.index(f.severity) if f.severity in SEVERITIES else 0)


def severity_name(severity: str) -> str:
    """As a reader sees it: what needs nothing to be done is a note, not praise."""
    return "note" if severity == "fine" else one_line(severity)


def severity_words(result: Audit) -> str:
    """'1 stop, 2 caution, 5 fine'."""
    found = [f.severity for f in result.findings]
    return ", ".join(f"{count(found.count(s))} {severity_name(s)}" for s in SEVERITIES if s in found) or MISSING


def given(score: BlindScore) -> str:
    """What a classifier was given."""
    return representation_name(score.features)


def told(predicts: str) -> str:
    """What a classifier tells from what."""
    return PREDICTED.get(predicts, one_line(predicts).replace("_", " "))


def blind_lines(result: Audit) -> list[tuple[str, ...]]:
    return [
        (
            given(score),
            told(score.predicts),
            one_line(score.held_out).replace("_", " "),
            number(score.auroc),
            interval(score.ci95),
            number(score.chance),
            count(score.targets),
            f"{clip(one_line(score.worst), NAME)} {number(score.worst_auroc)}" if score.worst else MISSING,
        )
        for score in result.blind
    ]


def dependence_lines(result: Audit) -> list[tuple[str, ...]]:
    return [
        (
            clip(one_line(found.what).replace("_", " "), NAME),
            number(found.information),
            number(found.null_mean),
            number(found.null_q95),
            percent(found.share),
            probability(found.p),
        )
        for found in result.dependences
    ]


def confounding_words(result: Audit) -> str:
    if not known(result.confounding):
        return "Without batches there is no confounding of batch and perturbation to measure."
    return f"Batch and perturbation: Cramér's V {number(result.confounding)} (0 is unrelated, 1 is one and the same)."


def fold_lines(result: Audit) -> list[tuple[str, ...]]:
    return [
        (
            str(fold.fold),
            count(fold.plates),
            count(fold.rows),
            count(fold.controls),
            some(fold.missing) or MISSING,
            one_line(fold.problem) or MISSING,
        )
        for fold in result.folds
    ]


def fold_words(result: Audit) -> str:
    """How many folds can be used, and which cannot."""
    bad = [str(fold.fold) for fold in result.folds if fold.problem]
    if not bad:
        return f"{counted(len(result.folds), 'fold')} of plates, each with controls and perturbations."
    return f"Folds of plates that cannot be used as they are: {listed(bad)} (of {count(len(result.folds))})."


def feature_lines(result: Audit) -> list[tuple[str, str]]:
    found = result.features
    pairs = "; ".join(f"rows {count(a)} and {count(b)}" for a, b in found.duplicate_pairs[:EXAMPLES])
    return [
        ("constant features", count(found.constant)),
        ("rank", f"{count(found.rank)} of {count(result.design.d)}"),
        (
            "rows that repeat another",
            f"{count(found.duplicate_rows)} ({pairs})" if pairs else count(found.duplicate_rows),
        ),
        ("median |excess kurtosis|", number(found.median_kurtosis)),
        ("made Gaussian", yes_no(found.gaussianised)),
        ("wells per feature", number(found.n_over_d, 1)),
    ]
