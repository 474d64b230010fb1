"""Models that represent pictures by a few latents: the autoencoders of the benchmark of Hsu et al. (2023).

All have one encoder and one decoder (`convolutional`) and differ in what lies between them and in what they minimise. D is
the number of pixels times channels, and the reconstruction error BCE is a mean over D, so penalties that are sums over
latents are divided by D. Weight decay is no part of a model: `train` takes it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable._extras import require
from identifiable.nn.applying import outputs, rows_at_once
from identifiable.nn.convolutional import Architecture, Decoder, Encoder, start_uniformly

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402

NEGATIVITY = 1.0  # the weight of BioAE's penalty on latents below 0
VECTORS = 512  # of VQ-VAE
VALUES, LARGEST_VALUE = 10, 0.5  # of QLAE: what a latent can be, at first evenly from -0.5 to 0.5
SMALLEST_ERROR = 1e-10  # of a picture: a perfect one has 100 dB, not infinitely many

Values = NDArray[Any]


class Autoencoder(nn.Module):
    """A plain autoencoder, which minimises BCE alone, and the base of the others.

    `encode` gives latents as they are evaluated, `decode` makes logits of them and `reconstruct` pictures.
    """

    discrete: ClassVar[bool] = False  # whether `encode` gives codes out of a finite set
    settings: ClassVar[
        tuple[str, ...]
    ] = ()  # numbers of the objective; buffers, so that stacked models may differ in them
    encoded: ClassVar[int] = 1  # numbers the encoder gives for each latent
    decoded: ClassVar[int] = 1  # numbers the decoder takes for each latent

    def __init__(
        self, architecture: Architecture, n_latents: int, settings: Mapping[str, float], generator: torch.Generator
    ):
        super().__init__()
        self.architecture, self.n_latents = architecture, n_latents
        self.encoder = Encoder(architecture, self.encoded * n_latents)
        self.decoder = Decoder(architecture, self.decoded * n_latents)
        start_uniformly(self, generator)
        for name in self.settings:
            self.register_buffer(name, torch.tensor(float(settings[name])))

    @staticmethod
    def regularised(name: str) -> bool:
        """Whether a parameter is decayed and clipped: biases and codebooks are not."""
        return name.rpartition(".")[2] not in ("bias", "codebook")

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        return self.reconstruction_error(self.encoder(rows), rows)

    def reconstruction_error(self, latents: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """BCE: of the logits of each number, a mean over all."""
        return nn.functional.binary_cross_entropy_with_logits(self.decoder(latents), rows)

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        latents: torch.Tensor = self.encoder(rows)
        return latents

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.decoder(latents)
        return logits

    def reconstruct(self, latents: torch.Tensor) -> torch.Tensor:
        return self.decode(latents).sigmoid()


class VariationalAutoencoder(Autoencoder):
    """What the two have in common: a Gaussian for each latent, of mean mu and deviation softplus(.); mu is evaluated."""

    encoded = 2

    @property
    def noise(self) -> int:
        """Standard normal numbers the loss wants for each row."""
        return self.n_latents

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        return self.posterior(rows).mean

    def posterior(self, rows: torch.Tensor) -> Gaussian:
        mean, raw = self.encoder(rows).chunk(2, dim=1)
        return Gaussian(mean, nn.functional.softplus(raw))


class BetaVAE(VariationalAutoencoder):
    """BCE + (n_latents / D) beta mean_k KL_k."""

    settings = ("beta",)
    beta: torch.Tensor

    def loss(self, rows: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        posterior = self.posterior(rows)
        weight = self.beta * self.n_latents / self.architecture.numbers
        return self.reconstruction_error(posterior.sample(noise), rows) + weight * posterior.divergence().mean()


class BetaTCVAE(VariationalAutoencoder):
    """BCE + (1 / D) (MI + lambda_tc TC + dwKL), estimated from the batch; `n_rows` is the size of the training set."""

    settings = ("lambda_tc", "n_rows")
    lambda_tc: torch.Tensor
    n_rows: torch.Tensor

    def loss(self, rows: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        posterior = self.posterior(rows)
        sample = posterior.sample(noise)
        parts = decomposition(posterior, sample, self.n_rows)
        penalty = parts.information + self.lambda_tc * parts.total_correlation + parts.dimension_wise
        return self.reconstruction_error(sample, rows) + penalty / self.architecture.numbers


class BioAE(Autoencoder):
    """BCE + mean max(-z, 0) + lambda_activity mean z^2: latents that are positive and cheap."""

    settings = ("lambda_activity",)
    lambda_activity: torch.Tensor

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        latents = self.encoder(rows)
        penalty = NEGATIVITY * negativity(latents) + self.lambda_activity * activity(latents)
        return self.reconstruction_error(latents, rows) + penalty


class QuantisedAutoencoder(Autoencoder):
    """What the two have in common: latents are replaced by the nearest codes; a codebook is learned.

    BCE + quantise (sg(z) - q)^2 + commit (z - sg(q))^2, means; sg stops gradients. `continuous` gives what is replaced.
    """

    discrete = True
    quantise: ClassVar[float]
    commit: ClassVar[float]

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        latents = self.continuous(rows)
        codes = self.quantised(latents)
        error = self.reconstruction_error(straight_through(latents, codes), rows)
        return error + codebook_losses(latents, codes, self.quantise, self.commit)

    def continuous(self, rows: torch.Tensor) -> torch.Tensor:
        latents: torch.Tensor = self.encoder(rows)
        return latents

    @abstractmethod
    def quantised(self, latents: torch.Tensor) -> torch.Tensor:
        """The codes nearest to latents, in their shape."""


class VQVAE(QuantisedAutoencoder):
    """Every latent is one of 512 vectors, which all latents share. `encode` gives their numbers, `embed` the vectors."""

    encoded = decoded = 64  # numbers in a vector
    quantise, commit = 1.0, 0.25

    def __init__(
        self, architecture: Architecture, n_latents: int, settings: Mapping[str, float], generator: torch.Generator
    ):
        super().__init__(architecture, n_latents, settings, generator)
        bound = math.sqrt(3 / self.encoded)  # so that a vector's squared length is 1 on average
        self.codebook = nn.Parameter(torch.empty(VECTORS, self.encoded).uniform_(-bound, bound, generator=generator))

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        return self.nearest(self.continuous(rows))

    def quantised(self, latents: torch.Tensor) -> torch.Tensor:
        return self.embed(self.nearest(latents))

    @torch.no_grad()
    def nearest(self, latents: torch.Tensor) -> torch.Tensor:
        """The number of the vector nearest to each latent: (n, n_latents)."""
        vectors = latents.unflatten(1, (self.n_latents, self.encoded))
        return (self.codebook.square().sum(dim=1) - 2 * vectors @ self.codebook.mT).argmin(dim=-1)

    def embed(self, codes: torch.Tensor) -> torch.Tensor:
        """The vectors of codes, one after another: (n, n_latents * 64)."""
        # Not codebook[codes]: with several threads its derivative adds up in any order, and bits would not repeat.
        return nn.functional.embedding(codes.long(), self.codebook).flatten(1)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        return super().decode(self.embed(latents))


class QLAE(QuantisedAutoencoder):
    """Every latent is one of ten learned numbers of its own. `encode` gives those numbers; `decode` takes any."""

    quantise, commit = 0.01, 0.01

    def __init__(
        self, architecture: Architecture, n_latents: int, settings: Mapping[str, float], generator: torch.Generator
    ):
        super().__init__(architecture, n_latents, settings, generator)
        self.codebook = nn.Parameter(torch.linspace(-LARGEST_VALUE, LARGEST_VALUE, VALUES).repeat(n_latents, 1))

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        return self.quantised(self.continuous(rows))

    def quantised(self, latents: torch.Tensor) -> torch.Tensor:
        chosen = (latents.detach()[..., None] - self.codebook.detach()).abs().argmin(dim=-1, keepdim=True)
        return self.codebook.expand(len(latents), *self.codebook.shape).gather(-1, chosen)[..., 0]


MODELS: dict[str, type[Autoencoder]] = {
    "ae": Autoencoder,
    "beta-vae": BetaVAE,
    "beta-tcvae": BetaTCVAE,
    "bioae": BioAE,
    "vq-vae": VQVAE,
    "qlae": QLAE,
}


def representation_model(
    kind: str, architecture: Architecture, n_latents: int, *, seed: int, n_rows: int, **knobs: float
) -> Autoencoder:
    """A model of pictures by its name, with parameters drawn from a seed alone.

    Implements the models of Hsu et al. (2023): "ae"; "beta-vae" with the knob `beta`; "beta-tcvae" with `lambda_tc`; "bioae"
    with `lambda_activity`; "vq-vae"; "qlae". `n_rows` is the size of the training set, which the estimates of "beta-tcvae"
    need. Models of one kind and shape may be stacked by `train` though their knobs differ.

    >>> tiny = Architecture(resolution=16, widths=(4, 8), dense=16)
    >>> model = representation_model("beta-vae", tiny, 3, seed=0, n_rows=100, beta=4.0)
    >>> model.encode(torch.zeros(5, 3, 16, 16)).shape
    torch.Size([5, 3])
    """
    if kind not in MODELS:
        raise UsageError(f"kind {kind!r}: expected one of {', '.join(MODELS)}.")
    cls = MODELS[kind]
    for name, count in (("n_latents", n_latents), ("n_rows", n_rows)):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise UsageError(f"{name} {count!r}: expected a whole number of at least 1.")
    wanted = [name for name in cls.settings if name != "n_rows"]
    if sorted(knobs) != sorted(wanted):
        raise UsageError(f"{kind}: expected the knobs {wanted or 'none'}, got {sorted(knobs) or 'none'}.")
    for name, value in knobs.items():
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{kind}: {name} {value!r}: expected a number of at least 0.")
    with torch.random.fork_rng(devices=[]):  # torch's layers draw when they are made, which others need not notice
        generator = torch.Generator().manual_seed(seed)
        return cls(architecture, n_latents, {**knobs, "n_rows": n_rows}, generator)


class Gaussian(NamedTuple):
    """Independent normal distributions, (rows, latents)."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def sample(self, noise: torch.Tensor) -> torch.Tensor:
        return self.mean + self.deviation * noise

    def divergence(self) -> torch.Tensor:
        """KL from the standard normal, of each: (mu^2 + sigma^2 - 1) / 2 - log sigma."""
        return (self.mean.square() + self.deviation.square() - 1) / 2 - self.deviation.log()

    def log_density(self, values: torch.Tensor) -> torch.Tensor:
        return _log_normal((values - self.mean) / self.deviation) - self.deviation.log()


