"""What to do with stored vectors, from what a search through the map finds."""

from __future__ import annotations

from dataclasses import dataclass

from identifiable.results import Advice, Bounded, Retrieval

MAP, RERANK, BOTH = 0.9, 0.95, 0.7
"""Least recall@10 to use the map as it is; least 10-in-100 to re-rank a hundred, and to search both indexes. Judgement."""

LEAST_INDEX = (
    1000  # rows searched, from which on a tenth of them or less are the first hundred, and 10-in-100 says something
)


@dataclass(frozen=True)
class OldEncoder:
    """What the old encoder gives without a map: the share of the ten nearest rows of the new one among its own first 10 and 100."""

    recall_10: Bounded
    within_100: Bounded


def advice(found: Retrieval, old: OldEncoder, shuffled: Retrieval) -> Advice:
    """The first of these rules that holds, on lower ends of the 95 % intervals. Ours; thresholds are judgement.

    1. `re_embed`: recall@10 does not exceed the upper end that a map fitted to `shuffled` pairs has. The tables have nothing in
       common that a map could use.
    2. `map`: recall@10 is at least .9.
    3. `keep_old`: the old encoder's own nearest rows agree with the new one's at least as well as those that the map finds, the
       first ten and the first hundred: whoever re-ranks may as well fetch a hundred by the old encoder.
    4. `map_and_rerank`: the ten true nearest are among the first hundred found, to .95.
    5. `keep_old`: its own ten nearest agree at least as well.
    6. `run_both`: 10-in-100 is at least .7.
    7. `re_embed`.

    In an index of less than 1,000 rows the first hundred are much of it: recall@10 then stands for 10-in-100.

    `found` are mapped rows in the true index, or true rows in an index of mapped ones.
    """
    recall, within = _lower(found.recall_10), _lower(found.within_100)
    kept, kept_within = _lower(old.recall_10), _lower(old.within_100)
    if found.index < LEAST_INDEX:
        within, kept_within = recall, kept  # which they are at least
    if recall <= _upper(shuffled.recall_10):
        return "re_embed"
    if recall >= MAP:
        return "map"
    if kept >= recall and kept_within >= within:
        return "keep_old"
    if within >= RERANK:
        return "map_and_rerank"
    if kept >= recall:
        return "keep_old"
    return "run_both" if within >= BOTH else "re_embed"


def _lower(share: Bounded) -> float:
    return share.value if share.ci95 is None else share.ci95[0]


def _upper(share: Bounded) -> float:
    return share.value if share.ci95 is None else share.ci95[1]
