"""The compositional contrast, a penalty that starts in a found basis, and the autoencoder of slots."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from identifiable._checks import UsageError  # noqa: E402
from identifiable.nn import (  # noqa: E402
    Architecture,
    OrthogonalAutoencoder,
    Penalised,
    SlotAutoencoder,
    Training,
    compositional_contrast,
    products,
    representation_model,
    train,
)

BLOCKS = (2, 1, 3)
SHORT = Training(batch=32, max_epochs=2, epoch_steps=30, patience=None, keep="last", clip=None, learning_rate=1e-2)


def network(latents: int = 6, outputs: int = 11) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(latents, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs)).double()


def points(n: int = 7, d: int = 6) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(1).standard_normal((n, d)))


def disjoint_world(n: int = 600) -> np.ndarray:
    """Two slots of two latents, each with six outputs of its own."""
    rng = np.random.default_rng(2)
    mixing = np.zeros((4, 12))
    mixing[:2, :6], mixing[2:, 6:] = rng.standard_normal((2, 2, 6))
    return (rng.uniform(-1, 1, (n, 4)) @ mixing).astype(np.float32)


def test_contrast_is_the_sum_of_cosines_between_the_profiles_of_blocks() -> None:
    decoder, z = network(), points()
    J = products(decoder).jacobian(z.numpy())  # (points, latents, outputs)
    lengths = [np.sqrt((part**2).sum(axis=1)) for part in np.split(J, np.cumsum(BLOCKS)[:-1], axis=1)]
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in lengths]
    expected = sum((a * b).sum(axis=1).mean() for a, b in combinations(unit, 2))
    assert compositional_contrast(decoder, z, BLOCKS).item() == pytest.approx(expected, rel=1e-12)


def test_contrast_does_not_depend_on_the_scale_of_a_block_and_the_raw_one_does() -> None:
    decoder, z = network(), points()
    scales = torch.as_tensor([1e-3, 1e-3, 1.0, 50.0, 50.0, 50.0], dtype=torch.float64)
    scaled = compositional_contrast(lambda s: 0.1 * decoder(s * scales), z / scales, BLOCKS)
    assert scaled.item() == pytest.approx(compositional_contrast(decoder, z, BLOCKS).item(), rel=1e-6)


def test_contrast_ends_at_0_and_1_and_sees_one_shared_output() -> None:
    apart = torch.block_diag(torch.ones(5, 2), torch.ones(6, 4)).double()
    assert compositional_contrast(lambda z: z @ apart.T, points(), (2, 4)).item() == 0
    assert compositional_contrast(lambda z: z @ torch.ones(6, 9).double(), points(), (2, 4)).item() == pytest.approx(1)
    apart[0, 2:] = 1
    assert compositional_contrast(lambda z: z @ apart.T, points(), (2, 4)).item() > 0.1
    assert compositional_contrast(lambda z: z @ apart.T, points(), (6,)).item() == pytest.approx(0, abs=1e-12)


def test_dead_outputs_and_dead_blocks_leave_finite_gradients() -> None:
    weight = torch.zeros(9, 6, dtype=torch.float64)
    weight[:4, :2] = 1.0
    weight.requires_grad_()
    found = compositional_contrast(lambda z: z @ weight.T, points(), (2, 2, 2))
    found.backward()
    assert found.item() == 0
    assert weight.grad is not None
    assert bool(weight.grad.isfinite().all())


@pytest.mark.parametrize("blocks", [(), (3,), (3, 4), (6, 0)])
def test_blocks_that_do_not_add_up_are_refused(blocks: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="6"):
        compositional_contrast(network(), points(), blocks)


def test_a_found_basis_keeps_reconstructions_and_moves_the_contrast() -> None:
    model = SlotAutoencoder(12, 4, hidden=16, seed=3)
    basis = np.random.default_rng(0).standard_normal((4, 4))
    turned, same = Penalised(model, (2, 2), weight=0.5, basis=basis), Penalised(model, (2, 2), weight=0.0)
    rows = torch.as_tensor(disjoint_world(20))
    with torch.no_grad():
        assert torch.allclose(turned.decoder(turned.encoder(rows)), model.decoder(model.encoder(rows)), atol=1e-5)
        assert torch.allclose(turned.encoder(rows) @ torch.as_tensor(basis.T).float(), model.encoder(rows), atol=1e-5)
        contrast = compositional_contrast(turned.decoder, turned.encoder(rows), (2, 2))
        assert turned.loss(rows).item() == pytest.approx((model.loss(rows) + 0.5 * contrast).item(), rel=1e-5)
        assert same.loss(rows).item() == pytest.approx(model.loss(rows).item(), rel=1e-6)
        assert abs(contrast - compositional_contrast(same.decoder, same.encoder(rows), (2, 2))).item() > 1e-3


def test_the_penalty_makes_blocks_own_outputs_and_training_without_it_does_not() -> None:
    rows = disjoint_world()
    contrasts = []
    for weight in (0.0, 0.3):
        models = [Penalised(SlotAutoencoder(12, 4, hidden=16, seed=s), (2, 2), weight=weight) for s in (0, 1)]
        runs = train(models, rows, rows[:64], SHORT, seeds=[0, 1])
        seen = torch.as_tensor(rows[:64])
        contrasts.append([compositional_contrast(r.model.decoder, r.model.encoder(seen), (2, 2)).item() for r in runs])
    assert min(contrasts[0]) > 0.5
    assert max(contrasts[1]) < min(contrasts[0]) - 0.1


def test_orthonormal_and_variational_models_can_be_penalised_as_they_are() -> None:
    rows = disjoint_world(64)
    orthogonal = Penalised(OrthogonalAutoencoder((12, 8, 4), leak=0.3), (2, 2))
    (run,) = train([orthogonal], rows, rows, Training(batch=32, max_epochs=2), seeds=[0])
    weight = run.model.model.decoder.weights[0].weight.detach()
    assert torch.allclose(weight.mT @ weight, torch.eye(4), atol=1e-5)
    assert run.losses[-1] < run.losses[0]
    small = Architecture(resolution=8, channels=1, widths=(4,), dense=8)
    vae = Penalised(representation_model("beta-vae", small, 4, seed=0, n_rows=24, beta=1.0), (2, 2))
    pictures = np.random.default_rng(0).random((24, 1, 8, 8)).astype(np.float32)
    (run,) = train([vae], pictures, pictures, Training(batch=12, max_epochs=1), seeds=[0])
    assert np.isfinite(run.best_loss)
    assert not vae.regularised("model.encoder.dense.0.bias")
    assert vae.regularised("model.encoder.dense.0.weight")


@pytest.mark.parametrize("wrong", [np.eye(3), np.ones((4, 4)), np.full((4, 4), np.nan)])
def test_a_basis_that_cannot_be_inverted_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(UsageError, match="4 x 4"):
        Penalised(SlotAutoencoder(12, 4, hidden=8), (2, 2), basis=wrong)
    with pytest.raises(UsageError, match="-1"):
        Penalised(SlotAutoencoder(12, 4, hidden=8), (2, 2), weight=-1)


def test_models_of_two_worlds_in_one_stack_learn_as_each_alone() -> None:
    worlds = np.stack([disjoint_world(), disjoint_world()[:, ::-1] * 2], axis=1)
    models = [SlotAutoencoder(12, 4, hidden=16, world=w, seed=5) for w in (0, 1)]
    together = train(models, worlds, worlds[:50], SHORT, seeds=[1, 1])
    for w, run in enumerate(together):
        own = worlds[:, w]
        (alone,) = train([SlotAutoencoder(12, 4, hidden=16, seed=5)], own, own[:50], SHORT, seeds=[1])
        assert run.validation == pytest.approx(alone.validation, rel=1e-3)
    assert together[0].validation[-1] != pytest.approx(together[1].validation[-1], rel=0.1)