class Decomposition(NamedTuple):
    """The divergence of the posterior from the prior: information about the row, dependence between latents, each latent's own."""

    information: torch.Tensor
    total_correlation: torch.Tensor
    dimension_wise: torch.Tensor


def decomposition(posterior: Gaussian, sample: torch.Tensor, n_rows: torch.Tensor) -> Decomposition:
    """The three parts of E[log q(z|x) - log p(z)], from one sample for each row of a batch.

    Implements minibatch-weighted sampling (Chen et al. 2018): log q(z_i) is estimated by
    log sum_j q(z_i | x_j) - log(B N), with B rows in the batch and N in all, and so is every log q(z_ik).
    """
    pairs = Gaussian(*(values[None] for values in posterior)).log_density(
        sample[:, None]
    )  # (i, j, k): log q(z_ik | x_j)
    together = n_rows.log() + math.log(len(sample))
    joint = pairs.sum(dim=2).logsumexp(dim=1) - together
    marginals = (pairs.logsumexp(dim=1) - together).sum(dim=1)
    own = posterior.log_density(sample).sum(dim=1)
    prior = _log_normal(sample).sum(dim=1)
    return Decomposition((own - joint).mean(), (joint - marginals).mean(), (marginals - prior).mean())


def _log_normal(values: torch.Tensor) -> torch.Tensor:
    return -values.square() / 2 - math.log(2 * math.pi) / 2


