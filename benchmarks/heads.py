"""The map read off two heads, on classifiers trained from several seeds: does it hold where labels are soft, and where hard?

    python benchmarks/heads.py                # about two CPU minutes; needs torch; writes results/heads.json
    python benchmarks/heads.py --steps 200 --output /tmp/try.json

Points x ~ N(0, 3²) in the plane, 18 labels by their angle. Soft: the label of a point is drawn from softmax(3 cos(θ - θ_k)), so
probabilities are determined everywhere and a model that fits them has the theorem's premise. Hard: the nearest of the 18
directions, so the best logits are infinite and nothing fixes their size. A model is an MLP 2-128-128-128-2 with a head 2 -> 18
without a bias; the hidden layers have biases, because without them logits grow with |x| and the loss stays 0.10 above the
entropy; Adam with cosine decay, fresh points in every step. All seeds are trained side by side and share nothing.
All pairs of seeds are reported, none selected; `excess` is the loss above the entropy of the labels on the same points.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine, timed

from identifiable import Moments, heads
from identifiable.similarity import cca

LABELS, WIDTH, SPREAD, SHARPNESS = 18, 128, 3.0, 3.0
BATCH, RATE, ROWS = 512, 3e-3, 5000
ANGLES = 2 * np.pi * torch.arange(LABELS) / LABELS
SIZES = (2, WIDTH, WIDTH, WIDTH, 2, LABELS)


Stack = tuple[list[torch.Tensor], list[torch.Tensor]]


def logits_of(x: torch.Tensor, stack: Stack) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and logits of all models, each with its own points (models, rows, 2)."""
    layers, biases = stack
    for layer, bias in zip(layers[:-2], biases, strict=True):
        x = torch.relu(torch.baddbmm(bias, x, layer))
    features = x @ layers[-2]
    return features, features @ layers[-1]


def truth(x: torch.Tensor) -> torch.Tensor:
    """Probabilities of the labels of every point under the soft rule."""
    theta = torch.atan2(x[..., 1], x[..., 0])
    return torch.softmax(SHARPNESS * torch.cos(theta[..., None] - ANGLES), dim=-1)


def trained(rule: str, seeds: int, steps: int) -> Stack:
    """Layers and biases of all models, stacked."""
    drawn = [torch.Generator().manual_seed(1000 + seed) for seed in range(seeds)]
    layers = [
        torch.stack([(2 * torch.rand(a, b, generator=g) - 1) / a**0.5 for g in drawn]).requires_grad_()  # as nn.Linear
        for a, b in itertools.pairwise(SIZES)
    ]
    biases = [torch.zeros(seeds, 1, WIDTH, requires_grad=True) for _ in range(len(layers) - 2)]
    optimiser = torch.optim.Adam([*layers, *biases], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        x = SPREAD * torch.stack([torch.randn(BATCH, 2, generator=g) for g in drawn])
        likely = truth(x)
        if rule == "soft":
            labels = torch.stack(
                [torch.multinomial(p, 1, generator=g)[:, 0] for p, g in zip(likely, drawn, strict=True)]
            )
        else:
            labels = likely.argmax(-1)
        _, logits = logits_of(x, (layers, biases))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) * seeds
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return [layer.detach() for layer in layers], [bias.detach() for bias in biases]


def measured(rule: str, seeds: int, steps: int) -> dict[str, Any]:
    made = timed(lambda: trained(rule, seeds, steps))
    stack = made.result
    x = SPREAD * torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(0))
    likely = truth(x)
    floor = float(-(likely * likely.log()).sum(-1).mean()) if rule == "soft" else 0.0
    target = likely if rule == "soft" else torch.nn.functional.one_hot(likely.argmax(-1), LABELS).float()
    features, logits = logits_of(x.expand(seeds, -1, -1), stack)
    losses = -(target * torch.log_softmax(logits, -1)).sum(-1).mean(-1)
    pairs = []
    for i, j in itertools.combinations(range(seeds), 2):
        F = [features[k].numpy().astype(np.float64) for k in (i, j)]
        found = heads(*(stack[0][-1][k].T.numpy() for k in (i, j)), features=F)
        way = found.maps[0].fit
        pairs.append(
            {
                "seeds": [i, j],
                "cca": cca(Moments.of(np.hstack(F), widths=(2, 2))),
                "r2_heads": way.r2,
                "r2_fitted": way.r2_fitted,
                "r2_shuffled": way.null_r2,
                "relative_distance_of_maps": way.distance,
                "temperature": found.temperature,
                "agreement": found.premise.agreement,
                "relative_logit_distance": found.premise.relative_logit_distance,
                "conditions": [head.condition for head in found.heads],
            }
        )
    excess = [float(loss) - floor for loss in losses]
    return {"entropy": floor, "excess": excess, "cpu_s_of_training": made.cpu, "pairs": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "heads.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {"machine": machine(), "seeds": options.seeds, "steps": options.steps, "labels": LABELS}
    for rule in ("soft", "hard"):
        result[rule] = found = measured(rule, options.seeds, options.steps)
        print(f"{rule}: loss above the entropy {', '.join(f'{e:.4f}' for e in found['excess'])}")
        for pair in found["pairs"]:
            names = ("cca", "r2_heads", "r2_fitted", "r2_shuffled", "relative_distance_of_maps", "agreement")
            print(f"  seeds {pair['seeds']}:", ", ".join(f"{name} {pair[name]:.4f}" for name in names))
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
