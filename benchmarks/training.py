"""Training of the MNIST sweep, together and one after another: python benchmarks/training.py [--quick]

The models are those of `reproduce fig2 --scale paper`: 60 pairs, 784-256-64-8 and mirror, batches of 256. Three ways to take
the same steps, the first two by the one loop of `identifiable.nn.train`, and what is the least they could take:

together   stacks of 32 models in one vectorised program
alone      one model after another, the same loop with stacks of one
own        one model after another, a plain loop with `torch.nn.utils.parametrizations.orthogonal`, on a few models and
           steps, scaled: a step costs the same for every model
products   nothing but the matrix products of a step of one model, on tensors that are there, on some steps, scaled
limit      the same number of operations at the speed of one large product: what `alone` takes over this is the most that
           any program with the same arithmetic can gain, however it stacks

`together` and `alone` must reach the same losses (exit code 1 if not to 1e-3). `own` is another parametrisation, so its path
is another: what both reach is compared on scikit-learn's digits, where torch's own is affordable.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import interleaved, machine, ratios, seconds
from torch import nn

from identifiable.nn import OrthogonalAutoencoder, Training, train

RESULTS = Path(__file__).parent / "results" / "training.json"
LEAKS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
SAME_LOSS = 1e-3
PRODUCT_STEPS = 200
LARGE = 3000


def pictures(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows like MNIST's in size and spread; what a step costs does not depend on them."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.standard_normal((n, 40)) @ rng.standard_normal((40, d)) * 0.05 + 0.1, 0, 1).astype(np.float32)


def sweep(widths: tuple[int, ...], pairs: int) -> list[OrthogonalAutoencoder]:
    return [OrthogonalAutoencoder(widths, leak, seed=k) for leak in LEAKS for k in range(2 * pairs)]


def with_torchs_own(widths: tuple[int, ...], leak: float, seed: int) -> OrthogonalAutoencoder:
    """The same model from the same start, its weights held orthonormal by torch's parametrisation."""
    model = OrthogonalAutoencoder(widths, leak, seed=seed)
    for part in (model.encoder, model.decoder):
        for layer in part.weights:
            start = layer.weight.detach().clone()
            nn.utils.parametrizations.orthogonal(layer)
            layer.weight = start
    return model


