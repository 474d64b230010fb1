"""What the page of `deconfound evaluate` and its terminal table both say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from identifiable.report.screen_methods import (
    BLIND,
    HELD_OUT,
    LIGHTGBM,
    LINEAR,
    ROTATIONS,
    classifier_name,
    named,
    representation_name,
)
from identifiable.report.screen_reading import estimate, some
from identifiable.report.words import MISSING, count, interval, known, listed, number, one_line, percent, signed, yes_no
from identifiable.results import ConditionScore, Difference, Interval, Leakage, ScreenEvaluation
from identifiable.results.evaluation import ALL

ALIKE = 0.002  # AUROC of a linear probe that rotations may differ by: its penalty is solved to a tolerance
FIRST = ("ica", "pca")  # the difference that the page is about

SCORE_HEADS = ("AUROC [95 %]", "s.e.", "within plate [95 %]", "over null guides [95 %]", "folds")
DIFFERENCE_HEADS = ("difference", "classifier", "pooled [95 %]", "within plate [95 %]")
LEAKAGE_HEADS = (
    "representation",
    "classifier",
    "left out",
    "fitted to all",
    "to training plates",
    "gain [95 %]",
)
SPARSITY_HEADS = ("representation", "splits", "Hoyer", "by chance", "above chance")
CONCENTRATION_HEADS = (
    "representation",
    "top",
    "features",
    "AUROC top",
    "rest",
    "whole",
    "difference",
    "Gini",
    "ratio",
    "above chance",
)
FITTED_HEADS = ("representation", "fitted to", "fold", "width", "converged", "reproducible", "Gaussian", "note")
TIME_HEADS = ("stage", "time", "share", "units", "read again")

Protocol = tuple[str, str]


@dataclass(frozen=True)
class Board:
    """The conditions of an evaluation, to be asked for by name; classifiers and protocols in the order in which they are shown."""

    result: ScreenEvaluation

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, str, str, str], ConditionScore]:
        found: dict[tuple[str, str, str, str, str], ConditionScore] = {}
        for c in self.result.conditions:
            found.setdefault((c.representation, c.classifier, c.target, c.held_out, c.fit), c)
        return found

    @cached_property
    def protocols(self) -> list[Protocol]:
        """What is left out and what representations are fitted to, the headline first."""
        return list(dict.fromkeys((c.held_out, c.fit) for c in self.result.conditions))

    @cached_property
    def classifiers(self) -> list[str]:
        """LightGBM first, then linear probes."""
        found = dict.fromkeys(c.classifier for c in self.result.conditions)
        return sorted(found, key=lambda name: 0 if name == LIGHTGBM else 1 if name in LINEAR else 2)

    @property
    def main(self) -> str:
        """The classifier of the headline."""
        return self.classifiers[0] if self.classifiers else ""

    @cached_property
    def probe(self) -> str:
        """The linear probe, or nothing."""
        return next((name for name in self.classifiers if name in LINEAR and name != self.main), "")

    def representations(self, protocol: Protocol) -> list[str]:
        """Those scored over all targets; what never saw a picture comes last."""
        found = dict.fromkeys(
            c.representation for c in self.result.conditions if (c.held_out, c.fit) == protocol and c.target == ALL
        )
        return sorted(found, key=lambda name: name in BLIND)

    def at(self, protocol: Protocol, representation: str, classifier: str, target: str = ALL) -> ConditionScore | None:
        """One condition; what never saw a picture needs no classifier of that name."""
        found = self._by_name.get((representation, classifier, target, *protocol))
        if found is None and representation in BLIND and classifier == self.main:
            return next(
                (f for name in self.classifiers if (f := self._by_name.get((representation, name, target, *protocol)))),
                None,
            )
        return found

    def auroc(self, protocol: Protocol, representation: str, classifier: str) -> float:
        found = self.at(protocol, representation, classifier)
        return float("nan") if found is None else found.auroc

    def of_rotations(self, protocol: Protocol, classifier: str) -> list[tuple[str, float]]:
        """AUROC of the three rotations of one space, where known."""
        scored = ((name, self.auroc(protocol, name, classifier)) for name in ROTATIONS)
        return [(name, value) for name, value in scored if known(value)]


def null_auroc(condition: ConditionScore) -> float:
    """What null guides score: the AUROC less its excess over them."""
    return condition.auroc - condition.excess


# -- sentences


def gain_words(result: ScreenEvaluation) -> str:
    """ICA less PCA, with its interval."""
    found = first_difference(result)
    return MISSING if found is None else change(found.difference, found.ci95)


def first_difference(result: ScreenEvaluation) -> Difference | None:
    """ICA less PCA of the headline's classifier and protocol, or the first there is."""
    board = Board(result)
    wanted = [d for d in result.differences if (d.first, d.second) == FIRST and d.target == ALL]
    ranked = sorted(
        wanted, key=lambda d: (d.classifier != board.main, (d.held_out, d.fit) != next(iter(board.protocols), None))
    )
    return ranked[0] if ranked else None


