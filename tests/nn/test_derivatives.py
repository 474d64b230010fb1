"""nn: products of torch decoders are those of `torch.func`'s Jacobians, for networks of every kind."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from identifiable._checks import DataError, UsageError  # noqa: E402
from identifiable.jacobians import Products, spectra  # noqa: E402
from identifiable.nn import load_program, products  # noqa: E402

nn = torch.nn


class Transformer(nn.Module):
    """A latent to four tokens, two encoder layers, pixels."""

    def __init__(self, d: int):
        super().__init__()
        self.spread = nn.Linear(d, 4 * 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 5)

    def forward(self, z: Any) -> Any:
        return self.out(self.encoder(self.spread(z).reshape(len(z), 4, 16)))


def mlp(d: int) -> Any:
    return nn.Sequential(nn.Linear(d, 32), nn.LeakyReLU(0.1), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 40))


def convolutional(d: int) -> Any:
    return nn.Sequential(
        nn.Linear(d, 8 * 4 * 4),
        nn.Unflatten(1, (8, 4, 4)),
        nn.ConvTranspose2d(8, 8, 4, 2, 1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Sigmoid(),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [mlp, convolutional, Transformer])
@pytest.mark.parametrize("seed", [0, 1])
def test_spectra_are_those_of_the_jacobian(make: Any, dtype: Any, seed: int) -> None:
    torch.manual_seed(seed)
    decoder = make(5).to(dtype).eval()
    Z = np.random.default_rng(seed).standard_normal((6, 5))
    jacobian = torch.func.vmap(torch.func.jacrev(lambda z: decoder(z[None])[0].flatten()))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        truth = np.linalg.svd(jacobian(torch.as_tensor(Z, dtype=dtype)).detach().double().numpy(), compute_uv=False)
    known = products(decoder)
    for found in (spectra(known, Z), spectra(Products(known.jvp), Z)):
        np.testing.assert_allclose(found.largest, truth[:, 0], rtol=1e-4)
        np.testing.assert_allclose(found.smallest, truth[:, -1], rtol=1e-4)


def test_both_products_are_of_one_matrix_and_the_decoder_keeps_its_precision() -> None:
    torch.manual_seed(0)
    decoder = mlp(4).eval()
    known = products(decoder)
    rng = np.random.default_rng(0)
    z, v, u = rng.standard_normal((3, 4)), rng.standard_normal((3, 4)), rng.standard_normal((3, 40))
    assert known.vjp is not None
    np.testing.assert_allclose((known.jvp(z, v) * u).sum(axis=1), (v * known.vjp(z, u)).sum(axis=1), rtol=1e-4)
    assert known.jvp(z, v).dtype == np.float32
    assert products(decoder.double()).jvp(z, v).dtype == np.float64


def test_a_latent_of_any_shape_and_a_plain_function_are_decoders() -> None:
    torch.manual_seed(0)
    spatial = nn.Conv2d(2, 3, 3, padding=1).double()
    Z = np.random.default_rng(0).standard_normal((4, 2 * 3 * 3))
    found = spectra(products(spatial, shape=(2, 3, 3)), Z)
    J = torch.func.jacrev(lambda z: spatial(z.reshape(1, 2, 3, 3)).flatten())(torch.as_tensor(Z[0]))
    assert found.largest[0] == pytest.approx(float(torch.linalg.svdvals(J.detach())[0]))
    doubled = spectra(products(lambda z: 2 * z), Z)
    np.testing.assert_allclose(doubled.constant, 2)


def test_batch_statistics_and_dropout_are_refused_in_training_mode() -> None:
    for part in (nn.BatchNorm1d(3), nn.Dropout(), nn.InstanceNorm1d(3, track_running_stats=True)):
        decoder = nn.Sequential(nn.Linear(2, 3), part)
        with pytest.raises(UsageError, match=r"decoder\.eval\(\)"):
            products(decoder.train())
        products(decoder.eval())
    products(nn.Linear(2, 3).train())  # the same in both modes


def test_an_exported_program_is_the_decoder_it_was(tmp_path: Path) -> None:
    torch.manual_seed(0)
    decoder = convolutional(3).eval()
    batch = torch.export.Dim("batch")
    program = torch.export.export(decoder, (torch.zeros(4, 3),), dynamic_shapes=({0: batch},))
    path = tmp_path / "decoder.pt2"
    torch.export.save(program, path)
    Z = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    again, plain = spectra(products(load_program(path)), Z), spectra(products(decoder), Z)
    np.testing.assert_allclose(again.constant, plain.constant, rtol=1e-5)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=path.name):
        load_program(path)
    (tmp_path / "x.pt2").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(DataError, match=r"x\.pt2"):
        load_program(tmp_path / "x.pt2")


def test_outputs_that_are_no_rows_and_mixed_precisions_are_refused() -> None:
    Z = np.zeros((3, 2))
    with pytest.raises(DataError, match="1 points"):
        spectra(products(lambda z: z.sum()), Z)
    with pytest.raises(DataError, match="got tuple"):
        spectra(products(lambda z: (z, z)), Z)
    mixed = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3).double())
    with pytest.raises(UsageError, match="differ in dtype"):
        products(mixed)


def test_kinks_and_flat_places_are_points_like_others() -> None:
    """A ReLU at its kink has the slope torch gives it; a dead network loses every direction."""
    relu = nn.Sequential(nn.Linear(2, 4, bias=False), nn.ReLU())
    with torch.no_grad():
        relu[0].weight.copy_(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
    found = spectra(products(relu), np.array([[1.0, 1], [0, 0]]))
    assert found.constant[0] == pytest.approx(1)
    assert found.deficient.tolist() == [False, True]
    assert found.constant[1] == np.inf
    root = spectra(products(torch.sqrt), np.array([[1.0, 1], [0, 1]]))
    assert root.defined.tolist() == [True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_function_gets_points_in_their_own_precision(dtype: type) -> None:
    net = torch.nn.Linear(3, 4).to(torch.float32 if dtype is np.float32 else torch.float64)
    Z = np.zeros((2, 3), dtype)
    assert products(lambda z: net(z)).jvp(Z, np.ones_like(Z)).dtype == dtype


class Kept(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]):
        super().__init__()
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_of_a_program_that_cannot_be_read_torch_logs_nothing(tmp_path):
    path = tmp_path / "bad.pt2"
    path.write_bytes(b"no program" * 40)
    logged: list[logging.LogRecord] = []
    handler = Kept(logged)
    logging.getLogger("torch.export").addHandler(handler)
    before = logging.root.manager.disable
    try:
        with pytest.raises(DataError, match=r"bad\.pt2.*\(\w+: ") as caught:
            load_program(path)
    finally:
        logging.getLogger("torch.export").removeHandler(handler)
    assert "\n" not in str(caught.value)
    assert logged == []
    assert logging.root.manager.disable == before
