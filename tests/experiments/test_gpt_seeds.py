"""GPTs that differ in their seeds: trained once for both experiments; Figure 4 of Roeder et al. from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from identifiable._checks import DataError, UsageError
from identifiable.experiments import reproduce
from identifiable.experiments.gpt_seeds import GPT_SMOKE, GptSettings, gpt_seeds
from identifiable.options import ReproduceOptions

pytest.importorskip("torch")
TINY = {**GPT_SMOKE, "layers": 1, "width": 8, "context": 8, "vocabulary": 40, "steps": 5, "batch": 8}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return str(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def seeds(kept):
    return gpt_seeds(GptSettings(**TINY), ReproduceOptions(checkpoint=kept))


def test_layers_of_every_model_are_of_the_same_held_out_tokens(seeds):
    assert seeds.trained.shape == seeds.untrained.shape == (3, 2, 480, 8)
    assert (np.bincount(seeds.window) == 8).all()
    assert seeds.seeds == (0, 1, 2)
    assert np.abs(seeds.trained - seeds.untrained).max() > 1e-3
    assert np.abs(seeds.trained[0] - seeds.trained[1]).max() > 1e-3


def test_models_that_were_kept_are_not_trained_again(seeds, kept, monkeypatch):
    from identifiable.nn import training

    monkeypatch.setattr(training._Run, "epoch", None)
    again = gpt_seeds(GptSettings(**TINY), ReproduceOptions(checkpoint=kept))
    np.testing.assert_array_equal(again.trained, seeds.trained)
    with pytest.raises(DataError, match="models-0000"):  # other settings are other models
        gpt_seeds(GptSettings(**{**TINY, "learning_rate": 1e-4}), ReproduceOptions(checkpoint=kept))


def test_figure_4_has_every_pair_layer_and_number_of_components_beside_both_baselines(kept):
    found = reproduce("roeder-fig4", changes={**TINY, "components": (2, 8)}, checkpoint=kept)
    assert {(p.at, p.part, p.measure) for p in found.pairs} == {
        (at, part, measure) for at in (0, 1) for part in ("k = 2", "k = 8") for measure in ("svcca", "svcca_in_sample")
    }
    assert {p.seeds for p in found.pairs} == {(0, 1), (0, 2), (1, 2)}
    for pair in found.pairs:
        assert pair.value <= 1 + 1e-9
        assert abs(pair.shuffled) < 0.3
        assert math.isfinite(pair.untrained)
    assert all(mean.value_ci95 is not None for mean in found.means)
    assert [model.steps for model in found.models] == [5, 5, 5]


def test_figure_4_reads_layers_of_published_models_from_files(tmp_path):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 3))
    for width, name in enumerate(("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), start=4):
        layers = [rng.standard_normal((400, width)), shared @ rng.standard_normal((3, width))]
        np.savez(tmp_path / f"{name}.npz", **{f"layer_{k}": layer for k, layer in enumerate(layers)})
    changes = {"components": (3,), "every": 1}
    found = reproduce("roeder-fig4", scale="paper", data=str(tmp_path), changes=changes)
    means = {mean.at: mean for mean in found.means if mean.measure == "svcca"}
    assert means[0].value == pytest.approx(1, abs=1e-6)  # the last layers are linear maps of one another
    assert abs(means[-1].value) < 0.3
    assert (means[0].pairs, found.stand_in, math.isnan(means[0].untrained)) == (6, False, True)
    np.savez(tmp_path / "gpt2.npz", layer_0=rng.standard_normal((300, 4)), layer_1=rng.standard_normal((300, 4)))
    with pytest.raises(DataError, match="300, 400"):
        reproduce("roeder-fig4", scale="paper", data=str(tmp_path), changes=changes)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"scale": "small"}, UsageError, "tinyshakespeare.txt"),
        ({"scale": "small", "data": "no.txt"}, DataError, "no.txt"),
        ({"changes": {"components": (0,)}}, UsageError, "components"),
        ({"scale": "paper"}, UsageError, "--data"),
        ({"scale": "paper", "data": "."}, DataError, "gpt2"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(tmp_path, monkeypatch, words, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        reproduce("roeder-fig4", **words)
    assert "\n" not in str(caught.value)
