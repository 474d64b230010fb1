"""Table 1 run again: planted pairs in files, GPT seeds, and which order of maps the intervals show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import make_table1
from identifiable import compare
from identifiable._checks import DataError, UsageError
from identifiable.api import load
from identifiable.experiments import EXPERIMENTS, reproduce, table1
from identifiable.options import ReproduceOptions
from identifiable.results import Bounded

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "table1_small.json"
SPACY, QUICK = table1.FILES["spacy"], {"pairs": ("spacy",), "left_out": 5, "null_draws": 3}
GPT = {"layers": 1, "width": 8, "context": 8, "vocabulary": 40, "steps": 5, "batch": 8, "windows": 60, "null_draws": 3}


def planted(kind: str, n: int = 600, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Laplace sources seen by a rotation; then the same under another rotation, a linear map, or with columns exchanged."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(n, d))
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2)]
    X = sources @ turns[0]
    Y = {
        "rotation": sources @ turns[1],
        "linear": sources @ turns[1] @ np.diag([3.0, 1.0, 0.5]),
        "permutation": -2 * X[:, ::-1],
    }[kind]
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


def line_of(folder: Path, kind: str):
    X, Y = planted(kind)
    np.savez(folder / SPACY.file, **dict(zip(SPACY.parts, (X, Y), strict=True)))
    found = reproduce("table1", scale="small", data=str(folder), changes=QUICK)
    return found, found.lines[0]


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    return line_of(tmp_path_factory.mktemp("linear"), "linear")


def test_errors_are_those_of_compare_in_the_papers_protocol(linear):
    line = linear[1]
    pair = compare(*planted("linear"), protocol="paper", intervals=False, axes=False, neighbours=0, nulls=()).pairs[0]
    for error in line.errors:
        rung = pair.rung(error.map)
        assert error.in_sample.value == pytest.approx(rung.in_sample.mean_over_diameter)
        assert error.held_out.value == pytest.approx(rung.held_out.mean_over_diameter)
        low, high = error.in_sample.ci95
        assert low < error.in_sample.value < high
        assert error.untrained is None
    assert line.efficiency.value == pytest.approx(pair.ica_efficiency.in_sample)
    assert (line.n, line.width, line.pairs, line.intervals_over) == (600, 3, 1, "rows")


def test_a_linear_map_of_independent_sources_has_similarity_above_linear_and_chance_above_both(linear):
    found, line = linear
    steps = {(step.larger, step.smaller): step for step in line.order}
    last = steps["similarity", "linear"]
    assert (last.found, last.found_held_out) == ("agrees", "agrees")
    assert last.held_out.value == pytest.approx(
        line.error("similarity").held_out.value - line.error("linear").held_out.value
    )
    assert line.error("linear").shuffled > 3 * line.error("linear").held_out.value
    assert (
        steps["ica", "similarity"].found == "does_not"
    )  # ICA finds the sources, which no similarity maps onto each other
    assert line.found == "does_not"
    assert {alert.code for alert in found.alerts} == {"stand_in"}


def test_columns_that_are_exchanged_are_in_no_published_order(tmp_path):
    line = line_of(tmp_path, "permutation")[1]
    assert (
        line.error("similarity").in_sample.value < 0.05 < line.error("signed_permutation").in_sample.value
    )  # a scale of 2
    assert line.order[-1].found != "does_not"
    assert line.found_held_out != "agrees"


def test_gpt_seeds_have_every_ordered_pair_both_baselines_and_intervals_over_models():
    pytest.importorskip("torch")
    (line,) = reproduce("table1", changes=GPT).lines
    assert (line.kind, line.pairs, line.intervals_over, line.n) == ("seeds", 6, "models", 480)
    for error in line.errors:
        assert 0 < error.in_sample.value < 1
        assert error.untrained.value > 0
        assert error.untrained_shuffled > 0.9 * error.untrained_held_out.value
        assert error.in_sample.ci95 is not None
    assert line.efficiency_held_out is None  # too few rows


def test_models_of_the_paper_stand_beside_their_published_numbers(tmp_path):
    folder = tmp_path / "pythia-160m"
    folder.mkdir()
    for side, table in zip("ab", planted("rotation", n=200), strict=True):
        np.save(folder / f"{side}.npy", table)
    changes = {**QUICK, "pairs": ("pythia-160m",), "left_out": 3, "null_draws": 1}
    (line,) = reproduce("table1", scale="paper", data=str(tmp_path), changes=changes).lines
    assert line.kind == "published"
    assert [error.published for error in line.errors] == [0.219, 0.202, 0.150, 0.131]
    assert line.error("linear").agreement == "does_not"


@pytest.mark.parametrize(
    ("ours", "paper", "found"),
    [
        (Bounded(0.2, (0.19, 0.21)), 0.2104, "agrees"),  # within rounding
        (Bounded(0.2, (0.19, 0.21)), 0.212, "does_not"),
        (Bounded(0.2), 0.2, "cannot_tell"),
    ],
)
def test_a_published_number_agrees_if_it_lies_in_the_interval(ours, paper, found):
    assert table1._near(ours, paper) == found


@pytest.mark.parametrize(
    ("ci95", "found"),
    [((0.1, 0.2), "agrees"), ((-0.2, -0.1), "does_not"), ((-0.1, 0.1), "cannot_tell"), (None, "cannot_tell")],
)
def test_the_word_of_a_step_is_on_which_side_of_0_its_interval_lies(ci95, found):
    assert table1._found(Bounded(0.0, ci95)) == found


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"scale": "small"}, UsageError, "--data"),
        ({"scale": "small", "data": "."}, DataError, SPACY.file),
        ({"scale": "paper", "data": "."}, DataError, "pythia-160m"),
        ({"scale": "small", "changes": {"pairs": ("gpt",)}}, UsageError, "tinyshakespeare.txt"),
        ({"changes": {"pairs": ("bert",)}}, UsageError, "bert"),
        ({"changes": {"models": 1}}, UsageError, "models 1"),
        ({"changes": {"left_out": 2}}, UsageError, "left_out"),
        ({"changes": {"windows": 100_000}}, DataError, "windows"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(tmp_path, monkeypatch, words, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        reproduce("table1", **words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scale", "kinds", "codes"),
    [
        ("paper", ("releases", "seeds", "published"), []),
        ("paper", ("releases", "shared_pretraining"), ["shared_pretraining"]),
        ("small", ("seeds",), ["stand_in"]),
        ("smoke", ("shared_pretraining",), ["stand_in", "shared_pretraining"]),
    ],
)
def test_models_that_are_alike_from_the_start_and_stand_ins_are_alerts(scale, kinds, codes):
    first = make_table1().lines[0]
    lines = [replace(first, name=f"line {k}", kind=kind) for k, kind in enumerate(kinds)]
    alerts = {alert.code: alert.values for alert in table1._alerts(lines, ReproduceOptions(scale=scale))}
    assert list(alerts) == codes
    if "shared_pretraining" in codes:
        assert alerts["shared_pretraining"] == {"names": [f"line {len(kinds) - 1}"]}


def test_published_lines_have_the_order_and_the_efficiency_that_is_printed():
    rows = EXPERIMENTS["table1"].published["rows"]
    assert len(rows) == 4
    for row in rows.values():
        errors = [row[name] for name in table1.ORDER]
        assert errors == sorted(errors, reverse=True)
        share = (errors[0] - errors[1]) / (errors[0] - errors[2])
        assert share == pytest.approx(row["efficiency"], abs=0.006)


@pytest.mark.parametrize(
    ("name", "expected", "share"),
    [
        ("spaCy 3.6 / 3.8", (0.469, 0.355, 0.286, 0.254), 0.62),
        ("rxnfp, layer 12", (0.370, 0.271, 0.236, 0.140), 0.74),
    ],
)
def test_the_committed_run_has_the_numbers_of_an_independent_prototype(name, expected, share):
    line = next(line for line in load(COMMITTED).lines if line.name == name)
    assert [error.in_sample.value for error in line.errors] == pytest.approx(expected, abs=0.004)
    assert line.efficiency.value == pytest.approx(share, abs=0.03)