def negativity(latents: torch.Tensor) -> torch.Tensor:
    return nn.functional.relu(-latents).mean()


def activity(latents: torch.Tensor) -> torch.Tensor:
    return latents.square().mean()


def straight_through(latents: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """The codes, whose gradient the latents get."""
    return latents + (codes - latents).detach()


def codebook_losses(latents: torch.Tensor, codes: torch.Tensor, quantise: float, commit: float) -> torch.Tensor:
    """Mean squared distances, of which the first moves codes to latents and the second latents to codes."""
    mse = nn.functional.mse_loss
    return quantise * mse(codes, latents.detach()) + commit * mse(latents, codes.detach())


def encodings(model: Autoencoder, pictures: Values) -> Values:
    """The latents of pictures, as they are evaluated: (n, n_latents); whole numbers where they are codes of "vq-vae"."""
    latents: Values = outputs(model, _checked(model, pictures), function=model.encode)
    return latents


def reconstructions(model: Autoencoder, latents: Values) -> Values:
    """The pictures that latents stand for: (n, channels, side, side), from 0 to 1."""
    latents = np.asarray(latents, dtype=np.float64)  # not bytes, which would be taken for pictures
    if latents.ndim != 2 or latents.shape[1] != model.n_latents:
        raise DataError(
            f"latents: expected shape (n, {model.n_latents}), got {latents.shape}; take those of this model."
        )
    at_once = rows_at_once(model.architecture.shape)
    pictures: Values = outputs(model, latents, function=model.reconstruct, at_once=at_once)
    return pictures


def psnr(model: Autoencoder, pictures: Values) -> float:
    """How near reconstructions come, in decibels: the mean over pictures of -10 log10 MSE.

    Implements Hsu et al. (2023). An error below 1e-10 counts as that, so one perfect picture has 100 dB.
    """

    def decibels(rows: torch.Tensor) -> torch.Tensor:
        errors = (model.reconstruct(model.encode(rows)) - rows).square().flatten(1).mean(dim=1)
        return -10 * errors.clamp(min=SMALLEST_ERROR).log10()

    return float(outputs(model, _checked(model, pictures), function=decibels).mean(dtype=np.float64))


def _checked(model: Autoencoder, pictures: Values) -> Values:
    pictures = np.asarray(pictures)
    if not len(pictures):
        raise DataError(f"pictures: expected at least one of shape {model.architecture.shape}, got none.")
    if pictures.dtype != np.uint8 and not (pictures.min() >= 0 and pictures.max() <= 1):
        raise DataError(
            f"pictures: expected bytes, or numbers from 0 to 1, got {pictures.min():.4g} to {pictures.max():.4g} "
            f"({pictures.dtype}); convert them with .astype('uint8') or divide them."
        )
    return pictures
