"""The page of `disentangle`: every number from the result, honest about chance and leakage, nothing where there is nothing."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disentanglement_cases import (
    ACTIVE,
    FACTORS,
    NMI,
    make_after,
    make_disentanglement,
    make_infomec,
    make_metric,
)
from identifiable import report
from identifiable.disentanglement import METRICS as KNOWN
from identifiable.report import words as wording
from identifiable.report.disentanglement import LATENTS_SHOWN
from identifiable.report.disentanglement_methods import KINDS, METRICS, SCALE_FREE
from identifiable.report.disentanglement_reading import (
    BY_CHANCE,
    LESS_WORDS,
    NO_CHANCE,
    SHARES_OF_NOTHING,
    best_latents,
    diagonal_order,
    leak_words,
    sentence,
)
from identifiable.report.page import Block, Card, Curves, Fold, Notice, Table, Text
from identifiable.report.pages import page_of
from identifiable.results import (
    Alert,
    Disentanglement,
    Factor,
    FactorLatentMatrix,
    ScoreNull,
    from_json,
    to_json,
)
from page_reading import HOSTILE, RENDERERS, Outline, blocks_of, foreign_loads, table_called, text_of, without_style

UNDEFINED = make_infomec({"infom": math.nan, "infoe": 0.5, "infoc": math.nan}, draws=True)
RESULTS = {
    "full": make_disentanglement(after=(make_after(), make_after("literal"), make_after("whitened", invertible=False))),
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


def heat_maps(result: Disentanglement, *keys: str) -> list[Table]:
    return [b for b in blocks_of(result, *keys) if isinstance(b, Table) and b.shades]


# -- the same result, the same bytes


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    text = render(RESULTS[name])
    assert text == render(from_json(to_json(RESULTS[name])))
    assert not re.search(r"\b(nan|inf|None)\b", without_style(text))


def test_settings_and_details_of_metrics_are_shown_as_json_keeps_them() -> None:
    odd = make_infomec(settings={"profile": "tripod", "sizes": (1, 2)}, details={"active": tuple(ACTIVE)})
    result = make_disentanglement(infomec=odd, after=(make_after(metrics={"infomec": odd}),))
    assert report.html(result) == report.html(from_json(to_json(result)))
    assert "sizes [1, 2]" in text_of(result, "scores")


@pytest.mark.parametrize("render", RENDERERS)
def test_a_page_is_drawn_even_if_nothing_could_be_measured(render: Any) -> None:
    def emptied(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k == "settings" else emptied(v) for k, v in value.items()}
        if isinstance(value, list):
            return [emptied(v) for v in value]
        return None if isinstance(value, float) else value

    saved = json.loads(to_json(RESULTS["full"]))
    saved["sweep"] = [{**point, "noise": 0.1} for point in saved["sweep"]]
    text = render(from_json(json.dumps({**emptied(saved), "sweep": emptied_scores(saved["sweep"])})))
    assert not re.search(r"\b(nan|inf|None)\b", without_style(text))
    assert wording.MISSING in text


def emptied_scores(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**point, "scores": dict.fromkeys(point["scores"])} for point in points]


def test_a_disentanglement_shows_itself(tmp_path: Path) -> None:
    result = make_disentanglement()
    assert result.table() == report.text_table(result)
    assert result._repr_html_() == report.fragment(result)
    assert result.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(result)
    assert report.html(result) != report.html(make_disentanglement(name="others"))


# -- sections appear only when there is something


def test_sections_appear_only_when_there_is_something() -> None:
    def keys(name: str) -> list[str]:
        return [s.key for s in page_of(RESULTS[name]).sections]

    always = ["verdict", "alerts", "matrix", "scores", "reading", "reproduction"]
    assert keys("full") == ["verdict", "alerts", "matrix", "scores", "noise", "ica", "reading", "reproduction"]
    assert keys("bare") == always
    assert keys("no metrics") == [k for k in always if k != "scores"]
    html = report.html(RESULTS["full"])
    assert set(re.findall(r'href="#([\w-]+)"', html)) <= set(re.findall(r'id="([\w-]+)"', html))


def test_columns_of_intervals_and_nulls_appear_only_if_they_were_drawn() -> None:
    heads = [c.label for c in table_called(RESULTS["full"], "Scores of").columns]
    assert heads == ["metric", "score", "value", "95 % interval", "shuffled, mean", "q95", "p"]
    assert [c.label for c in table_called(RESULTS["bare"], "Scores of").columns] == ["metric", "score", "value"]


# -- the verdict


def test_the_verdict_says_what_the_three_scores_mean_with_their_intervals() -> None:
    card = next(b for b in blocks_of(RESULTS["full"], "verdict") if isinstance(b, Card))
    assert card.sentence == (
        "InfoM 0.73 [0.71, 0.75]: a latent tells mainly of one factor; InfoE 0.99 [0.97, 1.01]: a linear model reads off nearly "
        "all about the factors; InfoC 0.55 [0.53, 0.57]: a factor is spread over several latents."
    )
    facts = {"InfoM": "0.730", "profile": "hsu-standalone", "latents": "5, 4 active", "factors": "3 discrete"}
    assert dict(card.facts) | facts == dict(card.facts)
    assert (card.tone, card.badge) == ("plain", "continuous latents")
    low = make_disentanglement(infomec=make_infomec({"infom": 0.1, "infoe": 0.2, "infoc": 0.1}))
    assert "a latent tells of the factors nearly alike" in sentence(low)


def test_only_scores_above_nine_tenths_are_good_news() -> None:
    def tone(**scores: float) -> str:
        found = make_infomec({"infom": 0.95, "infoe": 0.99, "infoc": 0.93} | scores, draws=True)
        return next(b for b in blocks_of(make_disentanglement(infomec=found)) if isinstance(b, Card)).tone

    assert (tone(), tone(infom=0.85), tone(infoc=math.nan)) == ("good", "plain", "caution")


def test_undefined_scores_are_said_to_be_and_shown_as_missing() -> None:
    card = next(b for b in blocks_of(RESULTS["undefined"]) if isinstance(b, Card))
    assert card.sentence.startswith("InfoM is not defined; InfoE 0.50")
    assert dict(card.facts)["InfoM"] == wording.MISSING
    rows = table_called(RESULTS["undefined"], "Scores of").rows
    assert rows[0][1:3] == ("InfoM", wording.MISSING)
    assert rows[1][1:3] == ("InfoE", "0.500")


def test_a_p_that_could_not_be_less_is_not_called_chance() -> None:
    nulls = dict.fromkeys(("infom", "infoe", "infoc"), ScoreNull(0.1, 0.2, 0.1))
    result = make_disentanglement(infomec=replace(make_infomec(), nulls=nulls))
    few, many = (replace(result, settings={**result.settings, "null": draws}) for draws in (9, 99))
    assert BY_CHANCE not in sentence(few)
    assert sentence(many).count(BY_CHANCE) == 3


def test_a_score_that_chance_reaches_is_a_caution_and_is_explained() -> None:
    nulls = {
        "infom": ScoreNull(0.67, 0.9, 0.62),
        "infoe": ScoreNull(0.0, 0.0, 0.01),
        "infoc": ScoreNull(0.1, 0.2, 0.01),
    }
    result = make_disentanglement(infomec=replace(make_infomec(), nulls=nulls))
    assert next(b for b in blocks_of(result) if isinstance(b, Card)).tone == "caution"
    told = text_of(result, "verdict")
    assert "Shuffled factors score InfoM 0.67 (p 0.620), InfoE 0 (p 0.010), InfoC 0.10 (p 0.010)." in told
    assert SHARES_OF_NOTHING in told
    assert sentence(result).count(BY_CHANCE) == 1
    assert f"InfoM 0.73: a latent tells mainly of one factor, but {BY_CHANCE};" in sentence(result)
    assert BY_CHANCE in " ".join(report.text_table(result).split())
    assert BY_CHANCE not in text_of(RESULTS["full"], "verdict")
    assert SHARES_OF_NOTHING not in text_of(RESULTS["full"], "verdict")
    assert NO_CHANCE in text_of(RESULTS["bare"], "verdict")
    assert NO_CHANCE not in told


def test_shares_of_next_to_nothing_are_called_that() -> None:
    faint = FactorLatentMatrix("NMI", tuple(tuple(v / 20 for v in row) for row in NMI))
    result = make_disentanglement(infomec=make_infomec(matrix=faint))
    assert "is 0.05 of it: InfoM and InfoC are shares of next to nothing here." in text_of(result, "verdict")
    assert next(b for b in blocks_of(result) if isinstance(b, Card)).tone == "caution"
    assert leak_words(result) == ""
    assert "next to nothing" not in text_of(RESULTS["full"], "verdict")


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (((0.0, 0.73), (0.1, 0.98)), "rises from 0.73 to 0.98: what is missing without it is leakage"),
        (((0.0, 0.73), (0.1, 0.85)), "rises from 0.73 to 0.85: part of what is missing without it is leakage"),
        (((0.0, 0.73), (0.1, 0.74)), "is 0.74, 0.73 without: the factors are mixed by more than a leak"),
        (((0.0, 0.73), (0.1, 0.5)), "is 0.50, 0.73 without: the factors are mixed by more than a leak"),
        ((), "A noise sweep (--noise-sweep) tells the two apart."),
    ],
)
def test_a_low_infom_is_called_leakage_or_mixture_by_what_noise_does_to_it(sweep: Any, said: str) -> None:
    assert said in leak_words(make_disentanglement(sweep=sweep))


def test_nothing_is_explained_where_infom_is_high_or_latents_are_discrete() -> None:
    high = make_infomec({"infom": 0.95, "infoe": 0.9, "infoc": 0.9})
    assert leak_words(make_disentanglement(infomec=high)) == ""
    assert leak_words(RESULTS["discrete"]) == ""
    assert leak_words(RESULTS["full"]) != ""


def test_a_metric_that_chance_reaches_is_named_where_there_is_no_infomec() -> None:
    chance = replace(make_metric({"mig": 0.3}), nulls={"mig": ScoreNull(0.3, 0.4, 0.5)})
    result = make_disentanglement(
        metrics={"mig": chance, "sap": make_metric({"sap": 0.3}, draws=True)}, sweep=(), after=()
    )
    assert sentence(result).endswith(f"InfoMEC is not among them. MIG: {BY_CHANCE}.")


def test_a_p_that_cannot_be_smaller_is_shown_as_a_bound_and_said_to_be_one() -> None:
    told = text_of(RESULTS["full"])
    assert "(p ≤ 0.010)" in told
    assert "100 shuffles cannot give a p below 0.010; more of them could." in told
    more = make_disentanglement(settings={"null": 1000})
    assert "(p 0.010)" in text_of(more)
    assert "cannot give a p below" not in text_of(more) + report.text_table(more)


# -- the heat map


def test_the_best_latent_of_every_factor_stands_on_the_diagonal_and_the_file_order_is_there() -> None:
    first, in_file, *_ = heat_maps(RESULTS["full"], "matrix")
    assert first.caption.startswith("NMI, mutual information over the entropy of the factor; factors down")
    assert [c.label for c in first.columns] == ["factor", "4", "1", "2", "3", "5"]
    assert [row[i + 1] for i, row in enumerate(first.rows[:3])] == ["0.91", "0.85", "0.77"]
    assert [c.label for c in in_file.columns] == ["factor", "1", "2", "3", "4", "5"]
    assert first.shades[0][0] == 6
    assert first.shades[0][1] == 0


def test_active_latents_are_marked_and_those_that_are_not_are_counted() -> None:
    table = heat_maps(RESULTS["full"], "matrix")[0]
    assert table.rows[-1] == ("active", "●", "●", "●", "●", "○")
    assert "1 latent of 5 (it hardly varies, by the rule of the profile) marked ○" in text_of(RESULTS["full"], "matrix")
    every = make_disentanglement(infomec=make_infomec(details={"active": [True] * 5}))
    assert "○" not in text_of(every, "matrix")
    unmarked = make_disentanglement(infomec=make_infomec(details={}))
    assert all(row[0] != "active" for row in heat_maps(unmarked, "matrix")[0].rows)


def test_an_inactive_latent_that_tells_more_is_pointed_at_but_is_not_the_best() -> None:
    told = text_of(RESULTS["full"], "matrix")
    assert "Not active, yet tells more than any active one: latent 5, 0.99 of scale." in told
    rows = {row[0]: row for row in table_called(RESULTS["full"], "Factors").rows}
    assert rows["scale"] == ("scale", "discrete", "8", "latent 2", "0.77", "latent 3", "0.15")


def test_every_active_latent_is_said_in_words_with_its_column_and_mixtures_come_first() -> None:
    table = table_called(RESULTS["full"], "Active latents")
    assert table.rows[0] == ("latent 3", "2", "0.44", "mixes shape 0.20, scale 0.15 and floor hue 0.10")
    assert table.rows[-1] == ("latent 2", "1", "0.94", "tells of scale 0.77")
    assert [row[0] for row in table.rows] == ["latent 3", "latent 1", "latent 4", "latent 2"]  # 5 is not active
    place = "Latents are counted from 1: latent 5 is column 4 of the array, and place 4 in the JSON."
    assert place in text_of(RESULTS["full"], "matrix")
    assert place in report.text_table(RESULTS["full"])
    named = make_disentanglement(latents=["u", "v", "w", "x", "y"])
    assert "counted from 1" not in text_of(named) + report.text_table(named)
    assert table_called(named, "Active latents").rows[0][:2] == ("w", "2")


def test_factors_of_words_are_said_to_be() -> None:
    result = RESULTS["words"]
    assert {row[0]: row[1] for row in table_called(result, "Factors").rows} == {
        "floor hue": "discrete",
        "shape": "discrete, words",
        "scale": "discrete",
    }
    assert "3 factors (3 discrete; 1 of words)" in report.text_table(result)
    assert "shape (discrete, words)" in [row[0] for row in heat_maps(result, "matrix")[0].rows]
    assert "of words" not in report.text_table(RESULTS["full"])


def test_one_latent_for_two_factors_is_said_unless_it_hardly_tells_of_one() -> None:
    values = ((0.8, 0.1, 0.0, 0.0, 0.0), (0.7, 0.1, 0.0, 0.0, 0.0), (0.0, 0.0, 0.9, 0.0, 0.0))
    result = make_disentanglement(infomec=make_infomec(matrix=FactorLatentMatrix("NMI", values)))
    assert "One latent for 2 factors: latent 1 is the best of floor hue and shape." in text_of(result, "matrix")
    weak = (values[0], (0.12, 0.1, 0.0, 0.0, 0.0), values[2])
    result = make_disentanglement(infomec=make_infomec(matrix=FactorLatentMatrix("NMI", weak)))
    assert "One latent for" not in text_of(result, "matrix")


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (1, 1), (3, 3)])
def test_every_latent_stands_once_in_the_order_whatever_the_shape(shape: tuple[int, int]) -> None:
    m, d = shape
    values = [[math.nan if (i + j) % 3 == 0 else (i * d + j) % 7 / 7 for j in range(d)] for i in range(m)]
    assert sorted(diagonal_order(values, None)) == list(range(d))
    assert sum(j is not None for j in best_latents(values, [j % 2 == 0 for j in range(d)])) == min(m, d)


def test_many_latents_make_no_wider_map_and_it_says_how_many_there_are() -> None:
    d = 300
    values = tuple(tuple(1.0 if j == 250 + i else 0.001 * (j % 5) for j in range(d)) for i in range(3))
    wide = make_infomec(matrix=FactorLatentMatrix("NMI", values), details={"active": [True] * d})
    result = make_disentanglement(
        infomec=wide, metrics={"infomec": wide}, latents=[f"latent {j + 1}" for j in range(d)], after=()
    )
    table = heat_maps(result, "matrix")[0]
    assert len(table.columns) == LATENTS_SHOWN + 1
    assert [c.label for c in table.columns[1:4]] == ["251", "252", "253"]
    assert "Of 300 latents 40 are shown" in text_of(result, "matrix")


def test_metrics_that_share_a_matrix_share_its_fold() -> None:
    folds = [b.summary for b in blocks_of(RESULTS["full"], "matrix") if isinstance(b, Fold)]
    assert folds == [
        "The same with latents in the order of the file",
        "DCI: importance of the latent (forest)",
        "MIG and MIG-sup: mutual information, nats",
    ]


def test_a_matrix_that_does_not_fit_is_not_drawn() -> None:
    short = make_infomec(matrix=FactorLatentMatrix("NMI", NMI[:2]))
    assert heat_maps(make_disentanglement(infomec=short, metrics={"infomec": short}, after=()), "matrix") == []


# -- scores, noise, ICA


def test_every_score_is_in_the_table_with_its_figures() -> None:
    rows = table_called(RESULTS["full"], "Scores of continuous latents").rows
    assert rows[0] == ("InfoMEC", "InfoM", "0.730", "[0.710, 0.750]", "0.100", "0.150", "≤ 0.010")
    assert [row[0] for row in rows] == ["InfoMEC", "", "", "DCI", "", "", "MIG", "MIG-sup", "Unsupervised"]
    assert rows[-1][1] == "total correlation ↓"
    assert LESS_WORDS in text_of(RESULTS["full"], "scores")
    assert not any("↓" in row[1] for row in rows[:-1])
    assert "↓" not in text_of(RESULTS["no infomec"], "scores")
    assert rows[-1][2:] == ("3.200", *[wording.MISSING] * 4)  # shuffled factors do not touch it
    assert "predictor forest; trees 100" in text_of(RESULTS["full"], "scores")


def test_figures_by_factor_are_folded_and_only_what_is_one_number_each() -> None:
    rows = {row[0]: row[1:] for row in table_called(RESULTS["full"], "One line for each figure").rows}
    assert rows == {"InfoMEC: infoe": ("0.980", "1.000", "0.990"), "MIG: gap": ("0.800", "0.650", "0.500")}


def test_discrete_and_continuous_are_never_silently_in_one_column() -> None:
    assert KINDS in text_of(RESULTS["discrete"], "scores")
    assert KINDS in text_of(RESULTS["mixed"], "scores")
    assert KINDS not in text_of(RESULTS["full"], "scores")
    assert table_called(RESULTS["discrete"], "Scores of").caption.startswith("Scores of discrete latents")
    assert [row[0] for row in heat_maps(RESULTS["mixed"], "matrix")[0].rows[:2]] == [
        "floor hue (discrete)",
        "hue (continuous)",
    ]
    assert "discrete codes" in report.text_table(RESULTS["discrete"])


def test_the_noise_sweep_is_drawn_and_explained() -> None:
    (figure,) = (b for b in blocks_of(RESULTS["full"], "noise") if isinstance(b, Curves))
    assert figure.curves[0].points == ((0.0, 0.73), (1.0, 0.76), (3.0, 0.87), (10.0, 0.98))
    assert not any(curve.dotted for curve in figure.curves)
    (measured,) = figure.clouds
    assert sorted(measured.points) == sorted(point for curve in figure.curves for point in curve.points)
    assert SCALE_FREE in text_of(RESULTS["full"], "noise")
    assert "0.73" in SCALE_FREE
    assert table_called(RESULTS["full"], "Scores with noise").rows[2] == ("3 %", "0.870", "0.960", "0.580")


def test_before_and_after_ica_stand_side_by_side_with_the_change() -> None:
    table = table_called(RESULTS["full"], "Scores before and after ICA")
    assert [c.label for c in table.columns] == [
        "metric",
        "score",
        "before",
        "centred ICA",
        "literal ICA",
        "whitened ICA",
    ]
    assert table.rows[0] == ("InfoMEC", "InfoM", "0.730", *["0.940 (+0.21)"] * 3)
    assert table.rows[1][3] == "0.990 (±0)"
    assert "MIG" not in [row[0] for row in table.rows]
    assert len(heat_maps(RESULTS["full"], "ica")) == 3


def test_a_mode_that_did_not_converge_is_marked_over_its_column_and_above_the_table() -> None:
    result = RESULTS["unsettled"]
    blocks = [b for b in blocks_of(result, "ica") if isinstance(b, (Text, Table))]
    assert isinstance(blocks[0], Text)
    assert blocks[0].text.startswith(
        "Centred and literal ICA did NOT converge: below are the scores of where they stopped"
    )
    assert isinstance(blocks[1], Table)
    assert [c.label for c in blocks[1].columns[3:]] == [
        "centred ICA, not converged",
        "literal ICA, not converged",
        "whitened ICA",
    ]
    lines = report.text_table(result).splitlines()
    head = next(i for i, line in enumerate(lines) if "centred ICA" in line and "before" in line)
    assert lines[head + 1].count("not converged") == 2
    assert lines[head + 1].index("not converged") + len("not converged") == lines[head].index("centred ICA") + len(
        "centred ICA"
    )
    assert any("did NOT converge: below" in line for line in lines[:head])
    alone = make_disentanglement(after=(make_after(converged=False),))
    assert "--resolve whitened has a stopping rule of its own" in text_of(alone, "ica")
    for told in (text_of(RESULTS["full"], "ica"), report.text_table(RESULTS["full"])):
        assert "onverge: below" not in told
        assert "not converged" not in told


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
    assert table_called(make_disentanglement(after=(after,)), "Scores before and after ICA").rows[1][3] == said


@pytest.mark.parametrize(
    ("after", "said", "not_said"),
    [
        (make_after(), "and it did not: 0.991 before, 0.991 after.", "solver"),
        (make_after(infoe=(0.4, 0.66)), "yet it moved: 0.400 before, 0.660 after.", "and it did not"),
        (make_after(invertible=False, n_components=3), "(3 of 5 directions were kept)", "cannot change"),
        (make_after(infoe=(math.nan, 0.5)), "InfoE could not be compared", "cannot change"),
        (
            make_after(metrics={"infomec": make_infomec({"infom": 0.9, "infoe": 0.7, "infoc": 0.5})}),
            "went from 0.990 to 0.700: its solver stops early",
            "yet it moved",
        ),
        (make_after(converged=False), "did NOT converge", "; converged"),
    ],
)
def test_what_became_of_infoe_is_said_in_words(after: Any, said: str, not_said: str) -> None:
    told = text_of(make_disentanglement(after=(after,)), "ica")
    assert said in told
    assert not_said not in told


# -- words


def test_every_metric_that_can_be_asked_for_has_words_and_only_those_shown_are_explained() -> None:
    assert set(METRICS) == set(KNOWN)
    told = text_of(RESULTS["full"], "reading")
    assert METRICS["mig"].meaning in told
    assert METRICS["sap"].meaning not in told
    assert "at least one over the number of factors" not in told  # InfoM is scaled to be 0 there


def test_the_methods_name_settings_draws_and_papers_of_this_run() -> None:
    told = text_of(RESULTS["full"], "reproduction")
    for words in ("200 random splits", "100 times", "0 %, 1 %, 3 % and 10 %", "Ours: ", "Seed 7.", "predictor forest"):
        assert words in told
    html = report.html(RESULTS["full"])
    assert all(key in html for key in ("hsu2023", "eastwood2018", "chen2018", "li2020", "ross2014", "hyvarinen1999"))
    assert not any(key in html for key in ("kumar2018", "higgins2017", "suter2019"))
    assert "95 % intervals are from 200 random splits of the rows." in text_of(RESULTS["full"], "scores")
    assert "95 % intervals are from 200 random splits of the rows." in report.text_table(RESULTS["full"])
    assert "random splits" not in text_of(RESULTS["bare"]) + report.text_table(RESULTS["bare"])
    assert "hyvarinen1999" not in report.html(RESULTS["bare"])


def test_alerts_are_shown() -> None:
    result = make_disentanglement(
        alerts=[Alert("paired_by_position", "By position."), Alert("one_factor", "mig: one.")]
    )
    assert [b.code for b in blocks_of(result, "alerts") if isinstance(b, Notice)] == [
        "paired_by_position",
        "one_factor",
    ]
    assert "! paired_by_position: By position." in report.text_table(result)
    assert not any(isinstance(b, Notice) for b in blocks_of(RESULTS["full"], "alerts"))


# -- form


@pytest.mark.parametrize("name", RESULTS)
def test_every_line_fits_a_terminal(name: str) -> None:
    assert max(map(wording.columns_wide, report.text_table(RESULTS[name]).splitlines())) <= 100


def test_the_terminal_shows_headline_scores_factors_noise_and_ica() -> None:
    lines = report.text_table(RESULTS["full"]).splitlines()
    assert lines[0] == "codes   n 10,000, 5 latents (continuous, 4 active), 3 factors (3 discrete)"
    assert lines[1].startswith("InfoM 0.73 [0.71, 0.75]: a latent tells mainly of one factor")
    assert any(re.match(r"InfoMEC, InfoM +0\.730 +\[0\.710, 0\.750\] ", line) for line in lines)
    assert any(re.match(r"MIG +0\.660", line) for line in lines)
    assert any(re.match(r"floor hue +discrete +10 +latent 4 +0\.91 +latent 3 +0\.10", line) for line in lines)
    assert any(re.match(r"10 % +0\.980", line) for line in lines)
    assert any(re.match(r"InfoMEC, InfoM +0\.730 +0\.940 \(\+0\.21\)", line) for line in lines)


def test_many_factors_do_not_scroll_the_headline_away() -> None:
    factors = [Factor(f"f{i}", "discrete", 2, 0.69) for i in range(50)]
    text = report.text_table(make_disentanglement(metrics={}, factors=factors, sweep=(), after=()))
    assert "… and 30 more: in the report and the JSON" in text
    assert "f19 " in text
    assert "f20 " not in text


def test_hostile_names_are_shown_as_text_and_stay_on_one_line() -> None:
    factors = [replace(f, name=HOSTILE) for f in FACTORS]
    odd = make_infomec(
        settings={"profile": HOSTILE, HOSTILE: HOSTILE},
        matrix=FactorLatentMatrix(HOSTILE, NMI),
        details={"active": ACTIVE, f"{HOSTILE}_of_factor": [1.0, 2.0, 3.0]},
    )
    result = make_disentanglement(
        infomec=odd,
        metrics={"infomec": odd, HOSTILE: make_metric({HOSTILE: 0.1})},
        factors=factors,
        latents=[HOSTILE] * 5,
        alerts=[Alert(HOSTILE, HOSTILE)],
        name=HOSTILE,
        settings={HOSTILE: HOSTILE},
    )
    for text in (report.html(result), report.fragment(result)):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        Outline(text)
    plain, dirty = (report.text_table(make_disentanglement(name=name)) for name in ("a", "a\x1b[31m\n"))
    assert "\x1b" not in dirty
    assert dirty.count("\n") == plain.count("\n")


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    for name, result in RESULTS.items():
        text = report.html(result)
        assert foreign_loads(text) == []
        assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', text)), name
        assert all("<title>" in f for f in re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL))
    assert not re.search(r"\sid=", report.fragment(RESULTS["full"]))


def test_text_blocks_say_nothing_twice_and_markdown_has_every_cell() -> None:
    result = RESULTS["full"]
    told = [b.text for b in every_block(result) if isinstance(b, Text)]
    repeated = {text for text in told if told.count(text) > 1}
    assert {text for text in repeated if "InfoE" not in text} == set()  # two modes may say the same of InfoE
    text = report.markdown(result).replace("`", "").replace("\\", "")
    for table in (b for b in every_block(result) if isinstance(b, Table)):
        for row in table.rows:
            assert "| " + " | ".join(row).replace("<", "&lt;") + " |" in text


def every_block(result: Disentanglement) -> list[Block]:
    return list(blocks_of(result))
