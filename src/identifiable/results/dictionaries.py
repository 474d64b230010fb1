"""What `match` found: the features of two or more dictionaries one to one, each score beside what chance gives."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from identifiable._checks import UsageError
from identifiable.results.record import Answer, Interval, Shown

ScoreName = Literal["pw_mcc", "pw_mcc_absolute", "max_cosine", "max_cosine_back", "share_above"]
NullName = Literal["gaussian", "permuted", "shuffled"]
FINDING = 0.02  # of PW-MCC above chance: the error of the matched null on real dictionaries (measured, spec/align.md)
DEVIATIONS = 3  # above chance: standard deviations of a score over draws, or of a count (Poisson)


@dataclass(frozen=True)
class MatchScore:
    """A score, and what it is for dictionaries that share nothing.

    Three nulls are drawn: `gaussian` is the mean score of Gaussian directions with the mean and the covariance of each dictionary,
    `permuted` that of the dictionaries with each column permuted by itself, `shuffled` that with the entries of each row in random
    order (None in results of older versions). `chance` is the largest, `null` says which;
    `chance_ci95` is the middle 95 % of its draws, `p` the share of them that reach the value. `isotropic` is the level of
    directions without any preference, in closed form; None where there is none.
    """

    name: ScoreName
    value: float
    chance: float
    p: float
    chance_ci95: Interval
    null: NullName
    gaussian: float
    permuted: float
    isotropic: float | None = None
    shuffled: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the value is farther above chance than draws of it vary: three standard deviations, from the interval."""
        spread = (self.chance_ci95[1] - self.chance_ci95[0]) / 3.92
        return self.value > self.chance_ci95[1] and self.value - self.chance > DEVIATIONS * spread

    @property
    def finding(self) -> bool:
        """Whether PW-MCC is clearly above chance, and by more than chance is uncertain."""
        return self.clear and self.value - self.chance > FINDING


@dataclass(frozen=True)
class Subspaces:
    """How far two dictionaries span the same directions. `overlap` is the mean squared cosine of the principal angles (degrees).

    Two random subspaces have an overlap of `chance`, the larger rank over the dimensions. All but the ranks is None where both
    span every dimension, because the overlap is then 1 whatever they hold.
    """

    rank_first: int
    rank_second: int
    dimensions: int
    overlap: float | None = None
    chance: float | None = None
    median_angle: float | None = None
    largest_angle: float | None = None


@dataclass(frozen=True)
class FeatureMatch:
    """A feature of A and its partner in B, each by its name or its place from 0."""

    first: str
    second: str
    cosine: float
    margin: float
    p: float


class MatchArrays(NamedTuple):
    """The whole matching, by the place of every feature in its table; dead features have no partner. Not in JSON.

    `partner` is the place in B (-1: none) of every feature of A; `margin` is how much nearer it is than the nearest other
    feature of B, `p` the share of chance matches that are as near. nan where there is no partner.
    """

    partner: Any
    cosine: Any
    margin: Any
    p: Any
    above_null: Any


class HeldFeatures(NamedTuple):
    """The features of a dictionary by their place in its table: names, which are dead, and their stability. Not in JSON."""

    names: Any
    dead: Any
    stability: Any = None


@dataclass(frozen=True)
class DictionaryPair:
    """Two dictionaries, matched one to one by cosine (`signed`) or absolute cosine.

    above               matches with a cosine above the threshold; `chance_above` as many by chance
    above_null          matches above `null99`, the 99 % point of chance matches
    unmatched_*         features that are left over because the other side has fewer
    quantiles           of the cosines of matches and of chance matches, at 0, 5, ..., 100 %
    solver              `hungarian`: exact; `sparse`: the best among the nearest candidates of each feature
    at_chance           neither PW-MCC nor the number of near partners is more than chance gives
    score               PW-MCC in the convention of the matching
    null_features       sizes at which chance was drawn; more than one means that the level was extrapolated from them
    """

    first: str
    second: str
    signed: bool
    matched: int
    above: int
    chance_above: float
    above_null: int
    null99: float
    unmatched_first: int
    unmatched_second: int
    scores: tuple[MatchScore, ...]
    subspaces: Subspaces
    quantiles: tuple[float, ...]
    null_quantiles: tuple[float, ...]
    solver: Literal["hungarian", "sparse"]
    null_features: tuple[int, ...]
    strongest: tuple[FeatureMatch, ...] = ()
    at_chance: bool = True
    score: float = math.nan
    arrays: MatchArrays | None = field(default=None, compare=False, repr=False, metadata={"json": None})

    def __post_init__(self) -> None:
        if {score.name for score in self.scores} != set(typing.get_args(ScoreName)):
            raise UsageError(
                f"scores: expected {', '.join(typing.get_args(ScoreName))}, got {len(self.scores)} scores."
            )
        object.__setattr__(
            self, "at_chance", self._at_chance()
        )  # derived, whatever was passed; fields, so that JSON has them
        object.__setattr__(self, "score", self.main.value)

    def score_of(self, name: ScoreName) -> MatchScore:
        """The score of that name."""
        return next(score for score in self.scores if score.name == name)

    @property
    def main(self) -> MatchScore:
        """PW-MCC in the convention of the matching."""
        return self.score_of("pw_mcc" if self.signed else "pw_mcc_absolute")

    def _at_chance(self) -> bool:
        more = self.above - self.chance_above
        near = self.score_of("share_above").clear and more > DEVIATIONS * math.sqrt(self.chance_above + 1)
        return not near and not self.main.finding

    @property
    def opposite(self) -> bool:
        """Whether features match clearly better by absolute cosine than by cosine, by which they were matched."""
        absolute = self.score_of("pw_mcc_absolute")
        more = (absolute.value - absolute.chance) - (self.main.value - self.main.chance)
        return self.signed and absolute.finding and more > FINDING


