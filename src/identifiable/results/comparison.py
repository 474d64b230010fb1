"""What `compare` found: rungs, pairs, spectra, consensus."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from identifiable._checks import UsageError
from identifiable.options.tables import Null as NullName
from identifiable.options.tables import Rung as RungName
from identifiable.results.record import Interval, Shown, report_room


@dataclass(frozen=True)
class Scale:
    """Yardsticks of the target: the exact largest pairwise distance, and the root mean square one."""

    diameter: float
    rms: float


@dataclass(frozen=True)
class Errors:
    """Euclidean errors over rows, divided by `Scale.rms`; `mean_over_diameter` is the paper's figure.

    `quantiles` holds the 0th to the 100th percentile, for drawing; `ci95` is of the mean (held-out only).
    """

    mean: float
    q50: float
    q95: float
    q99: float
    max: float
    mean_over_diameter: float
    quantiles: tuple[float, ...] = field(default=(), repr=False)
    ci95: Interval | None = None


@dataclass(frozen=True)
class Null:
    """What chance gives: the same held-out mean on data with the link broken `draws` times.

    On tables longer than `rows` both the null and `observed` use that many rows, drawn by the seed.
    """

    mean: float
    p: float
    observed: float
    draws: int
    rows: int


@dataclass(frozen=True)
class Bounded:
    """A number with its 95 % interval; None where the interval is withheld."""

    value: float
    ci95: Interval | None = None


@dataclass(frozen=True)
class Rung:
    """One step of the ladder. `null` maps the name of a null to its result; None where it says nothing.

    `r2` is the held-out share of the target's variance that the map explains, with the best scale (a rigid motion has
    none); below 0 the map predicts worse than the mean. `kept` is `r2` over that of the linear map.
    """

    group: RungName
    in_sample: Errors
    held_out: Errors
    null: Mapping[NullName, Null | None]
    r2: Bounded | None = None
    kept: Bounded | None = None

    def judged(self, protocol: str) -> float:
        """The figure a verdict is taken from: the 95 % quantile on held-out rows, or the paper's in-sample mean."""
        return self.in_sample.mean_over_diameter if protocol == "paper" else self.held_out.q95


@dataclass(frozen=True)
class Efficiency:
    """How much of the way from permutation to similarity ICA goes: (permutation - ica) / (permutation - similarity).

    `in_sample` is the paper's: mean errors, ICA of both sides on all rows. `held_out` is of root mean square errors on
    held-out rows, with a scale at both ends and ICA of the two sides on disjoint rows, as many rows would give it.
    """

    in_sample: float | None
    held_out: float | None
    ci95: Interval | None = None


@dataclass(frozen=True)
class Axes:
    """Components of ICA that two models share, beside what one model repeats and what chance gives.

    ICA of the two models is fitted on disjoint halves of the rows; components are matched one to one on all rows.

    matched       components with |r| above `axes.MATCHED` between the models; a lower bound where `at_least`
    own_source    the same count between the two halves of the source, and `own_target` of the target
    chance        the mean count of random rotations of whitened rows
    components    how many could match
    correlations  |r| of the matched pairs, largest first, for a picture
    withheld      why there is no count: `few_rows`, `no_axes` (the data are Gaussian, or neither model repeats a
                  component), `not_asked`; None where there is one. With `no_axes` the counts were measured and are kept.
    rows_needed   the number of rows from which on there is a count
    converged     of the fits: source, first and second half; target, first and second half
    """

    components: int
    rows_needed: int
    withheld: Literal["few_rows", "no_axes", "not_asked"] | None = None
    matched: int | None = None
    own_source: int | None = None
    own_target: int | None = None
    chance: float | None = None
    at_least: bool = False
    correlations: tuple[float, ...] = ()
    converged: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Similarity:
    """Mean canonical correlation, the same on k principal components, and linear CKA; 1 is alike.

    `null` holds the mean of each under row shuffling and its p-value.
    """

    cca: float
    svcca: Mapping[str, float]
    cka: float
    cka_debiased: float
    null: Mapping[str, Null]


