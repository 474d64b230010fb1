"""`identifiable demo`: the first minute."""

from __future__ import annotations

import base64
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from identifiable import report
from identifiable.cli import main
from identifiable.report.answer import advice
from identifiable.report.page import PNG
from identifiable.results import Axes, Comparison, from_json


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--quiet", "--json", str(folder / "d.json"), "--report", str(folder / "p.html")]) == 0
    result = from_json((folder / "d.json").read_text(encoding="utf-8"))
    assert isinstance(result, Comparison)
    return result


def test_it_says_first_what_the_data_are_and_last_what_to_try(demo):
    lines = demo.table().strip().splitlines()
    assert "1,797" in lines[0]
    assert "8 latents" in lines[0]
    assert [shlex.split(line)[:2] for line in lines[-2:]] == [["identifiable", "compare"], ["identifiable", "resolve"]]


def test_geometry_was_kept_and_axes_were_not(demo):
    for pair in demo.pairs:
        assert pair.rung("similarity").r2.value > 0.9
        assert pair.rung("signed_permutation").r2.value < 0.5
        assert pair.verdict.form.group == "similarity"


def test_labels_that_moved_are_digits(demo):
    assert {g.label for g in demo.weakest.moved} <= set("0123456789")
    assert demo.weakest.moved[0].ratio > 1.05
    assert demo.settings["labels"] == "labels"  # not where the package is installed


def test_pictures_are_the_digits_with_the_largest_errors(demo):
    pictures = demo.demo.pictures
    _, digits = load_digits(return_X_y=True)
    assert len(pictures) == 10
    errors = [p.error for p in pictures]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(demo.weakest.rung(demo.demo.group).held_out.max, abs=1e-3)
    for picture in pictures:
        assert base64.b64decode(picture.png).startswith(PNG)
        assert picture.label == str(digits[int(picture.row.removeprefix("digit-")) - 1])


def test_the_page_shows_the_pictures_and_other_pages_have_none(demo):
    assert report.html(demo).count("data:image/png") == 10
    plain = replace(demo, demo=None)
    assert "data:image/png" not in report.html(plain)
    assert "identifiable resolve run1.npy" not in plain.table()
    assert "identifiable resolve run1.npy" in report.markdown(demo)


def test_pixels_and_tables_of_the_demo_have_the_same_rows(demo):
    with np.load(Path(report.__file__).parents[1] / "data" / "digits_autoencoders.npz") as data:
        assert np.array_equal(data["labels"], load_digits(return_X_y=True)[1])


@pytest.mark.parametrize(("matched", "same"), [(8, True), (7, False), (0, False)])
def test_advice_names_resolve_where_components_match(demo, matched, same):
    axes = Axes(8, 1000, matched=matched, own_source=8, own_target=8)
    said = list(advice(replace(demo.weakest, axes=axes)))
    assert ("identifiable resolve" in said[-1]) is same
