"""How a result shows itself: one line, a page in a notebook, a data frame."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from builders import EXAMPLES, make_comparison, make_joint_resolution, make_resolution
from errors import naming
from identifiable import report
from identifiable._checks import MissingExtra
from identifiable.results import FoldScore
from identifiable.results.record import LINE, flat, shorten

TIDY = ["source", "target", "direction", "group", "measure", "value", "low", "high"]


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Any:
    return EXAMPLES[request.param]()


def test_every_kind_of_result_has_a_line_a_page_and_a_frame(example):
    line = repr(example)
    assert line.startswith("<")
    assert line.endswith(">")
    assert len(line) < 200
    assert line.isprintable()
    assert example._repr_html_() == report.fragment(example)
    frame = example.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(list(example.rows()))
    assert len(frame) or example.rows_in == "scores"  # the example of an evaluation has none
    assert not [name for name in frame.columns if frame[name].map(type).isin([tuple, dict, list]).any()]


def test_the_errors_of_a_rung_are_shown_without_their_quantiles():
    held_out = make_comparison().pairs[0].rungs[0].held_out
    assert len(held_out.quantiles) == 101
    assert f"q95={held_out.q95}" in repr(held_out)
    assert "quantiles" not in repr(held_out)


def test_a_line_keeps_its_verdict_whatever_the_names():
    result = make_comparison(6, names=[f"{'long' * 40}\n{i}" for i in range(6)])
    assert len(repr(result)) < 200
    assert f"R² {result.weakest.verdict.r2:.2f}" in repr(result)
    assert "similarity (clear)" in repr(result)
    assert "and 3 more" in repr(result)
    plain = repr(make_comparison())
    assert re.match(naming("<Comparison of", "run1, run2: "), plain)
    assert "nearly" in plain


def test_lines_are_cut_and_hold_what_can_be_printed():
    assert shorten("a\x1b[31m\n b", 20) == "a [31m b"
    assert shorten("x" * LINE, LINE) == "x" * LINE
    assert shorten("x" * (LINE + 1), LINE) == "x" * (LINE - 1) + "…"


def test_the_frame_of_a_comparison_is_tidy():
    result = make_comparison()
    frame = result.to_frame()
    assert list(frame.columns) == TIDY
    assert not frame.duplicated(["source", "target", "group", "measure"]).any()
    assert set(frame.direction) == {"forward", "back"}
    forward = frame[frame.direction == "forward"].set_index(["group", "measure"])
    assert set(forward.source) == {"run1"}
    held = result.pairs[0].rung("rigid").held_out
    r2 = result.pairs[0].rung("rigid").r2
    assert forward.loc[("rigid", "r2"), ["value", "low", "high"]].tolist() == [r2.value, *r2.ci95]
    assert forward.value["rigid", "held_out_mean"] == held.mean
    assert forward.value["rigid", "held_out_q95"] == held.q95
    assert forward.value["rigid", "p_shuffle"] == 1 / 101
    assert forward.value["", "shared_strong"] == 28
    assert forward.value["", "axes_matched"] == 2
    assert forward.value["similarity", "neighbours"] == 0.9
    assert pd.isna(forward.low["", "shared_strong"])


def test_what_was_not_measured_is_not_in_the_frame():
    frame = make_comparison(nulls=False, older="As recorded.").to_frame()
    assert not {"r2", "shared_strong", "axes_matched", "p_shuffle"} & set(frame.measure)
    assert {"held_out_mean"} <= set(frame.measure)
    assert make_comparison(4).to_frame().groupby(["source", "target"]).ngroups == 12


def test_axes_that_are_withheld_are_not_in_the_frame():
    result = make_comparison()
    pairs = tuple(replace(pair, axes=replace(pair.axes, withheld="no_axes")) for pair in result.pairs)
    assert not [m for m in replace(result, pairs=pairs).to_frame().measure if m.startswith("axes")]


def test_frames_of_other_kinds_have_their_records():
    found = make_resolution()
    frame = found.to_frame()
    assert frame.negentropy.tolist() == [c.negentropy for c in found.components]
    joint = make_joint_resolution()
    assert [i.name for i in joint.inputs] == list(joint.to_frame().columns)[-len(joint.inputs) :]
    scores = EXAMPLES["disentanglement"]().to_frame()
    assert {"metric", "score", "value", "low", "high"} <= set(scores.columns)
    score = FoldScore("ica", "lgbm", "x", "plate", "train", 0, 0, 0, 90, 9, 10, 1, 0.7, 0.6, 40.0, 0.3, 0.2)
    evaluated = replace(EXAMPLES["evaluation"](), scores=(score, score))
    assert evaluated.to_frame().auroc.tolist() == [0.7, 0.7]


def test_a_record_is_flat_with_its_intervals_by_two_columns():
    null = make_comparison().pairs[0].rung("rigid")
    assert flat(null)["held_out_low"] == null.held_out.ci95[0]
    assert flat(null.in_sample)["low"] is None
    assert "quantiles" not in flat(null.in_sample)


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("identifiable._extras.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pandas.*\[frames\]"):
        make_comparison().to_frame()


def test_a_kind_without_a_headline_says_what_it_is_a_result_of(monkeypatch):
    result = make_comparison()
    assert result.headline != result.about
    monkeypatch.setattr("identifiable.report.headlines.HEADLINES", {})
    assert result.headline == result.about
