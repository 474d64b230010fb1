"""The models of pictures: published sizes, objectives in closed form, and that each of them learns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from errors import naming

torch = pytest.importorskip("torch")

import identifiable.nn.applying as applying_module  # noqa: E402
from identifiable._checks import DataError, UsageError  # noqa: E402
from identifiable.nn import (  # noqa: E402
    PUBLISHED,
    Architecture,
    Trained,
    Training,
    encodings,
    psnr,
    reconstructions,
    representation_model,
    train,
)
from identifiable.nn.representations import (  # noqa: E402
    MODELS,
    Gaussian,
    activity,
    codebook_losses,
    decomposition,
    negativity,
    straight_through,
)

TINY = Architecture(resolution=16, widths=(4, 8), dense=16)
KNOBS: dict[str, dict[str, float]] = {
    "beta-vae": {"beta": 1.0},
    "beta-tcvae": {"lambda_tc": 2.0},
    "bioae": {"lambda_activity": 0.1},
}
KINDS = list(MODELS)
N = 64


def made(kind: str, seed: int = 0, architecture: Architecture = TINY, **knobs: float) -> Any:
    return representation_model(kind, architecture, 3, seed=seed, n_rows=N, **(knobs or KNOBS.get(kind, {})))


def pictures() -> np.ndarray:
    """Squares of three colours at places that differ."""
    shown = np.zeros((N, 3, 16, 16), np.uint8)
    for k in range(N):
        y, x = 2 * (k % 6), 2 * (k // 6)
        shown[k, k % 3, y : y + 5, x : x + 5] = 250
    return shown


def floats() -> torch.Tensor:
    return torch.as_tensor(pictures().astype(np.float32) / 255)


def inputs(model: Any, n: int = N) -> tuple[torch.Tensor, ...]:
    noise = getattr(model, "noise", 0)
    generator = torch.Generator().manual_seed(0)
    return (floats()[:n], torch.randn(n, noise, generator=generator)) if noise else (floats()[:n],)


def size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_published_architecture_has_the_published_number_of_parameters() -> None:
    model = representation_model("ae", PUBLISHED, 12, seed=0, n_rows=1)
    assert (size(model.encoder), size(model.decoder)) == (3_684_524, 3_967_136)
    wider = representation_model("ae", PUBLISHED, 13, seed=0, n_rows=1)
    assert (size(wider.encoder) - size(model.encoder), size(wider.decoder) - size(model.decoder)) == (257, 256)


@pytest.mark.parametrize(("kind", "encoded", "decoded"), [("beta-vae", 24, 12), ("qlae", 12, 12), ("vq-vae", 768, 768)])
def test_encoder_and_decoder_are_as_wide_as_a_kind_needs(kind: str, encoded: int, decoded: int) -> None:
    model = representation_model(kind, TINY, 12, seed=0, n_rows=1, **KNOBS.get(kind, {}))
    assert model.encoder(floats()[:2]).shape == (2, encoded)
    assert model.decoder(torch.zeros(2, decoded)).shape == (2, 3, 16, 16)
    codes = {"qlae": (12, 10), "vq-vae": (512, 64)}.get(kind)
    assert (tuple(model.codebook.shape) if codes else None) == codes
    assert model.discrete == (codes is not None)


def test_a_start_depends_on_its_seed_alone_and_leaves_other_random_numbers_be() -> None:
    torch.manual_seed(1)
    one = made("vq-vae")
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3))
    torch.manual_seed(2)
    two, other = made("vq-vae"), made("vq-vae", seed=1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.codebook, other.codebook)
    assert not torch.equal(one.encoder.dense[0].weight, other.encoder.dense[0].weight)


def test_starts_are_uniform_and_bounded_by_the_inputs_of_a_layer() -> None:
    model = made("qlae", architecture=Architecture(16, 3, (8, 24), 64))
    layers = {
        model.encoder.convolutions[0]: 3 * 9,
        model.encoder.dense[2]: 64,
        model.decoder.blocks[3].convolution: 24 * 9,  # 24 channels in, 8 out
        model.decoder.blocks[5].style: 64,
    }
    for layer, fan_in in layers.items():
        assert 0.95 < float(layer.weight.detach().abs().max()) * math.sqrt(fan_in) <= 1
    np.testing.assert_array_equal(model.decoder.constant.detach(), np.full((24, 4, 4), 0.1, np.float32))
    np.testing.assert_allclose(model.codebook[2].detach(), np.linspace(-0.5, 0.5, 10), atol=1e-6)
    vectors = made("vq-vae").codebook.detach()
    assert 0.99 * math.sqrt(3 / 64) < float(vectors.abs().max()) <= math.sqrt(3 / 64)


def test_a_style_scales_and_shifts_normed_channels_and_is_never_negative() -> None:
    block = made("ae").decoder.blocks[1]
    shown = torch.randn(5, 8, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        block.style.weight.zero_()
        block.style.bias.copy_(torch.tensor([2.0] * 8 + [3.0] * 8))
        styled = block(shown, torch.zeros(5, 16))
        np.testing.assert_allclose(styled.mean(dim=(2, 3)), np.full((5, 8), 3.0), atol=1e-5)
        np.testing.assert_allclose(styled.std(dim=(2, 3), correction=0), np.full((5, 8), 2.0), rtol=1e-3)
        block.style.bias.neg_()
        assert not block(shown, torch.zeros(5, 16)).any()


def without_pictures(model: Any) -> Any:
    """A model whose logits are 0 whatever the latents."""
    with torch.no_grad():
        model.decoder.logits.weight.zero_()
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_that_knows_nothing_has_an_error_of_log_2(kind: str) -> None:
    model = without_pictures(made(kind))
    error = model.reconstruction_error(torch.zeros(N, model.decoded * 3), floats())
    assert float(error.detach()) == pytest.approx(math.log(2))
    assert float(made(kind).reconstruction_error(torch.ones(N, model.decoded * 3), floats()).detach()) != pytest.approx(
        math.log(2)
    )


def test_the_divergence_of_known_gaussians() -> None:
    mean, deviation = torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([[1.0, 1.0, math.e]])
    expected = [[0.0, 2.0, (math.e**2 - 1) / 2 - 1]]
    torch.testing.assert_close(Gaussian(mean, deviation).divergence(), torch.tensor(expected))


def test_beta_vae_pays_beta_times_the_divergence_by_the_numbers_of_a_picture() -> None:
    free, cheap, dear = (made("beta-vae", beta=beta) for beta in (0.0, 1.0, 4.0))
    rows, noise = inputs(free)
    divergence = float(free.posterior(rows).divergence().sum(dim=1).mean().detach())
    losses = [float(model.loss(rows, noise).detach()) for model in (free, cheap, dear)]
    assert losses[0] == pytest.approx(
        float(free.reconstruction_error(free.posterior(rows).sample(noise), rows).detach())
    )
    assert losses[1] - losses[0] == pytest.approx(divergence / 768, rel=1e-3)
    assert losses[2] - losses[0] == pytest.approx(4 * divergence / 768, rel=1e-3)
    assert float(free.loss(rows, noise + 1).detach()) != losses[0]


def test_the_deviation_is_the_softplus_of_the_second_half() -> None:
    model = made("beta-vae")
    raw = model.encoder(floats())
    posterior = model.posterior(floats())
    torch.testing.assert_close(posterior.mean, raw[:, :3])
    torch.testing.assert_close(posterior.deviation, torch.log1p(raw[:, 3:].exp()))
    torch.testing.assert_close(model.encode(floats()), raw[:, :3])


def gaussians(n: int = 6) -> tuple[Gaussian, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    mean, raw, noise = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    posterior = Gaussian(mean, raw.exp())
    return posterior, posterior.sample(noise)


def test_the_parts_are_those_of_a_plain_double_loop() -> None:
    posterior, sample = gaussians()
    densities = np.array(
        [
            [
                torch.distributions.Normal(*(v[j] for v in posterior)).log_prob(z).exp().numpy()
                for j in range(len(sample))
            ]
            for z in sample
        ]
    )  # (i, j, k)
    joint = np.log(densities.prod(axis=2).sum(axis=1) / (6 * 1000))
    marginals = np.log(densities.sum(axis=1) / (6 * 1000)).sum(axis=1)
    parts = decomposition(posterior, sample, torch.tensor(1000.0, dtype=torch.float64))
    assert float(parts.total_correlation) == pytest.approx((joint - marginals).mean(), rel=1e-10)
    own = np.log(densities[np.arange(6), np.arange(6)]).sum(axis=1)
    assert float(parts.information) == pytest.approx((own - joint).mean(), rel=1e-10)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(sample).sum(dim=1).numpy()
    assert float(sum(parts)) == pytest.approx((own - prior).mean(), rel=1e-12)


def test_beta_tcvae_pays_for_total_correlation_alone() -> None:
    one, two = (made("beta-tcvae", lambda_tc=value) for value in (1.0, 3.0))
    rows, noise = inputs(one)
    posterior = one.posterior(rows)
    parts = decomposition(posterior, posterior.sample(noise), torch.tensor(float(N)))
    extra = float((two.loss(rows, noise) - one.loss(rows, noise)).detach())
    assert extra == pytest.approx(2 * float(parts.total_correlation.detach()) / 768, rel=1e-3)
    error = one.reconstruction_error(posterior.sample(noise), rows)
    assert float((one.loss(rows, noise) - error).detach()) == pytest.approx(float(sum(parts).detach()) / 768, rel=1e-3)


def test_bioae_pays_for_negative_latents_and_for_activity() -> None:
    latents = torch.tensor([[1.0, -2.0], [0.0, -4.0]])
    assert float(negativity(latents)) == 1.5
    assert float(activity(latents)) == 5.25
    assert float(negativity(latents.abs())) == 0.0
    model, dear = made("bioae", lambda_activity=0.5), made("bioae", lambda_activity=2.5)
    z = model.encode(floats())
    error = model.reconstruction_error(z, floats())
    expected = float((error + negativity(z) + 0.5 * activity(z)).detach())
    assert float(model.loss(floats()).detach()) == pytest.approx(expected, rel=1e-6)
    more = float((dear.loss(floats()) - model.loss(floats())).detach())
    assert more == pytest.approx(2 * float(activity(z).detach()), rel=1e-2)


def leaves() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.0, 5.0], requires_grad=True)


def test_gradients_go_straight_through_codes_to_latents() -> None:
    latents, codes = leaves()
    passed = straight_through(latents, codes)
    assert passed.tolist() == codes.tolist()
    (passed * torch.tensor([3.0, 4.0])).sum().backward()
    assert latents.grad.tolist() == [3.0, 4.0]
    assert codes.grad is None


@pytest.mark.parametrize("moved", ["codes", "latents"])
def test_the_losses_of_a_codebook_move_one_side_each(moved: str) -> None:
    latents, codes = leaves()
    loss = codebook_losses(latents, codes, quantise=float(moved == "codes"), commit=float(moved == "latents"))
    assert float(loss.detach()) == 5.0  # the mean of 1 and 9
    loss.backward()
    gradient, other = (codes.grad, latents.grad) if moved == "codes" else (latents.grad, codes.grad)
    assert gradient.tolist() == ([-1.0, 3.0] if moved == "codes" else [1.0, -3.0])
    assert not other.any()


@pytest.mark.parametrize(("kind", "quantise", "commit"), [("vq-vae", 1.0, 0.25), ("qlae", 0.01, 0.01)])
def test_what_a_quantised_model_pays_for_the_distance_to_its_codes(kind: str, quantise: float, commit: float) -> None:
    model = made(kind)
    z = model.continuous(floats()).detach()
    q = model.quantised(z).detach()
    error = model.reconstruction_error(q, floats())
    distance = float(((z - q) ** 2).mean())
    assert distance > 0
    paid = float((model.loss(floats()) - error).detach())
    assert paid == pytest.approx((quantise + commit) * distance, rel=2e-2)


def test_vq_vae_gives_the_numbers_of_the_nearest_vectors() -> None:
    model = made("vq-vae")
    codes = encodings(model, pictures())
    assert codes.dtype.kind == "i"
    vectors = model.continuous(floats()).detach().reshape(N, 3, 1, 64)
    distances = ((vectors - model.codebook.detach()) ** 2).sum(dim=-1)
    assert np.array_equal(codes, distances.argmin(dim=-1).numpy())
    embedded = model.embed(torch.as_tensor(codes)).detach()
    torch.testing.assert_close(embedded.reshape(N, 3, 64)[5, 2], model.codebook[codes[5, 2]].detach())
    assert reconstructions(model, codes).shape == (N, 3, 16, 16)
    assert np.array_equal(reconstructions(model, codes), reconstructions(model, codes.astype(np.float32)))


def test_qlae_gives_the_nearest_of_each_latents_own_values() -> None:
    model = made("qlae")
    with torch.no_grad():
        model.codebook += torch.tensor([[0.0], [0.03], [0.01]])
    found = encodings(model, pictures())
    for k in range(3):
        values = model.codebook[k].detach().numpy()
        z = model.continuous(floats())[:, k].detach().numpy()
        expected = values[np.abs(z[:, None] - values).argmin(axis=1)]
        np.testing.assert_array_equal(found[:, k], expected)
    assert not np.isin(model.continuous(floats()).detach().numpy(), model.codebook.detach().numpy()).any()


@pytest.mark.parametrize("kind", KINDS)
def test_biases_and_codebooks_are_neither_decayed_nor_clipped(kind: str) -> None:
    model = made(kind)
    free = {name for name, _ in model.named_parameters() if not model.regularised(name)}
    assert free == {name for name, _ in model.named_parameters() if name.endswith(".bias") or name == "codebook"}
    assert {"decoder.constant", "encoder.convolutions.1.weight", "decoder.logits.weight"}.isdisjoint(free)
    assert "encoder.convolutions.1.bias" in free
    settings = Training(batch=N, epoch_steps=1, max_epochs=1, clip=None, clip_values=1.0, keep="last")
    plain, decayed = (
        train([made(kind)], pictures(), pictures()[:8], settings, seeds=[0], weight_decay=[decay])[0].model
        for decay in (0.0, 100.0)
    )
    start = dict(made(kind).named_parameters())
    for (name, a), b in zip(plain.named_parameters(), decayed.parameters(), strict=True):
        expected = torch.zeros_like(a) if name in free else -100 * 1e-3 * start[name]
        torch.testing.assert_close((b - a).detach(), expected.detach(), atol=2e-6, rtol=1e-3, msg=name)


def learned(models: list[Any], max_epochs: int, **options: Any) -> list[Trained]:
    clipped = {"clip": None, "clip_values": 1.0, "patience": None, "keep": "last"}
    settings = Training(batch=32, epoch_steps=12, max_epochs=max_epochs, learning_rate=3e-3, **clipped)
    return train(models, pictures(), pictures()[:32], settings, seeds=list(range(len(models))), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_learns(kind: str) -> None:
    """In 96 steps: the latents of quantised models first run away from their codes, and the loss rises before it falls."""
    (found,) = learned([made(kind)], max_epochs=8)
    assert found.losses[-1] < 0.4 * found.losses[0]
    assert found.validation[-1] < 0.4 * found.validation[0]
    assert psnr(found.model, pictures()) > psnr(made(kind), pictures()) + 6


@pytest.mark.parametrize("kind", KINDS)
def test_models_may_be_stacked_though_their_knobs_and_decays_differ(kind: str) -> None:
    knobs = [KNOBS.get(kind, {}), {name: 50 * value for name, value in KNOBS.get(kind, {}).items()}]

    def two() -> list[Any]:
        return [made(kind, seed=4, **own) for own in knobs]

    together, apart = (learned(two(), 1, weight_decay=[0.0, 50.0], together=size) for size in (2, 1))
    for one, other in zip(together, apart, strict=True):
        assert one.losses == pytest.approx(other.losses, rel=2e-3)
    assert together[0].losses[0] != pytest.approx(together[1].losses[0], rel=1e-2)


def test_psnr_of_known_pictures() -> None:
    model = without_pictures(made("ae"))  # always 1 / 2
    assert psnr(model, np.zeros((4, 3, 16, 16), np.uint8)) == pytest.approx(-10 * math.log10(0.25))
    assert psnr(model, np.full((4, 3, 16, 16), 0.5, np.float32)) == pytest.approx(100.0)
    mixed = np.concatenate([np.zeros((1, 3, 16, 16)), np.full((1, 3, 16, 16), 0.4)])
    assert psnr(model, mixed) == pytest.approx((-10 * math.log10(0.25) + 20) / 2, rel=1e-4)  # a mean of decibels


@pytest.mark.parametrize("kind", KINDS)
def test_latents_and_pictures_do_not_depend_on_how_many_are_made_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(kind)
    latents = encodings(model, pictures())
    shown, decibels = reconstructions(model, latents), psnr(model, pictures())
    assert latents.shape == (N, 3)
    assert shown.min() >= 0
    assert shown.max() <= 1
    monkeypatch.setattr(applying_module, "NUMBERS", 10 * 768)
    assert applying_module.rows_at_once((3, 16, 16)) == 10
    np.testing.assert_allclose(encodings(model, pictures()), latents, atol=1e-5)
    np.testing.assert_allclose(reconstructions(model, latents), shown, atol=1e-5)
    assert psnr(model, pictures()) == pytest.approx(decibels, rel=1e-5)
    np.testing.assert_array_equal(encodings(model, floats().numpy()), encodings(model, pictures()))


def test_pictures_of_another_shape_or_range_are_refused() -> None:
    model = made("ae")
    for wrong in (pictures().transpose(0, 2, 3, 1), pictures()[:, :, :8]):
        with pytest.raises(DataError, match=r"\(3, 16, 16\)"):
            encodings(model, wrong)
        with pytest.raises(DataError, match="channel first"):
            train([made("ae")], wrong, wrong, Training(max_epochs=1), seeds=[0])
    with pytest.raises(DataError, match="0 to 250"):
        psnr(model, pictures().astype(np.float32))
    with pytest.raises(DataError, match="at least one"):
        encodings(model, pictures()[:0])
    with pytest.raises(DataError, match=naming("(n, 3)", (2, 4))):
        reconstructions(model, np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (
            lambda: representation_model("vae", TINY, 3, seed=0, n_rows=N),
            "ae, beta-vae, beta-tcvae, bioae, vq-vae, qlae",
        ),
        (lambda: representation_model("beta-vae", TINY, 3, seed=0, n_rows=N), r"\['beta'\], got none"),
        (lambda: representation_model("ae", TINY, 3, seed=0, n_rows=N, beta=1.0), r"none, got \['beta'\]"),
        (lambda: made("bioae", lambda_activity=-1.0), "lambda_activity"),
        (lambda: representation_model("ae", TINY, 0, seed=0, n_rows=N), "n_latents 0"),
        (lambda: representation_model("ae", TINY, 3, seed=0, n_rows=0), "n_rows 0"),
        (lambda: Architecture(resolution=32), "3, one"),
        (lambda: Architecture(dense=0), "dense 0"),
        *((lambda side=side: Architecture(resolution=side), f"resolution {side}") for side in (4, 12, 48, 63, 0)),
    ],
)
def test_models_and_architectures_that_cannot_be_are_refused(call: Any, parts: str) -> None:
    with pytest.raises(UsageError, match=parts):
        call()