@dataclass(frozen=True)
class FeatureStability:
    """Features of one dictionary over all others. `mean` is over features of the mean cosine with their partners.

    `stable` counts those with a partner above the threshold in every other dictionary.
    """

    mean: float
    chance: float
    stable: int


@dataclass(frozen=True)
class DictionarySummary:
    """A dictionary: its live `features` in so many `dimensions`, those that are zero (`dead`), and their `rank`."""

    name: str
    features: int
    dead: int
    dimensions: int
    rank: int
    basis: bool = False
    stability: FeatureStability | None = None


@dataclass(frozen=True)
class Cycles:
    """The share of features that A to B to C and back to A leads to themselves, over all `triples`; `chance` for null dictionaries.

    All three matches must be above the 99 % point of chance matches.
    """

    share: float
    chance: float
    triples: int


@dataclass(frozen=True, repr=False)
class Matches(Shown):
    """What `match` found of two or more dictionaries; `pairs` has every two of them, in order."""

    dictionaries: tuple[DictionarySummary, ...]
    pairs: tuple[DictionaryPair, ...]
    threshold: float
    draws: int
    cycles: Cycles | None = None
    held: tuple[HeldFeatures, ...] = field(default=(), compare=False, repr=False, metadata={"json": None})
    schema: Literal["identifiable/match/1"] = "identifiable/match/1"
    rows_in = "pairs"
    written = "matches"

    def __post_init__(self) -> None:
        if len(self.dictionaries) < 2 or not self.pairs:
            raise UsageError(f"pairs: expected at least one, of two dictionaries, got {len(self.pairs)}.")

    @property
    def text(self) -> Answer:
        """How many features have a partner, and PW-MCC beside chance."""
        pair, first = self.pairs[0], self.dictionaries[0]
        said: dict[str, Any] = {"threshold": self.threshold, "features": first.features}
        could = min(pair.matched for pair in self.pairs if first.name in (pair.first, pair.second))
        said |= {"could": could} if could < first.features else {}
        if self.cycles is None or first.stability is None:
            said |= {"first": pair.first, "second": pair.second, "above": pair.above}
            said |= {"by_chance": pair.chance_above, "value": pair.main.value, "chance": pair.main.chance}
            code = "match_at_chance" if pair.at_chance else "match_pair" if pair.above else "match_weak"
            return Answer(code, said)
        scores = [pair.main for pair in self.pairs]
        said |= {"name": first.name, "others": len(self.dictionaries) - 1, "stable": first.stability.stable}
        said |= {
            "value": sum(s.value for s in scores) / len(scores),
            "chance": sum(s.chance for s in scores) / len(scores),
        }
        said |= {"cycles": self.cycles.share, "cycles_chance": self.cycles.chance}
        at_chance = all(pair.at_chance for pair in self.pairs)
        return Answer("match_several_at_chance" if at_chance else "match_several", said)

    @property
    def gist(self) -> str:
        return "; ".join(f"PW-MCC {p.main.value:.3f}, chance {p.main.chance:.3f}" for p in self.pairs[:3])

    def matches(self) -> Iterator[Mapping[str, Any]]:
        """Every feature of every pair with its partner: the rows of `--output`. Only a result of this process has them."""
        if not self.held:
            raise UsageError(
                "matches: a result read from JSON holds no matching; call match again, or save it (--output)."
            )
        held = {d.name: features for d, features in zip(self.dictionaries, self.held, strict=True)}
        for pair in self.pairs:
            yield from _rows(pair, held[pair.first], held[pair.second], self.threshold)


def _rows(pair: DictionaryPair, a: HeldFeatures, b: HeldFeatures, threshold: float) -> Iterator[Mapping[str, Any]]:
    """One for each feature of A, then those of B that are left."""
    empty = {
        "a": pair.first,
        "b": pair.second,
        "feature_a": None,
        "feature_b": None,
        "state": "unmatched",
        "cosine": None,
    }
    empty |= dict.fromkeys(("sign", "margin", "p", "above_null", "above_threshold"))
    stable = {"a": a.stability, "b": b.stability} if a.stability is not None else {}
    empty |= {f"stability_{side}": None for side in stable}

    def of(side: str, place: int) -> dict[str, float]:
        return {f"stability_{side}": float(stable[side][place])} if side in stable else {}

    found = pair.arrays
    assert found is not None
    for i, j in enumerate(found.partner.tolist()):
        row = {**empty, "feature_a": a.names[i]}
        if j >= 0:
            cosine = float(found.cosine[i])
            row |= {"feature_b": b.names[j], "state": "matched", "cosine": cosine, "sign": -1 if cosine < 0 else 1}
            row |= {"margin": float(found.margin[i]), "p": float(found.p[i]), "above_null": bool(found.above_null[i])}
            row |= {"above_threshold": (cosine if pair.signed else abs(cosine)) > threshold, **of("b", j)}
        yield row | ({"state": "dead"} if a.dead[i] else of("a", i))
    taken = set(found.partner.tolist())
    for j, name in enumerate(b.names):
        if j not in taken:
            row = {**empty, "feature_b": name}
            yield row | ({"state": "dead"} if b.dead[j] else of("b", j))
