"""The orthogonal autoencoder: its weights stay orthonormal, and its leak bounds its constant."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from identifiable._checks import UsageError  # noqa: E402
from identifiable.jacobians import spectra  # noqa: E402
from identifiable.nn import OrthogonalAutoencoder, Training, outputs, products, train  # noqa: E402
from identifiable.nn.autoencoder import nearest_orthonormal  # noqa: E402

WIDTHS = (20, 12, 6, 3)


def rows(n: int = 200, d: int = 20, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 4)) @ rng.standard_normal((4, d)) * 0.2).astype(np.float32)


def departure(weight: torch.Tensor) -> float:
    """Largest entry of W W^T - 1 or W^T W - 1, whichever is smaller in size."""
    w = weight.double()
    gram = w @ w.mT if len(w) <= w.shape[1] else w.mT @ w
    return float((gram - torch.eye(len(gram), dtype=gram.dtype)).abs().max())


def test_weights_are_orthonormal_at_the_start_and_after_training() -> None:
    model = OrthogonalAutoencoder(WIDTHS, 0.3, seed=1)
    (trained,) = train([model], rows(), rows(seed=1), Training(batch=20, max_epochs=10), seeds=[0])
    for weight in [*model.parameters(), *trained.model.parameters()]:
        assert departure(weight.detach()) < 1e-5
    before, after = (m.decoder.weights[0].weight.detach() for m in (model, trained.model))
    assert float((before - after).abs().max()) > 1e-3  # it has moved

    class Free(OrthogonalAutoencoder):
        project = None  # type: ignore[assignment]

    (free,) = train([Free(WIDTHS, 0.3)], rows(), rows(seed=1), Training(batch=20, max_epochs=10), seeds=[0])
    assert max(departure(weight.detach()) for weight in free.model.parameters()) > 1e-4  # without projection


@pytest.mark.parametrize("leak", [0.1, 0.5, 1.0])
def test_singular_values_of_the_decoder_lie_between_leak_squared_and_one(leak: float) -> None:
    decoder = OrthogonalAutoencoder(WIDTHS, leak, seed=2).double().decoder
    found = spectra(products(decoder), np.random.default_rng(0).standard_normal((300, 3)))
    assert found.largest.max() <= 1 + 1e-6
    assert found.smallest.min() >= leak**2 * (1 - 1e-6)
    assert found.constant.max() <= leak**-2 * (1 + 1e-6)
    if leak < 1:
        assert found.constant.max() > 1.05  # and it is no isometry
    else:
        assert found.constant.max() < 1 + 1e-6


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5), (3, 8, 4)])
def test_nearest_orthonormal_is_the_polar_factor(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    exact = torch.linalg.svd(torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False)
    start = exact.U @ exact.Vh
    moved = start + 0.01 * torch.randn(shape, generator=generator, dtype=torch.float64)
    expected = torch.linalg.svd(moved, full_matrices=False)
    found = nearest_orthonormal(moved)
    assert float((found - expected.U @ expected.Vh).abs().max()) < 1e-6
    assert float((moved - expected.U @ expected.Vh).abs().max()) > 1e-3


def test_nearest_orthonormal_is_so_from_afar_too() -> None:
    generator = torch.Generator().manual_seed(5)
    stack = torch.randn((4, 9, 5), generator=generator, dtype=torch.float64)
    stack[2] = nearest_orthonormal(stack[2]) * 1.01  # one of them is near
    expected = torch.linalg.svd(stack, full_matrices=False)
    assert float((nearest_orthonormal(stack) - expected.U @ expected.Vh).abs().max()) < 1e-8


@pytest.mark.parametrize("learning_rate", [1e-3, 3e-2])
def test_large_steps_do_not_leave_the_orthonormal_matrices(learning_rate: float) -> None:
    settings = Training(batch=20, max_epochs=3, learning_rate=learning_rate)
    (trained,) = train([OrthogonalAutoencoder((20, 12, 3), 0.3)], rows(), rows(seed=1), settings, seeds=[0])
    assert trained.stopped == "max_epochs"
    assert max(departure(weight.detach()) for weight in trained.model.parameters()) < 1e-3


def test_gradients_are_projected_onto_what_turns_a_weight() -> None:
    model = OrthogonalAutoencoder(WIDTHS, 0.5, seed=4).double()
    weights = dict(model.named_parameters())
    model.loss(torch.as_tensor(rows()).double()).backward()
    gradients = {name: p.grad.clone() for name, p in weights.items()}
    with torch.no_grad():
        model.project_gradients(weights, gradients)
    for name, weight in weights.items():
        w, g = (t if t.shape[0] >= t.shape[1] else t.mT for t in (weight.detach(), gradients[name]))
        across = w.mT @ g
        assert float((across + across.mT).abs().max()) < 1e-8  # to first order lengths stay
    raw = weights["encoder.weights.0.weight"]
    across = raw.detach() @ raw.grad.mT
    assert float((across + across.mT).abs().max()) > 1e-5  # the gradient itself would stretch


def test_outputs_are_those_of_the_module_in_any_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = OrthogonalAutoencoder(WIDTHS, 0.5).encoder
    whole = outputs(encoder, rows(50))
    monkeypatch.setattr("identifiable.nn.applying.ROWS", 7)
    np.testing.assert_allclose(outputs(encoder, rows(50)), whole, atol=1e-6)
    assert whole.shape == (50, 3)


@pytest.mark.parametrize(
    ("widths", "leak"), [((4,), 0.5), ((4, 6), 0.5), ((4, 0), 0.5), ((4, 2), 0.0), ((4, 2), -0.1), ((4, 2), 1.5)]
)
def test_widths_that_do_not_fall_and_a_leak_that_is_none_are_refused(widths: tuple[int, ...], leak: float) -> None:
    with pytest.raises(UsageError, match="widths" if leak == 0.5 else str(leak)):
        OrthogonalAutoencoder(widths, leak)