def change(value: float, bounds: Interval) -> str:
    """A difference with its sign and its interval."""
    said = interval(bounds)
    return signed(value) if said == MISSING or not known(value) else f"{signed(value)} {said}"


def probe_words(board: Board, protocol: Protocol) -> str:
    """Whether the linear probe scores rotations alike, as it must; empty without one."""
    scored = board.of_rotations(protocol, board.probe)
    if len(scored) < 2:
        return ""
    said = listed(f"{number(value)} on {representation_name(name)}" for name, value in scored)
    apart = max(v for _, v in scored) - min(v for _, v in scored)
    if apart <= ALIKE:
        return f"The {classifier_name(board.probe)} scores {said}: alike, as it must."
    return (
        f"The {classifier_name(board.probe)} scores {said}: {number(apart)} apart, though rotations cannot differ to a linear probe. Its "
        "penalty, its solver or its folds differ between them; do not read this difference as a finding."
    )


def layout_words(board: Board, protocol: Protocol) -> str:
    """What classifiers score that never saw a picture; empty without them."""
    seen = [name for name in board.representations(protocol) if name not in BLIND]
    blind = [
        (name, found)
        for name in board.representations(protocol)
        if name in BLIND and (found := board.at(protocol, name, board.main)) is not None and known(found.auroc)
    ]
    if not blind:
        return ""
    said = listed(f"{representation_name(name)} {estimate(c.auroc, c.ci95)}" for name, c in blind)
    best = max((v for name in seen if known(v := board.auroc(protocol, name, board.main))), default=None)
    over = [representation_name(name) for name, c in blind if best is not None and c.auroc >= best]
    told = f"Without a picture: {said}."
    if over:
        told += f" No representation scores more than {listed(over)}: what they score need not be biology."
    return told


def rotation_words(board: Board, protocol: Protocol) -> str:
    """Where ICA lies among random rotations; empty where they were not drawn."""
    rand, ica = board.at(protocol, "rand", board.main), board.at(protocol, "ica", board.main)
    if rand is None or not all(map(known, rand.spread)):
        return ""
    low, high = rand.spread
    told = f"Random rotations score from {number(low)} to {number(high)}, {number(rand.auroc)} on average"
    if ica is None or not known(ica.auroc):
        return f"{told}."
    side = "above all of them" if ica.auroc > high else "below all of them" if ica.auroc < low else "among them"
    return f"{told}; ICA's {number(ica.auroc)} lies {side}."


def time_words(result: ScreenEvaluation) -> str:
    """What took longest; empty without times."""
    timed = [t for t in result.times if known(t.seconds) and t.seconds > 0]
    whole = sum(t.seconds for t in timed)
    if not timed:
        return ""
    longest = max(timed, key=lambda t: t.seconds)
    kept = sum(t.kept for t in result.times)
    again = f" {count(kept)} units were read from an earlier run." if kept else ""
    return (
        f"{duration(whole)} in all; most of it, {percent(longest.seconds / whole)}, {one_line(longest.stage)}.{again}"
    )


def duration(seconds: float) -> str:
    """'12 s', '3.4 min', '2.1 h'."""
    if not known(seconds):
        return MISSING
    if seconds < 120:
        return f"{number(seconds, 1)} s"
    return f"{number(seconds / 60, 1)} min" if seconds < 7200 else f"{number(seconds / 3600, 1)} h"


# -- lines of tables


def score_lines(board: Board, protocol: Protocol) -> list[tuple[str, ...]]:
    """One line for each representation and classifier over all targets, under their names."""
    lines = []
    for representation in board.representations(protocol):
        for classifier in board.classifiers:
            c = board.at(protocol, representation, classifier)
            if c is not None:
                lines.append((representation_name(representation), classifier_name(c.classifier), *_figures(c)))
    return lines


def _figures(c: ConditionScore) -> tuple[str, ...]:
    return (
        estimate(c.auroc, c.ci95),
        number(c.se),
        estimate(c.within_plate, c.within_plate_ci95),
        change(c.excess, c.excess_ci95),
        count(c.folds),
    )


