"""What the command line prints of a screen: its audit, its evaluation, its components and its cleaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from identifiable.report.cleaning_reading import (
    COMPONENT_HEADS,
    REMOVED_HEADS,
    apply_command,
    apply_words,
    by_biological,
    by_technical,
    component_line,
    cost_words,
    gain_words,
    metric_lines,
    metric_space_name,
    metric_spaces,
    outputs_words,
    removed_lines,
    removed_words,
    reproducible_words,
    role_words,
)
from identifiable.report.frame import Screened, alert_lines, saved_form
from identifiable.report.render.terminal import WIDTH, aligned, wrapped
from identifiable.report.screen_evaluation_reading import (
    DIFFERENCE_HEADS,
    LEAKAGE_HEADS,
    SPARSITY_HEADS,
    Board,
    Protocol,
    difference_line,
    differences,
    layout_words,
    leakage_lines,
    probe_words,
    rotation_words,
    sparse_conditions,
    sparsity_lines,
    time_words,
    unscored_words,
)
from identifiable.report.screen_methods import (
    CONCLUDE,
    FEW_SPLITS,
    INVARIANT,
    LEAKAGE,
    NEXT,
    ONE_SPACE,
    PAIRED,
    SAME_AXES,
    SCORES_WORDS,
    classifier_name,
    protocol_name,
    representation_name,
    verdict_name,
)
from identifiable.report.screen_reading import (
    BLIND_HEADS,
    DEPENDENCE_HEADS,
    FOLD_HEADS,
    NAME,
    ROLE_HEADS,
    blind_lines,
    confounding_words,
    dependence_lines,
    estimate,
    findings_by_severity,
    fold_lines,
    fold_words,
    role_lines,
    screen_name,
    sentence_of,
    severity_name,
    size_words,
    skipped_words,
)
from identifiable.report.words import MISSING, clip, columns_wide, count, number, one_line, signed
from identifiable.results import Attribution, Audit, Cleaning, ScreenDesign, ScreenEvaluation

LINES = 12  # of a table; more would scroll the verdict off the screen
CELLS = (60, 40, 32, 26, 22)  # columns of a cell of words, from what one would like to the least
CLASSES = 6  # where a line of a classifier goes on to its classes, for which a terminal has no room
BETWEEN = 2  # blanks between columns


def _opening(result: Screened, verdict: str, text: str) -> list[str]:
    head = wrapped(f"{screen_name(result)}   {size_words(result.design)}", "  ")
    return [head, wrapped(f"{verdict}: {sentence_of(text)}" if verdict else sentence_of(text))]


def _said(*words: str) -> list[str]:
    return [wrapped(text, "  ") for text in words if text]


def _printed(parts: Sequence[str], result: Screened) -> str:
    return "\n".join([*parts, *alert_lines(result.alerts)]).rstrip("\n") + "\n"


def _table(
    title: str, heads: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int] = (0,), most: int = LINES
) -> list[str]:
    """A table that fits the terminal: long words are cut, and columns that find no room are left out, the last first."""
    if not lines:
        return []
    for room in CELLS:
        cells = [[clip(cell, room) for cell in line] for line in lines[:most]]
        widths = [max(columns_wide(line[i]) for line in (heads, *cells)) for i in range(len(heads))]
        if _width(widths) <= WIDTH:
            break
    fitting = len(heads)
    while fitting > 1 and _width(widths[:fitting]) > WIDTH:
        fitting -= 1
    more = len(lines) - most
    return [
        "",
        *_said(title),
        aligned(heads[:fitting], [cell[:fitting] for cell in cells], left),
        *([f"… and {count(more)} more: in the report and the JSON"] if more > 0 else []),
    ]


def _width(columns: Sequence[int]) -> int:
    return sum(columns) + BETWEEN * (len(columns) - 1)


# -- before any fit


def roles_table(name: str, design: ScreenDesign) -> str:
    """How many wells and plates there are, and which column plays which role."""
    head = wrapped(f"{clip(one_line(name), NAME)}   {size_words(design)}", "  ")
    return "\n".join([head, *_table("", ROLE_HEADS, role_lines(design), left=(0, 1, 3))[1:]]) + "\n"


# -- audit

BLIND_TITLE = "AUROC without the embedding, and of plates and batches from it"


def audit_table(result: Audit) -> str:
    """Verdict, what follows, findings, roles, classifiers that never saw a cell, dependence, folds."""
    saved = saved_form(result)
    parts = _opening(saved, verdict_name(saved.verdict), saved.text)
    parts += _said(CONCLUDE.get(saved.verdict, ""), NEXT.get(saved.verdict, ""))
    found = findings_by_severity(saved)
    parts += [""] if found else []
    parts += [
        wrapped(f"{severity_name(f.severity):<8} {one_line(f.code)}: {one_line(f.message)}", " " * 9) for f in found
    ]
    parts += _table("", ROLE_HEADS, role_lines(saved.design), left=(0, 1, 3))
    parts += _table(BLIND_TITLE, BLIND_HEADS[:CLASSES], [line[:CLASSES] for line in blind_lines(saved)], (0, 1, 2))
    parts += _table(
        "Mutual information of the label with its place, in nats", DEPENDENCE_HEADS, dependence_lines(saved)
    )
    parts += ["", *_said(confounding_words(saved), fold_words(saved) if saved.folds else "")]
    broken = [line for line, fold in zip(fold_lines(saved), saved.folds, strict=True) if fold.problem]
    parts += _table("", FOLD_HEADS, broken, left=(0, 4, 5))
    return _printed([*parts, *_said(skipped_words(saved.skipped))], saved)


# -- evaluation


def evaluation_table(result: ScreenEvaluation) -> str:
    """Verdict, advice, AUROC by representation, paired differences, leakage, sparsity, time."""
    saved = saved_form(result)
    board = Board(saved)
    parts = _opening(saved, verdict_name(saved.verdict), saved.text)
    parts.append(wrapped(f"Use ICA here? {one_line(saved.advice.answer)}: {sentence_of(saved.advice.sentence)}"))
    parts += [wrapped(f"  - {sentence_of(reason)}", "    ") for reason in saved.advice.reasons]
    for protocol in board.protocols:
        parts += _scores(board, protocol)
    if board.protocols:
        first = board.protocols[0]
        told = [layout_words(board, first), rotation_words(board, first), probe_words(board, first)]
        parts += _said(ONE_SPACE, *told)
        parts += _differences(saved, board)
        parts += _table(FEW_SPLITS, SPARSITY_HEADS, sparsity_lines(sparse_conditions(board, first)))
    parts += _table(LEAKAGE, LEAKAGE_HEADS, leakage_lines(saved), left=(0, 1, 2))
    times = time_words(saved)
    parts += ["", *_said(f"Time: {times}" if times else "", *unscored_words(saved), skipped_words(saved.skipped))]
    return _printed(parts, saved)


def _differences(result: ScreenEvaluation, board: Board) -> list[str]:
    """Paired differences over all targets, under what was left out."""
    tables = [
        (protocol_name(*protocol), [difference_line(d) for d in differences(result, protocol)])
        for protocol in board.protocols
    ]
    found = [
        line for name, lines in tables for line in _table(f"Differences, {name}", DIFFERENCE_HEADS, lines, left=(0, 1))
    ]
    return [*found, *(_said(PAIRED) if found else [])]


def _scores(board: Board, protocol: Protocol) -> list[str]:
    """One line for each representation: the main classifier with intervals, the probe beside it."""
    probed = bool(board.probe)
    lines = []
    for name in board.representations(protocol):
        main, probe = board.at(protocol, name, board.main), board.at(protocol, name, board.probe)
        if main is not None:
            beside = (MISSING if probe is None else number(probe.auroc),) if probed else ()
            lines.append(
                (
                    representation_name(name),
                    estimate(main.auroc, main.ci95),
                    estimate(main.within_plate, main.within_plate_ci95),
                    *beside,
                    signed(main.excess),
                )
            )
    heads = (
        "representation",
        f"{classifier_name(board.main)} [95 %]",
        "within plate [95 %]",
        *((clip(classifier_name(board.probe), CELLS[-1]),) if probed else ()),
        "over null",
    )
    name = protocol_name(*protocol)
    return _table(f"AUROC, {name}", heads, lines, most=30)


# -- attribution and cleaning


def attribution_table(result: Attribution) -> str:
    """Headline, the most technical and the most biological components."""
    saved = saved_form(result)
    parts = _opening(saved, "", saved.text)
    parts += _said(f"Components: {role_words(saved)}; reproducible {reproducible_words(saved)}.")
    parts += [] if saved.converged else _said("ICA did NOT converge: components may be others in the next run.")
    technical = by_technical(saved.of_role("technical", "both"))
    biological = [c for c in by_biological(saved.of_role("biological", "both")) if c not in technical]
    rest = [] if technical or biological else by_technical(saved.components)
    for title, cards in (("Most technical", technical), ("Most biological", biological), ("Neither", rest)):
        parts += _table(title, COMPONENT_HEADS, [component_line(c) for c in cards], left=(0, 1, 4, 5))
    return _printed([*parts, "", *_said(SCORES_WORDS)], saved)


def cleaning_table(result: Cleaning) -> str:
    """Verdict, price, what was removed, metrics, what was written and how it is applied."""
    saved = saved_form(result)
    parts = _opening(saved, verdict_name(saved.verdict), saved.text)
    cost = cost_words(saved)
    parts += _said(f"{removed_words(saved)}.", cost, gain_words(saved), SAME_AXES if cost else "")
    parts += _table("", REMOVED_HEADS, removed_lines(saved), left=(0, 1, 5))
    heads = ("metric", *map(metric_space_name, metric_spaces(saved)))
    parts += _table("", heads, metric_lines(saved), most=30)
    parts += _said(INVARIANT) if any(m.rotation_invariant for m in saved.metrics) else []
    parts += ["", *_said(outputs_words(saved), apply_words(saved)), f"  {apply_command(saved)}"]
    return _printed(parts, saved)
