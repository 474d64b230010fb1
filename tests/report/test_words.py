"""How numbers and names are said: the only place where anything is rounded."""

from __future__ import annotations

import math

import pytest

from identifiable.report import words
from identifiable.report.messages import message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.0834, "0.083"),
        (1.5, "1.500"),
        (12.345, "12.35"),
        (2.1e-9, "2.1e-9"),
        (123456.0, "1.2e5"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_are_said_briefly(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.0999, "0.0999"), (0.09999999, "0.09999999"), (0.05, "0.050")])
def test_a_number_just_below_a_limit_is_not_rounded_onto_it(value: float, shown: str) -> None:
    assert words.beside(value, 0.1) == shown


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.0312, 0.0004, "0.0312 ± 0.0004"),
        (5.31, 0.2, "5.3 ± 0.2"),
        (2.71, 0.11, "2.71 ± 0.11"),
        (-0.004, 0.021, "0.00 ± 0.02"),
        (-12345.6, 78.9, "-12,346 ± 79"),
        (2.1e-7, 3e-8, "2.1e-7 ± 3.0e-8"),
        (1.5, math.nan, "1.500 ± –"),
        (math.inf, 1.0, "–"),
        (0.42, 0.0, "0.420"),
    ],
)
def test_a_number_ends_where_its_standard_error_begins(value: float, error: float, shown: str) -> None:
    assert words.plus_minus(value, error) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "50 %"), (0.0123, "1.2 %"), (0.0026, "0.26 %"), (2e-6, "<0.01 %"), (0.0, "0.00 %")]
)
def test_small_shares_keep_their_decimals(value: float, shown: str) -> None:
    assert words.share(value) == shown


@pytest.mark.parametrize(("n", "shown"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1200, "1,200 pairs")])
def test_counts_have_their_thousands_apart_and_one_is_singular(n: int, shown: str) -> None:
    assert words.counted(n, "pair") == shown


def test_wide_characters_are_padded_by_the_columns_they_take() -> None:
    assert words.columns_wide("細胞") == 4
    assert words.pad("細胞", 6) == "細胞  "
    assert words.columns_wide(words.clip("細胞" * 30, 21)) <= 21
    assert words.clip("short", 21) == "short"


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        ("95 % of rows", "95\u00a0% of rows"),
        ("mean / diameter: over", "mean\u00a0/\u00a0diameter: over"),
        ("chance, p 0.010", "chance, p\u00a00.010"),
        ("ε = 0.1", "ε\u00a0=\u00a00.1"),
        ("cup 7 or so", "cup 7 or so"),
    ],
)
def test_numbers_and_units_are_not_torn_apart_by_a_line_end(loose: str, tight: str) -> None:
    assert words.bound(loose) == tight


def test_a_name_in_a_message_is_that_of_readers_and_an_unknown_one_stays() -> None:
    values = {"metric": "nn_cosine", "scaled": 0.5, "kept": 0.4}
    assert "1-NN, cosine 0.500" in message("Answer", "scale_before_comparing", values)
    assert "own metric 0.500" in message("Answer", "scale_before_comparing", {**values, "metric": "own_metric"})
    families = message("Answer", "ties_with", {"families": ["control-z+sphering", "tvn"]})
    assert "control z-score, sphering; TVN" in families  # a list of names with commas