@dataclass(frozen=True)
class SharedDimensions:
    """How many of the `possible` dimensions two representations share.

    `rho` is each canonical pair's correlation, sqrt(held-out x in-sample); `strong` counts those above 0.9, `partly` those
    from 0.5 to 0.9, both above `chance`, the 95 % point of the largest with rows paired at random. `variance_source`
    and `variance_target` are the shares of variance that the strong ones carry. `lower_bound`: there are fewer than
    four rows per dimension. `withheld`: rows paired at random reach 0.9, so nothing is counted.
    """

    possible: int
    strong: int
    partly: int
    chance: float
    variance_source: float
    variance_target: float
    rho: tuple[float, ...]
    lower_bound: bool = False
    withheld: bool = False

    @property
    def few(self) -> bool:
        """Whether most dimensions have nothing to do with the other side."""
        return not self.withheld and self.strong + self.partly < self.possible / 2

    def reversed(self) -> SharedDimensions:
        """The other way."""
        return replace(self, variance_source=self.variance_target, variance_target=self.variance_source)


Degree = Literal["nearly", "largely", "partly", "little", "none"]
State = Literal["clear", "borderline", "none"]
ScaleState = Literal["one", "other", "unknown"]
Shape = Literal["signed_permutation", "similarity", "linear"]


@dataclass(frozen=True)
class Form:
    """The smallest group that keeps what a linear map explains, in both directions.

    `clear`: `group` does. `borderline`: `group` may or may not; the larger one `beyond` does. `none`: nothing is explained,
    so nothing has a form. `scale` is the ratio of the target's spread to the source's; whether it is 1 is judged apart.
    """

    group: Shape | None
    state: State
    beyond: Shape | None
    scale: float
    scale_state: ScaleState

    def reversed(self) -> Form:
        """The other way."""
        return replace(self, scale=1 / self.scale if self.scale else float("inf"))


@dataclass(frozen=True)
class Verdict:
    """The answer for one direction, as codes and numbers.

    `group` is for gates: the smallest group that certainly holds, has a held-out R² of at least 0.9, where at least 0.9 of
    the dimensions are strongly shared; else None. `below_epsilon` is the smallest group whose error (`held_out.q95`, or
    the paper's) is below `epsilon`. `degree` goes by `r2`, that of the better of similarity and linear map; `_back` is the other
    direction. `text` is the answer as a sentence, for readers.
    """

    group: RungName | None
    epsilon: float
    text: str = ""
    below_epsilon: RungName | None = None
    degree: Degree | None = None
    r2: float | None = None
    degree_back: Degree | None = None
    r2_back: float | None = None
    form: Form | None = None


@dataclass(frozen=True)
class Solver:
    """How the linear maps were obtained. `refined`: a second pass in whitened coordinates was needed."""

    condition_source: float
    condition_target: float
    rank_source: int
    rank_target: int
    refined: bool
    error_dtype: str


@dataclass(frozen=True)
class WorstRow:
    """A row that the map of `PairResult.fitting_group` serves badly on held-out data."""

    row: str
    error: float


@dataclass(frozen=True)
class Overlap:
    """Share of the k nearest neighbours found again, its value under random pairing, and the interval of the share."""

    value: float
    chance: float
    ci95: Interval | None


@dataclass(frozen=True)
class Neighbours:
    """Nearest neighbours of `rows` rows among themselves, on both sides; values fall as more rows are searched.

    `mutual` compares the neighbours of a row on each side, without a map. `searched` takes a row to the target, as
    given or by a fitted map, and looks for its neighbours there. `null` holds `mutual` and `cknna` under shuffling.
    """

    k: int
    rows: int
    mutual: Overlap
    searched: Mapping[str, Overlap]
    cknna: float
    null: Mapping[str, Null]

    @property
    def agree(self) -> bool:
        """Whether rows have neighbours in common beyond chance: more than in every shuffle, and certainly more than expected."""
        null, low = self.null.get("mutual"), self.mutual.value if self.mutual.ci95 is None else self.mutual.ci95[0]
        return null is not None and low > self.mutual.chance and null.p * (1 + null.draws) < 1.5


@dataclass(frozen=True)
class MovedGroup:
    """Rows of one label whose mean held-out error is above what shuffled labels give; `ratio` is to the mean of all rows."""

    label: str
    rows: int
    error: float
    ratio: float
    p: float


class RowErrors(NamedTuple):
    """Held-out errors of every row, divided by `Scale.rms`, by group; `ids` are sample ids, or row numbers. Not in JSON."""

    ids: Any
    by_group: Mapping[str, Any]


