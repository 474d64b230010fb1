"""The page of `disentangle`: every number from the result, honest about chance and leakage, nothing where there is nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    ACTIVE,
    FACTORS,
    NMI,
    blocks_of,
    card_of,
    check_drawn,
    make_after,
    make_disentanglement,
    make_infomec,
    make_metric,
    table_called,
    tables_of,
    text_of,
)
from errors import naming
from identifiable import report
from identifiable.disentanglement import METRICS as KNOWN
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.headlines import headline
from identifiable.report.page import Table, Text
from identifiable.report.pages.disentanglement import BY_CHANCE, METRICS, SAID, UNSETTLED
from identifiable.report.pages.latents import LATENTS_SHOWN, diagonal_order
from identifiable.results import Alert, Disentanglement, Factor, FactorLatentMatrix, ScoreNull

WORDS = glossary("disentanglement")
FULL = make_disentanglement(after=(make_after(), make_after("literal"), make_after("whitened", invertible=False)))
UNDEFINED = make_infomec({"infom": math.nan, "infoe": 0.5, "infoc": math.nan}, draws=True)
RESULTS = {
    "full": FULL,
    "bare": make_disentanglement(draws=False, sweep=(), after=()),
    "no infomec": make_disentanglement(metrics={"mig": make_metric({"mig": 0.3})}, sweep=(), after=()),
    "undefined": make_disentanglement(infomec=UNDEFINED, after=(make_after(infoe=(math.nan, math.nan)),)),
    "discrete": make_disentanglement(latent_kind="discrete", sweep=(), after=()),
    "mixed": make_disentanglement(factors=(FACTORS[0], Factor("hue", "continuous", 0, math.nan), FACTORS[2])),
    "no metrics": make_disentanglement(metrics={}, sweep=(), after=()),
    "unsettled": make_disentanglement(
        after=tuple(make_after(mode, converged=mode == "whitened") for mode in ("centred", "literal", "whitened"))
    ),
    "words": make_disentanglement(factors=(FACTORS[0], replace(FACTORS[1], words=True), FACTORS[2])),
    "no inputs": replace(make_disentanglement(), inputs=()),
}


def with_nmi(values: Any) -> Disentanglement:
    return make_disentanglement(infomec=make_infomec(matrix=FactorLatentMatrix("NMI", values)))


def with_nulls(*p: float) -> Disentanglement:
    """InfoM, InfoE and InfoC with these p."""
    nulls = {key: ScoreNull(0.67, 0.9, value) for key, value in zip(("infom", "infoe", "infoc"), p, strict=True)}
    return make_disentanglement(infomec=replace(make_infomec(), nulls=nulls))


def heat_maps(result: Disentanglement, *keys: str) -> list[Table]:
    return [table for table in tables_of(result, *keys) if table.shades]


def notes(result: Disentanglement, key: str) -> str:
    """What a section says beside its tables."""
    return " ".join(block.text for block in blocks_of(result, key) if isinstance(block, Text))


@pytest.mark.parametrize("name", RESULTS)
def test_every_special_result_is_drawn(name: str) -> None:
    check_drawn(RESULTS[name])


def test_settings_and_details_of_metrics_are_shown_as_json_keeps_them() -> None:
    odd = make_infomec(settings={"profile": "tripod", "sizes": (1, 2)}, details={"active": tuple(ACTIVE)})
    result = make_disentanglement(infomec=odd, after=(make_after(metrics={"infomec": odd}),))
    check_drawn(result)
    assert "sizes [1, 2]" in text_of(result, "scores")


# -- the verdict


def test_the_verdict_has_the_three_scores_with_intervals_and_what_they_mean() -> None:
    card = card_of(FULL)
    for part in ("InfoM 0.73 [0.71, 0.75]: ", "InfoE 0.99 [0.97, 1.01]: ", "InfoC 0.55 [0.53, 0.57]: "):
        assert part in card.sentence
    assert all(said in card.sentence for said in (SAID["infom"][1], SAID["infoe"][0], SAID["infoc"][2]))
    assert dict(card.facts) == {
        "InfoM": "0.730",
        "InfoE": "0.990",
        "InfoC": "0.550",
        "profile": "hsu-standalone",
        "latents": "5, 4 active",
        "factors": "3 discrete",
        "rows n": "10,000",
    }
    assert (card.tone, card.badge) == ("plain", "continuous latents")
    low = make_disentanglement(infomec=make_infomec({"infom": 0.1, "infoe": 0.2, "infoc": 0.1}))
    assert all(said[-1] in card_of(low).sentence for said in SAID.values())
    assert card_of(RESULTS["discrete"]).badge == "discrete codes"


@pytest.mark.parametrize(
    ("scores", "tone"), [({}, "good"), ({"infom": 0.85}, "plain"), ({"infoc": math.nan}, "caution")]
)
def test_only_scores_above_nine_tenths_are_good_news(scores: dict[str, float], tone: str) -> None:
    found = make_infomec({"infom": 0.95, "infoe": 0.99, "infoc": 0.93} | scores, draws=True)
    assert card_of(make_disentanglement(infomec=found)).tone == tone


def test_undefined_scores_are_shown_as_missing() -> None:
    card = card_of(RESULTS["undefined"])
    assert dict(card.facts)["InfoM"] == wording.MISSING
    assert "InfoE 0.50 " in card.sentence
    assert not any(said in card.sentence for said in SAID["infom"])
    rows = table_called(RESULTS["undefined"], "Scores of").rows
    assert [row[:2] for row in rows[:2]] == [("InfoMEC, InfoM", wording.MISSING), ("InfoMEC, InfoE", "0.500")]


def test_a_p_that_could_not_be_less_is_not_called_chance() -> None:
    result = with_nulls(0.1, 0.1, 0.1)
    few, many = (replace(result, settings={**result.settings, "null": draws}) for draws in (9, 99))
    assert [card_of(r).sentence.count(BY_CHANCE) for r in (few, many)] == [0, 3]


def test_a_score_that_chance_reaches_is_a_caution_and_is_explained() -> None:
    result = with_nulls(0.62, 0.01, 0.01)
    assert card_of(result).tone == "caution"
    assert card_of(result).sentence.count(BY_CHANCE) == 1
    told = notes(result, "verdict")
    assert re.search(naming("InfoM 0.67", "p 0.620", "InfoE 0.67", "p 0.010", "InfoC 0.67", "p 0.010"), told)
    assert WORDS["Chance in InfoM and InfoC"] in told
    assert WORDS["No shuffles"] not in told
    assert WORDS["No shuffles"] in notes(RESULTS["bare"], "verdict")
    assert WORDS["Chance in InfoM and InfoC"] not in notes(FULL, "verdict")
    assert BY_CHANCE not in card_of(FULL).sentence


def test_a_metric_that_chance_reaches_is_named_where_there_is_no_infomec() -> None:
    chance = replace(make_metric({"mig": 0.3}), nulls={"mig": ScoreNull(0.3, 0.4, 0.5)})
    metrics = {"mig": chance, "sap": make_metric({"sap": 0.3}, draws=True)}
    sentence = card_of(make_disentanglement(metrics=metrics, sweep=(), after=())).sentence
    assert sentence.startswith("2 metrics")
    assert sentence.endswith(f" MIG: {BY_CHANCE}.")


def test_where_no_latent_is_informative_the_shares_are_a_caution() -> None:
    silent = Alert("no_information", {"nmi": 0.05, "below": 0.1})
    result = make_disentanglement(infomec=make_infomec(alerts=(silent,)))
    card = card_of(result)
    assert card.tone == "caution"
    assert card.sentence.index("largest NMI 0.05") < card.sentence.index("InfoM 0")
    assert not any(said in card.sentence for key in ("infom", "infoc") for said in SAID[key])
    assert headline(result).index("largest NMI 0.05") < headline(result).index("InfoM 0")
    assert "largest NMI" not in card_of(FULL).sentence + headline(FULL)
    assert "leak" not in notes(result, "verdict")


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (((0.0, 0.73), (0.1, 0.98)), ("0.73 to 0.98", "10 %", "leakage", "not a mixture")),
        (((0.0, 0.73), (0.1, 0.85)), ("0.73 to 0.85", "10 %", "Part", "rest is a")),
        (((0.0, 0.73), (0.1, 0.74)), ("0.73 to 0.74", "10 %", "factors are mixed")),
        (((0.0, 0.73), (0.1, 0.5)), ("0.73 to 0.50", "10 %", "factors are mixed")),
        ((), ("0.9", "--noise-sweep")),
    ],
)
def test_a_low_infom_is_called_leakage_or_mixture_by_what_noise_does_to_it(sweep: Any, said: tuple[str, ...]) -> None:
    told = notes(make_disentanglement(sweep=sweep), "verdict")
    assert all(words in told for words in said)


def test_a_p_that_cannot_be_smaller_is_shown_as_a_bound_and_said_to_be_one() -> None:
    assert "(p ≤ 0.010)" in notes(FULL, "verdict")
    assert "100 shuffles cannot" in notes(FULL, "scores")
    more = make_disentanglement(settings={"null": 1000})
    assert "(p 0.010)" in notes(more, "verdict")
    assert "shuffles cannot" not in notes(more, "scores")


# -- the matrix


def test_an_inactive_latent_that_carries_more_is_pointed_at_but_is_not_the_best() -> None:
    assert "latent 5 is" in notes(FULL, "matrix")
    assert "scale (0.99)" in notes(FULL, "matrix")
    rows = {row[0]: row for row in table_called(FULL, "Factors").rows}
    assert rows["scale"] == ("scale", "discrete", "8", "latent 2", "0.77", "latent 3", "0.15")


def test_one_latent_for_two_factors_is_said_unless_it_hardly_carries_one() -> None:
    values = ((0.8, 0.1, 0.0, 0.0, 0.0), (0.7, 0.1, 0.0, 0.0, 0.0), (0.0, 0.0, 0.9, 0.0, 0.0))
    weak = (values[0], (0.12, 0.1, 0.0, 0.0, 0.0), values[2])
    assert re.search(naming("2 factors", "floor hue"), notes(with_nmi(values), "matrix"))
    assert "2 factors" not in notes(with_nmi(weak), "matrix")


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (1, 1), (3, 3)])
def test_every_latent_stands_once_in_the_order_whatever_the_shape(shape: tuple[int, int]) -> None:
    m, d = shape
    values = [[math.nan if (i + j) % 3 == 0 else (i * d + j) % 7 / 7 for j in range(d)] for i in range(m)]
    for active in (None, [j % 2 == 0 for j in range(d)]):
        assert sorted(diagonal_order(values, active)) == list(range(d))


def test_many_latents_make_no_wider_map_and_it_says_how_many_there_are() -> None:
    d = 300
    values = tuple(tuple(1.0 if j == 250 + i else 0.001 * (j % 5) for j in range(d)) for i in range(3))
    wide = make_infomec(matrix=FactorLatentMatrix("NMI", values), details={"active": [True] * d})
    latents = [f"latent {j + 1}" for j in range(d)]
    result = make_disentanglement(infomec=wide, metrics={"infomec": wide}, latents=latents, after=())
    table = heat_maps(result, "matrix")[0]
    assert len(table.columns) == LATENTS_SHOWN + 1
    assert [c.label for c in table.columns[1:4]] == ["251", "252", "253"]
    assert re.search(naming(LATENTS_SHOWN, d), notes(result, "matrix"))


def test_a_matrix_that_does_not_fit_is_not_drawn() -> None:
    short = make_infomec(matrix=FactorLatentMatrix("NMI", NMI[:2]))
    assert heat_maps(make_disentanglement(infomec=short, metrics={"infomec": short}, after=()), "matrix") == []


# -- scores, noise, ICA


def test_discrete_and_continuous_are_never_silently_in_one_column() -> None:
    kinds = WORDS["Discrete and continuous"]
    assert [kinds in notes(RESULTS[name], "scores") for name in ("discrete", "mixed", "full")] == [True, True, False]
    assert table_called(RESULTS["discrete"], "Scores of discrete").rows
    names = [row[0] for row in heat_maps(RESULTS["mixed"], "matrix")[0].rows[:2]]
    assert names == ["floor hue (discrete)", "hue (continuous)"]


def test_a_mode_that_did_not_converge_is_marked_over_its_column_and_above_the_table() -> None:
    blocks = [b for b in blocks_of(RESULTS["unsettled"], "ica") if isinstance(b, (Text, Table))]
    assert isinstance(blocks[0], Text)
    assert blocks[0].brief
    assert re.match(naming("Centred", "literal"), blocks[0].text)
    assert isinstance(blocks[1], Table)
    heads = [c.label for c in blocks[1].columns[2:]]
    assert heads == [f"centred, {UNSETTLED}", f"literal, {UNSETTLED}", "whitened"]
    alone = make_disentanglement(after=(make_after(converged=False),))
    assert "--resolve whitened" in notes(alone, "ica")
    assert "--resolve whitened" not in notes(RESULTS["unsettled"], "ica")
    assert "NOT" not in notes(FULL, "ica")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.994, "0.994 (+0.004)"),
        (0.986, "0.986 (-0.004)"),
        (0.9897, "0.990 (-0.0003)"),
        (0.99 - 1e-9, "0.990 (±0)"),
        (0.89, "0.890 (-0.10)"),
        (1.6e-16, "0 (-0.99)"),
    ],
)
def test_changes_have_their_sign_and_enough_digits_and_rounding_is_zero(value: float, said: str) -> None:
    after = make_after(metrics={"infomec": make_infomec({"infom": 0.94, "infoe": value, "infoc": 0.71})})
    assert tables_of(make_disentanglement(after=(after,)), "ica")[0].rows[1][2] == said


@pytest.mark.parametrize(
    ("after", "said", "not_said"),
    [
        (make_after(), "unchanged, as expected: 0.991", "solver"),
        (make_after(infoe=(0.4, 0.66)), "moved: 0.400", "unchanged"),
        (make_after(invertible=False, n_components=3), "(3 of 5", "unchanged"),
        (make_after(infoe=(math.nan, 0.5)), "InfoE is undefined", "unchanged"),
        (
            make_after(metrics={"infomec": make_infomec({"infom": 0.9, "infoe": 0.7, "infoc": 0.5})}),
            "from 0.990 to 0.700 because",
            "moved",
        ),
        (make_after(converged=False), "converge, 5 components", "; converged"),
    ],
)
def test_what_became_of_infoe_is_said_in_words(after: Any, said: str, not_said: str) -> None:
    told = notes(make_disentanglement(after=(after,)), "ica")
    assert said in told
    assert not_said not in told


# -- words


def test_every_metric_that_can_be_asked_for_has_words_and_only_those_shown_are_explained() -> None:
    assert set(METRICS) == set(KNOWN)
    assert all(name in WORDS for name, *_ in METRICS.values())
    told = text_of(FULL, "reading")
    assert WORDS["MIG"] in told
    assert WORDS["SAP"] not in told


# -- the terminal


def test_many_factors_do_not_scroll_the_headline_away() -> None:
    factors = [Factor(f"f{i}", "discrete", 2, 0.69) for i in range(50)]
    text = report.text_table(make_disentanglement(metrics={}, factors=factors, sweep=(), after=()))
    assert re.search(naming("…", 30), text)
    assert "f19 " in text
    assert "f20 " not in text