def plain_loop(model: OrthogonalAutoencoder, rows: np.ndarray, settings: Training, seed: int, steps: int) -> None:
    """Adam and clipping by torch's own functions; the orders of rows are those of `train`."""
    data, optimizer = torch.as_tensor(rows), torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    taken = epoch = 0
    while taken < steps:
        order = np.random.default_rng([seed, epoch]).permutation(len(data))
        for a in range(0, len(data), settings.batch):
            optimizer.zero_grad()
            model.loss(data[order[a : a + settings.batch]]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            taken += 1
            if taken == steps:
                return
        epoch += 1


def products_of_a_step(widths: tuple[int, ...], batch: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Factors and room for the result of every product: forward, backward, and those that keep weights orthonormal."""
    shapes: list[tuple[int, int, int]] = []
    layers = list(pairwise(widths)) + list(pairwise(widths[::-1]))
    for k, (a, b) in enumerate(layers):
        tall, thin = max(a, b), min(a, b)
        shapes += [(batch, a, b), (b, batch, a)] + [(batch, b, a)] * (k > 0)  # the rows themselves want no gradient
        # Of the gradient W^T G and W S; of the weight W^T W, two products of the series, and W times what it gives.
        shapes += [(thin, tall, thin), (tall, thin, thin)] * 2 + [(thin, thin, thin)] * 2
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(a, b, generator=generator), torch.randn(b, c, generator=generator), torch.empty(a, c))
        for a, b, c in shapes
    ]


def multiply(products: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], steps: int) -> None:
    for _ in range(steps):
        for a, b, out in products:
            torch.mm(a, b, out=out)


def speed(options: argparse.Namespace, tick: Any) -> dict[str, Any]:
    widths, batch = (784, 256, 64, 8), 256
    rows, held_out = pictures(options.steps * batch, 784), pictures(256, 784, 1)
    settings = Training(batch=batch, max_epochs=1)
    models = sweep(widths, options.pairs)
    seeds = list(range(len(models)))
    losses: dict[str, list[float]] = {}

    def trained(together: int, name: str) -> None:
        found = train(models, rows, held_out, settings, seeds=seeds, together=together)
        losses[name] = [t.validation[-1] for t in found]

    own = [with_torchs_own(widths, leak, 0) for leak in (0.2, 1.0)]
    products = products_of_a_step(widths, batch)
    taken = interleaved(
        {
            "together": lambda: trained(32, "together"),
            "alone": lambda: trained(1, "alone"),
            "own": lambda: [plain_loop(model, rows, settings, 0, options.own_steps) for model in own],
            "products": lambda: multiply(products, PRODUCT_STEPS),
        },
        options.repeat,
        tick=tick,
    )
    every = len(models) * options.steps
    scaled = every / (len(own) * options.own_steps)
    of_products = ratios(taken["alone"], taken["products"])
    gflop = 2e-9 * sum(a.shape[0] * a.shape[1] * b.shape[1] for a, b, _ in products)
    fastest = large_product()
    difference = max(abs(a - b) / b for a, b in zip(losses["together"], losses["alone"], strict=True))
    return {
        "models": len(models),
        "steps_each": options.steps,
        "seconds": {name: seconds(runs) for name, runs in taken.items()},
        "own_scaled_by": scaled,
        "alone_over_together": ratios(taken["alone"], taken["together"]),
        "own_over_together": times(ratios(taken["own"], taken["together"]), scaled),
        "gflop_of_a_step": gflop,
        "gflop_per_s_of_a_large_product": fastest,
        "alone_over_limit": min(t.wall for t in taken["alone"]) / (every * gflop / fastest),
        "alone_over_products": times(of_products, PRODUCT_STEPS / every),
        "largest_relative_difference_of_losses": difference,
        "same_losses": difference < SAME_LOSS,
    }


def large_product() -> float:
    """Gflop a second of one product of large matrices, the best of a few."""
    a = torch.randn(LARGE, LARGE, generator=torch.Generator().manual_seed(0))
    out = torch.empty_like(a)
    taken = interleaved({"large": lambda: torch.mm(a, a, out=out)}, 8)["large"]
    return 2e-9 * LARGE**3 / min(t.wall for t in taken)


def times(figures: dict[str, Any], factor: float) -> dict[str, Any]:
    """Ratios, and lists of them, times a number."""
    return {
        k: [v * factor for v in value] if isinstance(value, list) else value * factor for k, value in figures.items()
    }


def smaller(options: argparse.Namespace, tick: Any, widths: tuple[int, ...], batch: int) -> dict[str, Any]:
    """`together` and `alone` for models of a smaller scale, where a call costs more of its work."""
    models, steps = sweep(widths, 4), 20
    rows, held_out = pictures(steps * batch, widths[0]), pictures(batch, widths[0], 1)
    settings = Training(batch=batch, max_epochs=1)

    def trained(together: int) -> None:
        train(models, rows, held_out, settings, seeds=list(range(len(models))), together=together)

    taken = interleaved({"together": lambda: trained(32), "alone": lambda: trained(1)}, options.repeat, tick=tick)
    return {
        "widths": list(widths),
        "models": len(models),
        "steps_each": steps,
        "seconds": {name: seconds(runs) for name, runs in taken.items()},
        "alone_over_together": ratios(taken["alone"], taken["together"]),
    }


def reached(options: argparse.Namespace, tick: Any) -> dict[str, Any]:
    """Validation losses after the same steps on scikit-learn's digits, ours and torch's own, model by model."""
    from sklearn.datasets import load_digits

    values = (load_digits().data / 16).astype(np.float32)
    values = values[np.random.default_rng(0).permutation(len(values))]
    rows, held_out = values[:1000], values[1000:]
    settings = Training(batch=100, max_epochs=options.epochs, learning_rate=3e-3, patience=options.epochs)
    widths = (64, 24, 12, 4)
    places = [(leak, seed) for leak in (0.1, 0.4, 1.0) for seed in range(2)]
    tick("what ours and torch's own reach on digits")
    ours = train(
        [OrthogonalAutoencoder(widths, leak, seed=s) for leak, s in places],
        rows,
        held_out,
        settings,
        seeds=[s for _, s in places],
    )
    entries = []
    for (leak, seed), found in zip(places, ours, strict=True):
        model = with_torchs_own(widths, leak, seed)
        plain_loop(model, rows, settings, seed, options.epochs * 10)
        with torch.no_grad():
            theirs = float(model.loss(torch.as_tensor(held_out)))
        entries.append({"leak": leak, "seed": seed, "ours": found.validation[-1], "torchs_own": theirs})
    return {"epochs": options.epochs, "models": entries}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="for each of 6 leaks")
    parser.add_argument("--steps", type=int, default=8, help="of every model")
    parser.add_argument("--own-steps", type=int, default=4, help="with torch's own parametrisation")
    parser.add_argument("--epochs", type=int, default=40, help="of the models on digits")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few models, once")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.pairs, options.steps, options.own_steps, options.epochs, options.repeat = 1, 2, 1, 3, 1
    start = time.perf_counter()

    def tick(what: str) -> None:
        print(f"[{time.perf_counter() - start:6.1f} s] {what}", file=sys.stderr, flush=True)

    about = machine()
    found = {
        "machine": about,
        "speed": speed(options, tick),
        "scale_small": smaller(options, tick, (784, 128, 32, 6), 256),
        "scale_smoke": smaller(options, tick, (64, 32, 16, 4), 100),
        "reached": reached(options, tick),
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    ratio = found["speed"]
    for name in ("alone_over_together", "own_over_together"):
        print(f"{name:24s} wall {ratio[name]['wall']:7.2f}  cpu {ratio[name]['cpu']:7.2f}   asked >= 4")
    most = ratio["alone_over_products"]
    print(f"{'alone_over_products':24s} wall {most['wall']:7.2f}  cpu {most['cpu']:7.2f}")
    print(
        f"{'alone_over_limit':24s} wall {ratio['alone_over_limit']:7.2f}                the most that any program can gain"
    )
    for scale in ("scale_small", "scale_smoke"):
        of_scale = found[scale]["alone_over_together"]
        print(f"{scale:24s} wall {of_scale['wall']:7.2f}  cpu {of_scale['cpu']:7.2f}   alone over together")
    print(f"losses differ by at most {ratio['largest_relative_difference_of_losses']:.1e} (together against alone)")
    for entry in found["reached"]["models"]:
        print(f"digits, leak {entry['leak']:g}: loss {entry['ours']:.4f} ours, {entry['torchs_own']:.4f} torch's own")
    return 0 if ratio["same_losses"] else 1


if __name__ == "__main__":
    sys.exit(main())