@dataclass(frozen=True)
class PairResult:
    """Source to target: can the source be mapped onto the target, by how large a group?

    `dropped` counts the rows of both sides without a partner, `width` is that of the narrower side. `kept_source` and
    `kept_target` are shares of variance that were compared: 1, but in results of older versions, which cut the wider side.
    """

    source: str
    target: str
    n: int
    dropped: int
    width: int
    kept_source: float
    kept_target: float
    scale: Scale
    rungs: tuple[Rung, ...]
    ica_efficiency: Efficiency | None
    similarity: Similarity
    verdict: Verdict
    solver: Solver
    worst: tuple[WorstRow, ...]
    shared: SharedDimensions | None = None
    neighbours: Neighbours | None = None
    axes: Axes | None = None
    moved: tuple[MovedGroup, ...] = ()
    row_errors: RowErrors | None = field(default=None, compare=False, repr=False, metadata={"json": None})
    maps: Callable[[str], Any] | None = field(default=None, compare=False, repr=False, metadata={"json": None})

    @property
    def fitting_group(self) -> str:
        """The group that rows are judged by: that of the form, the next one where it is borderline; else the largest fitted.

        Results of older versions have no form; there it is that of the verdict.
        """
        groups = [str(rung.group) for rung in self.rungs]
        form = self.verdict.form
        wanted = self.verdict.group if form is None else form.group if form.state == "clear" else form.beyond
        if wanted is not None and wanted in groups:
            return wanted
        return ([group for group in groups if group != "ica"] or groups)[-1]

    def map(self, group: str | None = None) -> Any:
        """The `AffineMap` from source to target that `group` fits to all rows: ``map(X) = X @ matrix + offset``.

        Without a name, of the group that fits (`fitting_group`). Only a result made in this process has maps, up to half a gigabyte
        of them.
        """
        wanted = str(self.rung(self.fitting_group if group is None else group).group)
        if self.maps is None:
            raise UsageError(
                f"map: this result holds no maps of {self.source} to {self.target}: it was read from JSON, or there are too many "
                "tables to keep all maps; call compare with these two again."
            )
        return self.maps(wanted)

    def rung(self, group: str) -> Rung:
        """The rung of that name."""
        for rung in self.rungs:
            if rung.group == group:
                return rung
        raise UsageError(f"there is no rung {group!r} here; choose from {', '.join(r.group for r in self.rungs)}.")


@dataclass(frozen=True)
class Spectrum:
    """Principal variances of one representation, largest first.

    `rank` counts directions above rounding; `effective_rank` is exp(entropy) of the normalised
    variances (Roy and Vetterli 2007).
    """

    name: str
    variances: tuple[float, ...]
    rank: int
    effective_rank: float


@dataclass(frozen=True)
class ErrorMatrix:
    """Held-out mean error of one group for every ordered pair; `values[i][j]` maps i onto j, 0 on the diagonal."""

    group: str
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ConsensusDistance:
    """Distance of one model to the consensus, per row, in units of the consensus' rms distance."""

    name: str
    rms: float
    mean: float
    q95: float
    max: float


@dataclass(frozen=True)
class Consensus:
    """Generalised Procrustes mean of three or more models, each centred and scaled to unit rms first."""

    width: int
    iterations: int
    converged: bool
    distances: tuple[ConsensusDistance, ...]


@dataclass(frozen=True)
class RowPicture:
    """A row that moved, drawn: a PNG in base64."""

    row: str
    label: str
    error: float
    png: str


