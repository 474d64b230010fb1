"""What to do with stored vectors, from what a search through the map finds."""

from __future__ import annotations

from identifiable.results import Advice, Bounded, Retrieval

MAP, RERANK, BOTH = 0.9, 0.95, 0.7
"""Least recall@10 to use the map as it is; least 10-in-100 to re-rank a hundred, and to search both indexes. Judgement."""

LEAST_INDEX = (
    1000  # rows searched, from which on a tenth of them or less are the first hundred, and 10-in-100 says something
)


def advice(found: Retrieval, own_overlap: Bounded, shuffled: Retrieval) -> Advice:
    """The first of these rules that holds, on lower ends of the 95 % intervals. Ours; thresholds are judgement.

    1. `re_embed`: recall@10 does not exceed the upper end that a map fitted to `shuffled` pairs has. The tables have nothing in
       common that a map could use.
    2. `map`: recall@10 is at least .9.
    3. `map_and_rerank`: the ten true nearest are among the first hundred found, to .95. Re-ranking these hundred by
       the new encoder gives what the old encoder cannot give, so this stands before `keep_old`.
    4. `keep_old`: the old encoder's own ten nearest agree with the new one's at least as well as those that the map finds.
    5. `run_both`: 10-in-100 is at least .7.
    6. `re_embed`.

    In an index of less than 1,000 rows the first hundred are much of it: recall@10 then stands for 10-in-100.

    `found` are mapped rows in the true index, or true rows in an index of mapped ones.
    """
    recall, within, kept = (_lower(b) for b in (found.recall_10, found.within_100, own_overlap))
    if found.index < LEAST_INDEX:
        within = recall  # which it is at least
    if recall <= _upper(shuffled.recall_10):
        return "re_embed"
    if recall >= MAP:
        return "map"
    if within >= RERANK:
        return "map_and_rerank"
    if kept >= recall:
        return "keep_old"
    return "run_both" if within >= BOTH else "re_embed"


def _lower(share: Bounded) -> float:
    return share.value if share.ci95 is None else share.ci95[0]


def _upper(share: Bounded) -> float:
    return share.value if share.ci95 is None else share.ci95[1]
