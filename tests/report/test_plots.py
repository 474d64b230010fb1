"""The plots of a comparison: what is drawn, where, and what cannot be."""

from __future__ import annotations

import pytest

from builders import make_comparison
from identifiable._checks import MissingExtra, UsageError

pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is an extra")
pyplot.switch_backend("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def texts(ax) -> list[str]:
    return [label.get_text() for label in ax.get_legend().get_texts()]


def test_both_pictures_stand_side_by_side():
    result = make_comparison()
    ladder, shared = result.plot()
    assert ladder.figure is shared.figure
    explained = [rung.r2.value for rung in result.rungs if rung.r2 is not None]
    assert [len(c.lines[0].get_xdata()) for c in ladder.containers] == [len(explained)] * 2
    assert ladder.containers[0].lines[0].get_ydata().tolist() == explained
    assert len(ladder.get_xticklabels()) == len(explained)
    assert len(texts(ladder)) == 2
    curve, strong, chance = shared.lines
    assert tuple(curve.get_ydata()) == result.pairs[0].shared.rho
    assert (strong.get_ydata()[0], chance.get_ydata()[0]) == (0.9, result.pairs[0].shared.chance)


def test_in_axes_of_the_user_the_ladder_is_drawn_unless_asked_otherwise():
    result, (_, axes) = make_comparison(), pyplot.subplots(1, 2)
    assert result.plot(axes[0]) is axes[0]
    assert axes[0].containers
    assert result.plot(axes[1], which="shared") is axes[1]
    assert len(axes[1].lines) == 3
    assert len(pyplot.get_fignums()) == 1
    assert result.plot(which="shared").lines


def test_of_several_models_the_weakest_pair_is_drawn():
    result = make_comparison(4)
    weakest = result.weakest
    assert all(weakest.source in text and weakest.target in text for text in texts(result.plot(which="ladder")))


def test_a_map_far_worse_than_the_mean_does_not_flatten_the_picture():
    result = make_comparison()
    assert -0.3 < result.plot(which="ladder").get_ylim()[0] < 0


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(UsageError, match=r"'errors'.*ladder.*shared"):
        make_comparison().plot(which="errors")
    for which in ("ladder", "shared"):
        with pytest.raises(UsageError, match="run"):
            make_comparison(older="As recorded.").plot(which=which)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("identifiable._extras.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"matplotlib.*\[plot\]"):
        make_comparison().plot()
