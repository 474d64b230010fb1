"""What to do, by the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from identifiable.alignment.advice import OldEncoder, advice
from identifiable.results import Bounded, Retrieval


def share(lower: float, upper: float) -> Bounded:
    return Bounded((lower + upper) / 2, (lower, upper))


def retrieval(recall: Bounded, within: Bounded) -> Retrieval:
    some = Bounded(0.5)
    return Retrieval("cosine", 1000, 200, some, recall, within, some, some, some)


def old(recall: Bounded, within: Bounded | None = None) -> OldEncoder:
    return OldEncoder(recall, within or share(0.90, 0.92))


@pytest.mark.parametrize(
    ("recall", "within", "own", "expected"),
    [
        ((0.90, 0.94), (0.99, 1.0), (0.50, 0.54), "map"),
        ((0.90, 0.94), (0.99, 1.0), (0.95, 0.97), "map"),  # good enough, whatever the old encoder does
        ((0.89, 0.93), (0.99, 1.0), (0.50, 0.54), "map_and_rerank"),  # the value is above .9, its lower end is not
        ((0.64, 0.68), (0.98, 0.99), (0.66, 0.70), "map_and_rerank"),  # re-ranking gives what the old encoder cannot
        ((0.46, 0.50), (0.94, 0.96), (0.40, 0.44), "run_both"),
        ((0.46, 0.50), (0.94, 0.96), (0.53, 0.57), "keep_old"),
        ((0.46, 0.50), (0.94, 0.96), (0.46, 0.56), "keep_old"),  # equal: the map adds nothing
        ((0.30, 0.34), (0.69, 0.75), (0.20, 0.24), "re_embed"),
        ((0.30, 0.34), (0.69, 0.75), (0.31, 0.35), "keep_old"),
        ((0.015, 0.025), (0.97, 0.99), (0.30, 0.34), "re_embed"),  # no better than shuffled pairs
        ((0.01, 0.03), (0.10, 0.14), (0.01, 0.03), "re_embed"),
    ],
)
def test_the_first_rule_that_holds_decides(
    recall: tuple[float, float], within: tuple[float, float], own: tuple[float, float], expected: str
) -> None:
    shuffled = retrieval(share(0.01, 0.02), share(0.1, 0.2))
    assert advice(retrieval(share(*recall), share(*within)), old(share(*own)), shuffled) == expected


def test_values_without_intervals_are_taken_as_they_are() -> None:
    shuffled = retrieval(Bounded(0.01), Bounded(0.1))
    assert advice(retrieval(Bounded(0.9), Bounded(1.0)), old(Bounded(0.5)), shuffled) == "map"
    assert advice(retrieval(Bounded(0.01), Bounded(1.0)), old(Bounded(0.0)), shuffled) == "re_embed"


def test_ten_in_a_hundred_does_not_count_where_a_hundred_is_much_of_the_index() -> None:
    shuffled = retrieval(Bounded(0.01), Bounded(1.0))
    found = retrieval(Bounded(0.4), Bounded(1.0))
    assert advice(found, old(Bounded(0.1)), shuffled) == "map_and_rerank"
    assert advice(replace(found, index=100), old(Bounded(0.1)), shuffled) == "re_embed"


def test_a_map_below_the_old_encoder_in_ten_and_in_a_hundred_is_not_advised() -> None:
    shuffled = retrieval(share(0.01, 0.02), share(0.1, 0.2))
    found = retrieval(share(0.55, 0.57), share(0.955, 0.965))
    better, worse = (old(share(0.60, 0.62), share(low, low + 0.01)) for low in (0.965, 0.945))
    assert advice(found, better, shuffled) == "keep_old"
    assert advice(found, worse, shuffled) == "map_and_rerank"
    assert advice(found, old(share(0.50, 0.52), share(0.99, 1.0)), shuffled) == "map_and_rerank"