@dataclass(frozen=True)
class Demo:
    """What the page of `identifiable demo` shows besides: rows of the pair `source`, `target` with the largest errors."""

    source: str
    target: str
    group: str
    pictures: tuple[RowPicture, ...]


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What `compare` found, and all it takes to draw it."""

    pairs: tuple[PairResult, ...]
    spectra: tuple[Spectrum, ...]
    matrices: tuple[ErrorMatrix, ...] = ()
    consensus: Consensus | None = None
    demo: Demo | None = None
    schema: Literal["identifiable/compare/1"] = "identifiable/compare/1"

    def pair(self, source: str | int = 0, target: str | None = None) -> PairResult:
        """An ordered pair, by the names of its two tables or by its place in `pairs`."""
        if target is None and isinstance(source, int):
            if not -len(self.pairs) <= source < len(self.pairs):
                raise UsageError(f"pair {source}: expected a place in the {len(self.pairs)} ordered pairs, from 0.")
            return self.pairs[source]
        for pair in self.pairs:
            if (pair.source, pair.target) == (source, target):
                return pair
        names = "; ".join(f"{pair.source!r}, {pair.target!r}" for pair in self.pairs[:6])
        raise UsageError(f"pair {source!r}, {target!r}: expected a place or two names, such as {names}.")

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The ladder of the first pair."""
        return self.pairs[0].rungs

    @property
    def verdict(self) -> Verdict:
        """The verdict of the weakest of all ordered pairs: what holds for every one of them."""
        return self.weakest.verdict

    @property
    def weakest(self) -> PairResult:
        """The pair that takes the largest group, or has none; of those, the one of which least is explained."""
        protocol = str(self.settings.get("protocol"))

        def weakness(pair: PairResult) -> tuple[int, float, float]:
            names = [rung.group for rung in pair.rungs]
            place = names.index(pair.verdict.group) if pair.verdict.group in names else len(names)
            explained = 0.0 if pair.verdict.r2 is None else pair.verdict.r2
            return place, -explained, min((rung.judged(protocol) for rung in pair.rungs), default=math.inf)

        return max(self.pairs, key=weakness)

    def row_errors(self, group: str = "linear", pair: int = 0) -> tuple[Any, Any]:
        """Sample ids (or row numbers) and held-out errors of every row, in units of the rms distance between target rows.

        `pair` is the place of an ordered pair in `pairs`. Only a result made in this process has them.
        """
        found = self.pair(pair).row_errors
        if found is None:
            raise UsageError("row_errors: a result read from JSON holds no errors of rows; call compare again.")
        if group not in found.by_group:
            raise UsageError(f"group {group!r}: expected one of {', '.join(found.by_group)}.")
        return found.ids, found.by_group[group]

    @property
    def gist(self) -> str:
        """The verdict of the weakest pair, as codes."""
        pair = self.weakest
        verdict, form = pair.verdict, pair.verdict.form
        parts = [f"group {verdict.group or 'none'}"]
        if verdict.degree is not None:
            parts.append(f"degree {verdict.degree}")
        if verdict.r2 is not None:
            parts.append(f"R² {verdict.r2:.2f}")
        if form is not None:
            parts.append(f"form {form.group or 'none'} ({form.state})")
        return ("" if len(self.pairs) <= 2 else "weakest pair ") + ", ".join(parts)

    def plot(self, ax: Any = None, *, which: Literal["ladder", "shared"] | None = None) -> Any:
        """Draw the weakest pair with matplotlib, and return the axes.

        `ladder`: the held-out R² of every group, both ways, with its interval. `shared`: the correlation of every shared
        dimension. Without `which` both, side by side; in one given `ax`, the ladder.
        """
        return report_room().plot(self, ax=ax, which=which)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One for each ordered pair, group and measure; `group` is empty where a measure has none."""
        place = {i.name: k for k, i in enumerate(self.inputs)}
        for pair in self.pairs:
            way = "forward" if place[pair.source] < place[pair.target] else "back"
            for group, measure, value, interval in _measures(pair):
                low, high = interval or (None, None)
                yield {
                    "source": pair.source,
                    "target": pair.target,
                    "direction": way,
                    "group": group,
                    "measure": measure,
                    "value": value,
                    "low": low,
                    "high": high,
                }


Measure = tuple[str, str, float, Interval | None]


def _measures(pair: PairResult) -> Iterator[Measure]:
    """What was measured of an ordered pair: group, measure, value, interval."""
    for rung in pair.rungs:
        for measure, bounded in (("r2", rung.r2), ("kept", rung.kept)):
            if bounded is not None:
                yield rung.group, measure, bounded.value, bounded.ci95
        yield rung.group, "held_out_mean", rung.held_out.mean, rung.held_out.ci95
        yield rung.group, "held_out_q95", rung.held_out.q95, None
        for broken, null in rung.null.items():
            if null is not None:
                yield rung.group, f"p_{broken}", null.p, None
    axes = None if pair.axes is None or pair.axes.withheld is not None else pair.axes
    counted: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
        ("shared", pair.shared, ("strong", "partly", "possible", "chance", "variance_source", "variance_target")),
        ("axes", axes, ("matched", "own_source", "own_target", "chance", "components")),
    )
    for what, record, names in counted:
        for name in names:
            if record is not None and getattr(record, name) is not None:
                yield "", f"{what}_{name}", getattr(record, name), None
    if (near := pair.neighbours) is not None:
        yield "", "neighbours_mutual", near.mutual.value, near.mutual.ci95
        yield "", "neighbours_mutual_chance", near.mutual.chance, None
        yield "", "cknna", near.cknna, None
        for group, overlap in near.searched.items():
            yield group, "neighbours", overlap.value, overlap.ci95
            yield group, "neighbours_chance", overlap.chance, None