def differences(result: ScreenEvaluation, protocol: Protocol, target: str | None = ALL) -> list[Difference]:
    """ICA less PCA first; of all targets together, or (None) of each."""
    found = [
        d
        for d in result.differences
        if (d.held_out, d.fit) == protocol and ((d.target == target) if target is not None else d.target != ALL)
    ]
    return sorted(found, key=lambda d: (d.first, d.second) != FIRST)


def pair_name(found: Difference) -> str:
    return f"{representation_name(found.first)} - {representation_name(found.second)}"


def short_pair(found: Difference) -> str:
    """The pair in the room of a figure: without the PCA that all rotations share."""
    return pair_name(found).replace("PCA + ", "")


def difference_line(found: Difference) -> tuple[str, ...]:
    return (
        pair_name(found),
        classifier_name(found.classifier),
        change(found.difference, found.ci95),
        change(found.within_plate, found.within_plate_ci95),
    )


def leakage_lines(result: ScreenEvaluation) -> list[tuple[str, ...]]:
    board = Board(result)
    return [
        (
            representation_name(found.representation),
            classifier_name(found.classifier),
            named(HELD_OUT, found.held_out),
            *(number(_fitted_to(board, found, fit)) for fit in ("all", "train")),
            change(found.difference, found.ci95),
        )
        for found in result.leakage
    ]


def _fitted_to(board: Board, found: Leakage, fit: str) -> float:
    return board.auroc((found.held_out, fit), found.representation, found.classifier)


def sparse_conditions(board: Board, protocol: Protocol) -> list[ConditionScore]:
    """Conditions of the headline's classifier whose splits were counted."""
    seen = (name for name in board.representations(protocol) if name not in BLIND)
    found = (board.at(protocol, name, board.main) for name in seen)
    return [c for c in found if c is not None and (known(c.hoyer) or known(c.n_splits))]


def sparsity_lines(conditions: Sequence[ConditionScore]) -> list[tuple[str, ...]]:
    return [
        (
            representation_name(c.representation),
            _splits(c.n_splits),
            number(c.hoyer),
            number(c.hoyer_null),
            signed(c.hoyer - c.hoyer_null),
        )
        for c in conditions
    ]


def _splits(value: float) -> str:
    return count(round(value)) if known(value) and abs(value) < 1e9 else number(value)


def concentration_lines(conditions: Sequence[ConditionScore]) -> list[tuple[str, ...]]:
    return [
        (
            representation_name(c.representation),
            f"{number(found.percent, 0)} %",
            count(found.features),
            *map(number, (found.top, found.rest, found.whole)),
            *map(signed, (found.difference, found.gini, found.ratio, found.above_chance)),
        )
        for c in conditions
        for found in c.concentration
    ]


def fitted_lines(result: ScreenEvaluation) -> list[tuple[str, ...]]:
    return [
        (
            representation_name(f.representation),
            "all wells" if f.fit == "all" else "training plates",
            MISSING if f.fit == "all" else str(f.fold),
            count(f.width),
            yes_no(f.converged),
            MISSING if f.identifiable is None else f"{count(f.identifiable)} of {count(f.width)}",
            MISSING if f.gaussian is None else count(f.gaussian),
            one_line(f.note) or MISSING,
        )
        for f in result.fitted
    ]


def time_lines(result: ScreenEvaluation) -> list[tuple[str, ...]]:
    whole = sum(t.seconds for t in result.times if known(t.seconds))
    return [
        (
            one_line(t.stage),
            duration(t.seconds),
            percent(t.seconds / whole) if known(t.seconds) and whole > 0 else MISSING,
            count(t.units),
            count(t.kept) if t.kept else MISSING,
        )
        for t in sorted(result.times, key=lambda t: -t.seconds if known(t.seconds) else 0.0)
    ]


def target_names(result: ScreenEvaluation) -> list[str]:
    """Targets, then null guides."""
    return list(dict.fromkeys((*result.targets, *result.null_targets)))


def unscored(result: ScreenEvaluation) -> dict[str, list[str]]:
    """Why some conditions have no score, and which they are."""
    why: dict[str, list[str]] = {}
    for c in result.conditions:
        if c.skipped:
            target = "" if c.target == ALL else f", {one_line(c.target)}"
            name = f"{representation_name(c.representation)}, {classifier_name(c.classifier)}{target}"
            why.setdefault(one_line(c.skipped), []).append(name)
    return why


def unscored_words(result: ScreenEvaluation) -> list[str]:
    return [f"Not scored ({reason}): {some(names)}." for reason, names in unscored(result).items()]
