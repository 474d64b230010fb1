"""Models with f and g: their losses are those of torch's own parts, and stacks of them train as each would alone."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from identifiable.nn import Classifier, Contrastive, LogBilinear, Training, train  # noqa: E402

cross_entropy = torch.nn.functional.cross_entropy
QUICK = Training(batch=20, epoch_steps=10, max_epochs=3, learning_rate=0.03, patience=None, keep="last")


def labelled(n: int = 200) -> np.ndarray:
    points = np.random.default_rng(0).standard_normal((n, 2))
    return np.column_stack([points, points[:, 0] > 0]).astype(np.float32)


def windows(n: int = 200) -> np.ndarray:
    """The word in the middle is the one before it plus one."""
    found = np.random.default_rng(0).integers(0, 6, (n, 5))
    found[:, -1] = (found[:, 1] + 1) % 6
    return found.astype(np.float32)


def patches(n: int = 200) -> np.ndarray:
    x = np.random.default_rng(0).random((n, 1, 4))
    return np.concatenate([x, x[..., ::-1]], axis=1).astype(np.float32)


MADE = {
    "classifier": (lambda seed: Classifier((2, 8, 2), 2, seed=seed), labelled()),
    "contrastive": (lambda seed: Contrastive((4, 8, 3), 20, seed=seed), patches()),
    "words": (lambda seed: LogBilinear(6, 4, 3, seed=seed), windows()),
    "words by noise": (
        lambda seed: LogBilinear(6, 4, 3, samples=5, table=[0, 1, 2, 3, 4, 5], seed=seed),
        windows(),
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_stack_trains_as_each_model_would_alone_and_learns(kind):
    make, rows = MADE[kind]
    stacked, alone = (
        train([make(1), make(2)], rows, rows[:40], QUICK, seeds=[1, 2], together=together) for together in (2, 1)
    )
    for a, b in zip(stacked, alone, strict=True):
        np.testing.assert_allclose(a.losses, b.losses, rtol=1e-3)
        assert a.losses[-1] < a.losses[0]
    assert stacked[0].losses != stacked[1].losses
    assert make(1).loss(*_inputs(make(1), rows)) != make(2).loss(*_inputs(make(2), rows))


def _inputs(model, rows):
    noise = getattr(model, "noise", 0)
    return (torch.as_tensor(rows), *([torch.zeros(len(rows), noise)] if noise else []))


def test_losses_are_cross_entropies_of_f_and_g():
    rows = torch.as_tensor(labelled(7))
    model = Classifier((2, 8, 3), 2, seed=3)
    scores = model.f(rows[:, :2]) @ model.g.weight.T
    torch.testing.assert_close(model.loss(rows), cross_entropy(scores, rows[:, 2].long()))
    rows = torch.as_tensor(patches(6))
    pair = Contrastive((4, 5), 3, seed=3)
    groups = [cross_entropy(pair.f(rows[a : a + 3, 0]) @ pair.g(rows[a : a + 3, 1]).T, torch.arange(3)) for a in (0, 3)]
    torch.testing.assert_close(pair.loss(rows), torch.stack(groups).mean())
    rows = torch.as_tensor(windows(7))
    words = LogBilinear(6, 4, 3, seed=3)
    words.bias.data.copy_(torch.arange(6.0))
    words.position.data.mul_(torch.arange(1.0, 5.0)[:, None])
    contexts = torch.stack([sum((k + 1) * words.context[int(w)] for k, w in enumerate(row[:-1])) for row in rows])
    torch.testing.assert_close(words.f(rows[:, :-1]), contexts)
    scores = contexts @ words.word.T + words.bias
    torch.testing.assert_close(words.loss(rows), cross_entropy(scores, rows[:, -1].long()))


def test_noise_contrastive_loss_is_that_of_word_against_drawn_words():
    model = LogBilinear(4, 4, 2, samples=2, table=[2, 2, 3, 3], seed=0)
    model.bias.data.copy_(torch.tensor([0.0, 1.0, -2.0, 3.0]))
    model.context.data.zero_()  # scores are the biases
    row = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]])
    low, high = -3.0, 3.0  # the first word of the table, and the last
    wanted = -(torch.sigmoid(torch.tensor(1.0)).log() + torch.sigmoid(torch.tensor([2.0, -3.0])).log().sum())
    torch.testing.assert_close(model.loss(row, torch.tensor([[low, high]])), wanted)
