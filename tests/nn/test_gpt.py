"""The small GPT: an independent forward pass, causality, and training in a stack."""

from __future__ import annotations

import math

import numpy as np
import pytest

from identifiable._checks import UsageError

torch = pytest.importorskip("torch")
from identifiable.nn import GPT, Training, layer_states, train  # noqa: E402

SIZE = {"vocabulary": 20, "context": 6, "layers": 2, "width": 8, "heads": 2}


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(20, size=(5, 6))


def by_hand(model: GPT, row: np.ndarray) -> list[np.ndarray]:
    """The layers of one row, token by token."""
    p = {name: value.detach().numpy().astype(np.float64) for name, value in model.named_parameters()}

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * p[f"{name}.weight"]
            + p[f"{name}.bias"]
        )

    def linear(x, name):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    erf = np.vectorize(math.erf)
    stream = p["tokens"][row] + p["positions"][: len(row)]
    states = [stream]
    for k in range(SIZE["layers"]):
        at = f"blocks.{k}"
        query, key, value = np.split(linear(norm(stream, f"{at}.before_attention"), f"{at}.attend"), 3, axis=1)
        seen = np.zeros_like(stream)
        for head in range(SIZE["heads"]):
            own = slice(4 * head, 4 * head + 4)
            for t in range(len(row)):
                scores = np.exp(key[: t + 1, own] @ query[t, own] / 2)
                seen[t, own] = scores @ value[: t + 1, own] / scores.sum()
        stream = stream + linear(seen, f"{at}.out")
        inner = linear(norm(stream, f"{at}.before_mlp"), f"{at}.up")
        stream = stream + linear(inner * (1 + erf(inner / math.sqrt(2))) / 2, f"{at}.down")
        states.append(stream)
    return [*states[:-1], norm(stream, "norm")]


def larger(model: GPT) -> GPT:
    """Weights far from their small start, so that every part matters."""
    with torch.no_grad():
        generator = torch.Generator().manual_seed(5)
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return model


def test_states_equal_a_forward_pass_written_by_hand(tokens):
    model = larger(GPT(**SIZE))
    found = layer_states(model, tokens).reshape(3, 5, 6, 8)
    for k, row in enumerate(tokens):
        for layer, states in enumerate(by_hand(model, row)):
            np.testing.assert_allclose(found[layer, k], states, atol=1e-4)


def test_no_token_sees_a_later_one(tokens):
    model = larger(GPT(**SIZE))
    changed = tokens.copy()
    changed[:, 3] = (changed[:, 3] + 1) % 20
    before, after = (layer_states(model, t).reshape(3, 5, 6, 8) for t in (tokens, changed))
    np.testing.assert_array_equal(before[:, :, :3], after[:, :, :3])
    assert np.abs(before - after)[-1, :, 3:].max(axis=-1).min() > 1e-4  # every later one does


def test_the_loss_at_the_start_is_that_of_guessing_and_falls_with_training(tokens):
    rows = np.tile(np.arange(7), (64, 1))
    models = [GPT(**SIZE, seed=seed) for seed in (0, 1)]
    assert models[0].loss(torch.as_tensor(rows)).item() == pytest.approx(math.log(20), abs=0.1)
    settings = Training(learning_rate=0.01, batch=16, max_epochs=1, epoch_steps=40, patience=None, keep="last")
    stacked = train(models, rows, rows[:8], settings, seeds=(0, 1))
    assert all(run.validation[-1] < 0.5 for run in stacked)
    alone = train(models[1:], rows, rows[:8], settings, seeds=(1,))[0]
    assert alone.validation[-1] == pytest.approx(stacked[1].validation[-1], rel=1e-3)
    assert stacked[0].validation != stacked[1].validation


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(UsageError, match="width 10"):
        GPT(**{**SIZE, "width": 10, "heads": 4})
