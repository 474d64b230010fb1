"""The convolutional encoder and the style-modulated decoder of Hsu et al. (2023), at their size or smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass

from identifiable._checks import DataError, UsageError
from identifiable._extras import require

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402

STAGE = ((3, 1), (3, 1), (4, 2))  # kernels and strides of the convolutions of a stage, padding 1: the last one halves
SMALLEST = 4  # pixels along a side between encoder and decoder
LEAK = 0.2  # of LeakyReLU below 0
EPSILON = 1e-6  # of the norms
CONSTANT = 0.1  # what the map that the decoder begins with is at first


@dataclass(frozen=True)
class Architecture:
    """The shape of encoder and decoder: square pictures, three convolutions a stage, a width for each stage.

    Each stage halves the picture until 4 x 4 are left, so there are log2(resolution / 4) of them. The default is the
    published one (Hsu et al. 2023).

    >>> Architecture(resolution=32, widths=(8, 16, 32), dense=64).shape
    (3, 32, 32)
    """

    resolution: int = 64
    channels: int = 3
    widths: tuple[int, ...] = (32, 64, 128, 256)
    dense: int = 256

    def __post_init__(self) -> None:
        for name, value in (("channels", self.channels), ("dense", self.dense), *(("widths", w) for w in self.widths)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} {value!r}: expected a whole number of at least 1.")
        stages = math.log2(self.resolution / SMALLEST) if self.resolution > SMALLEST else 0.0
        if stages < 1 or not stages.is_integer():
            raise UsageError(
                f"resolution {self.resolution}: expected 4 times a power of 2 (8, 16, 32, 64, ...); resize the pictures."
            )
        if len(self.widths) != stages:
            raise UsageError(
                f"widths {self.widths}: expected {stages:.0f}, one for each halving from {self.resolution} to {SMALLEST}."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a picture: channel first."""
        return self.channels, self.resolution, self.resolution

    @property
    def numbers(self) -> int:
        """In a picture: pixels times channels."""
        return math.prod(self.shape)


PUBLISHED = Architecture()


class Encoder(nn.Module):
    """Pictures to numbers: convolutions, each normed within a channel, then three dense layers.

    Implements `encoder=image` of Hsu et al. (2023).
    """

    def __init__(self, architecture: Architecture, n_outputs: int):
        super().__init__()
        self.shape = architecture.shape
        layers: list[nn.Module] = []
        before = architecture.channels
        for width in architecture.widths:
            for kernel, stride in STAGE:
                layers += [
                    nn.Conv2d(before, width, kernel, stride, padding=1, bias=False),
                    nn.GroupNorm(width, width, eps=EPSILON),
                    nn.LeakyReLU(LEAK),
                ]
                before = width
        self.convolutions = nn.Sequential(*layers)
        dense = architecture.dense
        self.dense = nn.Sequential(
            nn.Linear(before * SMALLEST**2, dense),
            nn.ReLU(),
            nn.Linear(dense, dense),
            nn.ReLU(),
            nn.Linear(dense, n_outputs),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        if tuple(pictures.shape[1:]) != self.shape:
            raise DataError(
                f"pictures: expected each of shape {self.shape}, channel first, got {tuple(pictures.shape[1:])}; "
                "move the channels, resize the pictures or choose another architecture."
            )
        numbers: torch.Tensor = self.dense(self.convolutions(pictures).flatten(1))
        return numbers


class Decoder(nn.Module):
    """Numbers to the logits of pictures: a learned constant map, shaped by styles that are made of the numbers.

    Implements `decoder=style_image` of Hsu et al. (2023): after each transposed convolution a channel is normed, then
    scaled and shifted by its style, which a ReLU keeps from being negative.
    """

    def __init__(self, architecture: Architecture, n_inputs: int):
        super().__init__()
        dense, before = architecture.dense, architecture.widths[-1]
        self.dense = nn.Sequential(nn.Linear(n_inputs, dense), nn.ReLU(), nn.Linear(dense, dense), nn.ReLU())
        self.constant = nn.Parameter(torch.full((before, SMALLEST, SMALLEST), CONSTANT))
        blocks = []
        for width in reversed(architecture.widths):
            for kernel, stride in STAGE:
                blocks.append(Styled(before, width, kernel, stride, dense))
                before = width
        self.blocks = nn.ModuleList(blocks)
        self.logits = nn.Conv2d(before, architecture.channels, 3, padding=1, bias=False)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        cause = self.dense(latents)
        pictures = self.constant.expand(len(latents), *self.constant.shape)
        for block in self.blocks:
            pictures = block(pictures, cause)
        logits: torch.Tensor = self.logits(pictures)
        return logits


class Styled(nn.Module):
    """A transposed convolution whose channels are normed, scaled and shifted."""

    def __init__(self, before: int, width: int, kernel: int, stride: int, dense: int):
        super().__init__()
        self.convolution = nn.ConvTranspose2d(before, width, kernel, stride, padding=1, bias=False)
        self.style = nn.Linear(dense, 2 * width)

    def forward(self, pictures: torch.Tensor, cause: torch.Tensor) -> torch.Tensor:
        pictures = nn.functional.leaky_relu(self.convolution(pictures), LEAK)
        normed = nn.functional.group_norm(pictures, pictures.shape[1], eps=EPSILON)
        scale, shift = nn.functional.relu(self.style(cause))[..., None, None].chunk(2, dim=1)
        return normed * scale + shift


def start_uniformly(module: nn.Module, generator: torch.Generator) -> None:
    """Draw weights and biases of dense layers and convolutions from U(-a, a), a = 1 / sqrt(numbers that make one output).

    As Equinox does, and torch, except that torch counts the outputs of a transposed convolution.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            fan_in = layer.in_features
        elif isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            fan_in = layer.in_channels * math.prod(layer.kernel_size)
        else:
            continue
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -(fan_in**-0.5), fan_in**-0.5, generator=generator)
