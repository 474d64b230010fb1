"""The models of Roeder et al. (2021): p(y | x, S) = softmax over y in S of f(x) . g(y), with a label, a word or a patch as y.

All have `f`, the representation of what is conditioned on, and `g`, that of what is predicted, which is the head where y has few
values. `loss` is for `train`: rows hold x and y side by side, labels and words as whole numbers. `seed` says which model it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from identifiable._extras import require
from identifiable.nn.convolutional import start_uniformly

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402

START = 0.001  # of the context vectors of words: U(-START, START), as in the published notebook


def dense(widths: Sequence[int]) -> nn.Sequential:
    """Fully connected layers with ReLU between them, and biases on all but the last."""
    *inner, last = pairwise(widths)
    layers = [layer for a, b in inner for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(*last, bias=False))


class Classifier(nn.Module):
    """A fully connected network f and a head g without a bias; a row is a point and its label.

    >>> Classifier((2, 8, 2), labels=5).f(torch.ones(3, 2)).shape
    torch.Size([3, 2])
    """

    def __init__(self, widths: Sequence[int], labels: int, *, seed: int = 0):
        super().__init__()
        self.seed = seed
        self.f = dense(widths)
        self.g = nn.Linear(widths[-1], labels, bias=False)
        start_uniformly(self, torch.Generator().manual_seed(seed))

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy."""
        return _cross_entropy(self.g(self.f(rows[:, :-1])), rows[:, -1]).mean()


class Contrastive(nn.Module):
    """Two networks f and g that must find the partner of each x among the y of its group; a row is a pair (x, y).

    Implements the contrastive predictive coding of Roeder et al. 2021: in-batch negatives, scores f(x) . g(y). Rows are taken in
    groups of `negatives`, so that the loss of a validation set of any size is that of a batch.

    >>> Contrastive((4, 8, 2), negatives=3).loss(torch.rand(6, 2, 4)).ndim
    0
    """

    def __init__(self, widths: Sequence[int], negatives: int, *, seed: int = 0):
        super().__init__()
        self.seed, self.negatives = seed, negatives
        self.f, self.g = dense(widths), dense(widths)
        start_uniformly(self, torch.Generator().manual_seed(seed))

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of the partner among the group."""
        size = min(self.negatives, len(rows))
        groups = rows[: len(rows) // size * size].unflatten(0, (-1, size))
        scores = self.f(groups[:, :, 0]) @ self.g(groups[:, :, 1]).mT
        own = torch.diagonal(scores, dim1=-2, dim2=-1)
        return (scores.logsumexp(-1) - own).mean()


class LogBilinear(nn.Module):
    r"""A word from the words around it: f(h) = sum_i c_i * r_{w_i}, scores f(h) . q_w + b_w.

    Implements the log-bilinear model of Mnih and Teh (2012) as Roeder et al. use it, with elementwise weights c of the
    positions. A row is a context and its word last. The contexts know one more word than the predictions: the unknown one.
    `samples` above 0: noise contrastive estimation on raw scores with so many words of `table` (a unigram sample) for each row,
    drawn by the noise that `train` gives; 0: the whole softmax.

    >>> LogBilinear(words=5, positions=4, dimensions=2).f(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    table: torch.Tensor

    def __init__(
        self,
        words: int,
        positions: int,
        dimensions: int,
        *,
        samples: int = 0,
        table: Sequence[int] = (0,),
        seed: int = 0,
    ):
        super().__init__()
        self.seed, self.noise = seed, samples
        generator = torch.Generator().manual_seed(seed)
        self.context = nn.Parameter(torch.empty(words + 1, dimensions).uniform_(-START, START, generator=generator))
        self.position = nn.Parameter(torch.ones(positions, dimensions))
        self.word = nn.Parameter(torch.randn(words, dimensions, generator=generator) / math.sqrt(dimensions))
        self.bias = nn.Parameter(torch.zeros(words))
        self.register_buffer("table", torch.as_tensor(table, dtype=torch.long))

    def f(self, contexts: torch.Tensor) -> torch.Tensor:
        return (self.context[contexts.long()] * self.position).sum(dim=-2)

    def loss(self, rows: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """Mean cross-entropy of the word, or of word against noise."""
        features, words = self.f(rows[:, :-1]), rows[:, -1].long()
        if noise is None:
            return _cross_entropy(features @ self.word.mT + self.bias, words).mean()
        places = (torch.special.ndtr(noise) * len(self.table)).long().clamp(max=len(self.table) - 1)
        asked = torch.cat([words[:, None], self.table[places]], dim=1)
        scores = (self.word[asked] * features[:, None]).sum(dim=-1) + self.bias[asked]
        told = nn.functional.softplus(torch.cat([-scores[:, :1], scores[:, 1:]], dim=1))
        return told.sum(dim=1).mean()


def _cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of every row."""
    own = scores.gather(-1, labels.long()[:, None])[:, 0]
    return scores.logsumexp(-1) - own
