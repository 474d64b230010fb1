"""The conditions of an evaluation (representation, classifier, target, protocol) by name, and what they say together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from identifiable.report.pages.screen import CHANCE
from identifiable.report.screen_names import classifier_name, representation_name
from identifiable.report.words import MISSING, estimate, known, listed, named, number, signed
from identifiable.results import ConditionScore, Difference, ScreenEvaluation
from identifiable.results.evaluation import ALL

LIGHTGBM = "lightgbm"
LINEAR = ("linear", "ridge", "logistic", "linear_probe")
HELD_OUT = {"plate": "plates held out", "batch": "batches held out", "single-batch": "one batch at a time"}
FIT = {"all": "representations fitted to all wells", "train": "representations fitted to training plates only"}
BLIND = ("position", "plate", "batch", "cell_count")  # these contain no picture
ROTATIONS = ("pca", "ica", "rand")  # of one space
ALIKE = 0.002  # AUROC of a linear probe that rotations may differ by: its penalty is solved to a tolerance
GAIN = ("ica", "pca")  # the difference that an evaluation is about

Protocol = tuple[str, str]  # what is held out, what representations are fitted to


def protocol_name(held_out: str, fit: str) -> str:
    """'Plates held out, representations fitted to all wells'."""
    said = f"{named(HELD_OUT, held_out)}, {named(FIT, fit)}"
    return said[0].upper() + said[1:]


@dataclass(frozen=True)
class Conditions:
    """The conditions of an evaluation by name; protocols and classifiers in the order in which they are shown."""

    result: ScreenEvaluation

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, str, str, str], ConditionScore]:
        return {
            (c.representation, c.classifier, c.target, c.held_out, c.fit): c for c in reversed(self.result.conditions)
        }

    @cached_property
    def protocols(self) -> list[Protocol]:
        return list(dict.fromkeys((c.held_out, c.fit) for c in self.result.conditions))

    @cached_property
    def classifiers(self) -> list[str]:
        """LightGBM first, then linear probes."""
        found = dict.fromkeys(c.classifier for c in self.result.conditions)
        return sorted(found, key=lambda name: 0 if name == LIGHTGBM else 1 if name in LINEAR else 2)

    @property
    def main(self) -> str:
        """The classifier of the headline: the one that judged, in a saved result that does not say the first."""
        known = [self.result.judged_by] if self.result.judged_by in self.classifiers else self.classifiers
        return known[0] if known else ""

    @property
    def probe(self) -> str:
        """The linear probe beside it, or nothing."""
        return next((name for name in self.classifiers if name in LINEAR and name != self.main), "")

    def of(self, protocol: Protocol) -> list[ConditionScore]:
        """The conditions of a protocol, by classifier; what contains no picture comes last."""
        found = [c for c in self.result.conditions if (c.held_out, c.fit) == protocol]
        return sorted(found, key=lambda c: (self.classifiers.index(c.classifier), c.representation in BLIND))

    def representations(self, protocol: Protocol) -> list[str]:
        return sorted(dict.fromkeys(c.representation for c in self.of(protocol)), key=BLIND.__contains__)

    def at(self, protocol: Protocol, representation: str, classifier: str, target: str = ALL) -> ConditionScore | None:
        """One condition; what contains no picture has a classifier of its own, which stands for the main one."""
        stand_ins = self.classifiers if representation in BLIND and classifier == self.main else [classifier]
        found = (self._by_name.get((representation, name, target, *protocol)) for name in stand_ins)
        return next((c for c in found if c is not None), None)

    def auroc(self, protocol: Protocol, representation: str, classifier: str) -> float:
        found = self.at(protocol, representation, classifier)
        return math.nan if found is None else found.auroc

    def shown(self, protocol: Protocol) -> list[ConditionScore]:
        """Each representation under the main classifier over all targets, where it could be scored."""
        found = (self.at(protocol, name, self.main) for name in self.representations(protocol))
        return [c for c in found if c is not None and known(c.auroc)]

    def at_best(self, protocol: Protocol, representation: str) -> ConditionScore | None:
        """A representation under the classifier that clearly makes most of it: by the lower end of the interval, where that is known."""

        def least(c: ConditionScore) -> tuple[float, float]:
            return (c.ci95[0] if known(c.ci95[0]) else -math.inf, c.auroc)

        found = (c for c in self.of(protocol) if (c.representation, c.target) == (representation, ALL))
        return max((c for c in found if known(c.auroc)), key=least, default=None)

    def differences(self, protocol: Protocol) -> list[Difference]:
        """Over all targets and of each; ICA less PCA first."""
        found = [d for d in self.result.differences if (d.held_out, d.fit) == protocol]
        return sorted(found, key=lambda d: (d.first, d.second) != GAIN)

    def gain(self, *protocols: Protocol) -> str:
        """ICA less PCA over all targets in the first of these protocols that has it, by the main classifier if possible."""
        found = [d for p in protocols for d in self.differences(p) if (d.first, d.second, d.target) == (*GAIN, ALL)]
        first = min(found, key=lambda d: d.classifier != self.main, default=None)
        return MISSING if first is None else estimate(first.difference, first.ci95, signed)


# -- in words


def layout_words(scores: Conditions, protocol: Protocol) -> str:
    """What classifiers score that see no picture, each baseline and the representations by the classifiers that make most of them."""
    found = {name: of for name in BLIND if (of := scores.at_best(protocol, name)) is not None}
    blind = {representation_name(name): c for name, c in found.items()}
    if not blind:
        return ""
    over_all = (c for c in scores.of(protocol) if c.target == ALL and c.representation not in BLIND and known(c.auroc))
    best = max((c.auroc for c in over_all), default=math.inf)
    over = listed(name for name, c in blind.items() if c.auroc >= best)
    told = (f"{name} {estimate(c.auroc, c.ci95)} ({classifier_name(c.classifier)})" for name, c in blind.items())
    said = f"Without a picture, by the best classifier of each: {listed(told)}."
    if over:
        said = f"{said} No representation scores more than {over}: the scores need not be biology."
    position, own = found.get("position"), scores.at(protocol, "position", scores.main)
    if position is None or own is None or not (position.ci95[0] > CHANCE[1] and own.auroc < position.auroc):
        return said
    return (
        f"{said} Position scores less by {classifier_name(scores.main)} ({number(own.auroc)}). Compare every score with "
        f"{number(position.auroc)}, because a representation may contain position in a form that any classifier can read."
    )


def rotation_words(scores: Conditions, protocol: Protocol) -> str:
    """Where ICA lies among random rotations."""
    rand, ica = scores.at(protocol, "rand", scores.main), scores.auroc(protocol, "ica", scores.main)
    if rand is None or not all(map(known, rand.spread)):
        return ""
    low, high = rand.spread
    said = f"Random rotations score {number(low)} to {number(high)}, {number(rand.auroc)} on average"
    side = "above all of them" if ica > high else "below all of them" if ica < low else "among them"
    return f"{said}; ICA scores {number(ica)}, {side}." if known(ica) else f"{said}."


def probe_words(scores: Conditions, protocol: Protocol) -> str:
    """Whether the linear probe scores rotations alike, as it must."""
    measured = {name: scores.auroc(protocol, name, scores.probe) for name in ROTATIONS}
    values = {name: value for name, value in measured.items() if known(value)}
    if len(values) < 2:
        return ""
    told = listed(f"{number(value)} on {representation_name(name)}" for name, value in values.items())
    said = f"The {classifier_name(scores.probe)} scores {told}"
    apart = max(values.values()) - min(values.values())
    if apart <= ALIKE:
        return f"{said}: equal, as it must be under rotation."
    return (
        f"{said}: {number(apart)} apart, although a rotation cannot change a linear probe. Its penalty, solver or folds differ; do "
        "not interpret this difference."
    )
