"""What `align` found: the map that carries one representation into another, and what it costs to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.comparison import Bounded
from identifiable.results.record import Answer, Reason, Shown, flat

Advice = Literal["map", "map_and_rerank", "run_both", "keep_old", "re_embed"]


@dataclass(frozen=True)
class Retrieval:
    """`queries` held-out rows, searched among `index` rows by `metric`. The truth is what the target's own vector finds there.

    recall_1, recall_10    share of the true nearest, and of the ten true nearest, among as many that are found
    within_100             share of the ten true nearest among the first hundred found
    mrr                    mean of 1 / place at which the own row is found
    csls_recall_10, csls_mrr   the same with hubs corrected (Conneau et al. 2018)

    Every value falls as the index grows.
    """

    metric: Literal["cosine", "euclidean"]
    index: int
    queries: int
    recall_1: Bounded
    recall_10: Bounded
    within_100: Bounded
    mrr: Bounded
    csls_recall_10: Bounded
    csls_mrr: Bounded


@dataclass(frozen=True)
class Baseline:
    """The same search with no map (`as_is`), a random rotation, or the chosen family fitted to shuffled pairs."""

    name: Literal["as_is", "random_rotation", "shuffled_pairs"]
    cosine: Retrieval
    r2: float


@dataclass(frozen=True)
class Candidate:
    """A family of maps at its best penalty, cross-validated on the fitted rows.

    `score` is what the choice is made by, with its standard error: recall@10; with less than 2,000 rows to search among, a share of the
    nearest rows in which nearer ones count more.
    """

    family: str
    group: str
    penalty: float | None
    score: float
    standard_error: float
    recall_10: float
    r2: float
    chosen: bool = False


@dataclass(frozen=True)
class CurvePoint:
    """Recall@10 of the chosen family when it is fitted to `pairs` pairs."""

    pairs: int
    recall_10: Bounded


@dataclass(frozen=True)
class PairsNeeded:
    """Recall@10 against the number of pairs: ``limit - drop / (pairs + offset)``, fitted to `points`.

    `forecast` maps numbers of pairs above those given to recall; `enough` is the number at which it is within .01 of `limit`.
    """

    points: tuple[CurvePoint, ...]
    limit: float
    drop: float
    offset: float
    forecast: Mapping[str, float]
    enough: int | None


@dataclass(frozen=True)
class Region:
    """Rows whose recall@10 is lower than that of the rest: those with a label, or those that a short rule describes.

    `rows` of the `of` test queries that it was judged on (None in results of older versions).
    """

    name: str
    rule: str | None
    rows: int
    recall_10: Bounded
    rest: float
    of: int | None = None


@dataclass(frozen=True)
class MapUse:
    """What a use of the map gives in an index of `index` rows, and what to do.

    `queries`: mapped vectors look in the true index, as measured. `stored`: true vectors look in an index of mapped ones; the loss over
    queries is measured in a smaller index, of rows that the map has not seen, and carried to this one.
    """

    use: Literal["stored", "queries"]
    metric: Literal["cosine", "euclidean"]
    index: int
    recall_10: Bounded
    within_100: Bounded
    advice: Advice


@dataclass(frozen=True)
class Way:
    """One direction: the map from `source` to `target`, chosen on `fitted` rows and evaluated on others.

    `queries`: mapped rows look in the true index of the target. `stored`: true rows of the target look in an index of mapped
    rows, all of them held out, because the map has seen the others. `own_overlap` is the share of the ten nearest rows that
    source and target have in common without a map; `own_within_100` that of the target's ten among the source's hundred. `mixed` is
    the share of true vectors among the first ten in an index of which half is mapped (.5 if neither crowds out). `tried` was measured
    on `choice_queries` rows among `choice_index`. `invertible`: the map has an inverse. `uses` has recall and advice of either use and
    metric, in the same index; `advice` is that of stored vectors by cosine, the first (of mapped queries in results of older versions,
    which have no `uses`).
    """

    source: str
    target: str
    family: str
    group: str
    penalty: float | None
    rank: int | None
    why: Reason
    fitted: int
    tried: tuple[Candidate, ...]
    choice_queries: int
    choice_index: int
    invertible: bool
    queries: tuple[Retrieval, ...]
    stored: tuple[Retrieval, ...]
    baselines: tuple[Baseline, ...]
    own_overlap: Bounded
    r2: Bounded
    cosine: Bounded
    mixed: float
    curve: PairsNeeded | None
    regions: tuple[Region, ...]
    advice: Advice
    uses: tuple[MapUse, ...] = ()
    own_within_100: Bounded | None = None


@dataclass(frozen=True, repr=False)
class Alignment(Shown):
    """What `align` found in `pairs` rows. `ways` are from the first table to the second, and back; `text` answers for the first."""

    pairs: int
    ways: tuple[Way, Way]
    text: Answer
    schema: Literal["identifiable/align/1"] = "identifiable/align/1"
    rows_in = "ways"
    written: ClassVar[str] = "map"

    @property
    def advice(self) -> Advice:
        return self.ways[0].advice

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """A row for each way, use of the map and metric."""
        for way in self.ways:
            for use, found in (("queries", way.queries), ("stored", way.stored)):
                for each in found:
                    yield {"source": way.source, "target": way.target, "family": way.family, "use": use, **flat(each)}
