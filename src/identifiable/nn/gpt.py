"""A small GPT, to be trained from several seeds: what Table 1 and Roeder's Figure 4 do with large ones, at the size of a CPU."""

from __future__ import annotations

import numpy as np

from identifiable._checks import UsageError
from identifiable._extras import require
from identifiable.nn.applying import Values, outputs

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

START = 0.02  # standard deviation of the first weights, as in GPT-2


class GPT(nn.Module):
    """A transformer that predicts the next token: pre-norm blocks, learned positions, one matrix for embedding and output.

    The architecture of GPT-2 (Radford et al. 2019) without dropout. A row is a window of `context` + 1 tokens, whose ids may
    be given as numbers of any kind.

    >>> model = GPT(vocabulary=32, context=8, layers=2, width=16, heads=2)
    >>> [tuple(states.shape) for states in model.states(torch.zeros(3, 8))]
    [(3, 8, 16), (3, 8, 16), (3, 8, 16)]
    """

    def __init__(self, vocabulary: int, context: int, *, layers: int, width: int, heads: int, seed: int = 0):
        super().__init__()
        if width % heads:
            raise UsageError(f"width {width}: expected a multiple of the {heads} heads.")
        self.tokens = nn.Parameter(torch.empty(vocabulary, width))
        self.positions = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if (
                    parameter.ndim > 1
                ):  # as in GPT-2: gains stay 1, biases 0, and what blocks add to the stream starts smaller
                    adds = name.endswith(("out.weight", "down.weight"))
                    parameter.normal_(0.0, START / (2 * layers) ** 0.5 if adds else START, generator=generator)

    def states(self, tokens: torch.Tensor) -> list[torch.Tensor]:
        """What every layer makes of tokens (rows, context): the embedding, then each block; the last after the final norm."""
        ids = tokens.long()
        stream = functional.embedding(ids, self.tokens) + self.positions[: ids.shape[-1]]
        found = [stream]
        for block in self.blocks:
            stream = block(stream)
            found.append(stream)
        return [*found[:-1], self.norm(stream)]

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each next token, in nats."""
        logits = self.states(rows[:, :-1])[-1] @ self.tokens.T
        return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].long().flatten())


class Block(nn.Module):
    """Causal attention and a multilayer perceptron, each added to the stream that it reads through a norm."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = _plain(width, 3 * width), _plain(width, width)
        self.up, self.down = _plain(width, 4 * width), _plain(4 * width, width)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        rows, length, width = stream.shape
        parts = self.attend(self.before_attention(stream)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        # Written out: torch's own attention has no rule for stacks of models.
        later = torch.ones(length, length, dtype=torch.bool, device=stream.device).triu(1)
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        seen = scores.masked_fill(later, -torch.inf).softmax(-1) @ value
        stream = stream + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        result: torch.Tensor = stream + self.down(functional.gelu(self.up(self.before_mlp(stream))))
        return result


def _plain(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with biases of zero, its weights yet to be drawn."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.bias)
    return layer


def layer_states(model: GPT, tokens: Values) -> Values:
    """What every layer of a model makes of tokens (rows, context): (layers + 1, tokens, width), row after row.

    >>> layer_states(GPT(vocabulary=32, context=8, layers=2, width=16, heads=2), np.zeros((3, 8))).shape
    (3, 24, 16)
    """
    found = outputs(model, tokens, function=lambda ids: torch.stack(model.states(ids), dim=1), at_once=64)
    rows, layers, context, width = found.shape
    return np.ascontiguousarray(found.swapaxes(0, 1)).reshape(layers, rows * context, width)
