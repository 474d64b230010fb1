"""The map read off two heads, on classifiers trained from several seeds: does it hold where labels are soft, and where hard?

    python benchmarks/heads.py                # about two CPU minutes; needs torch; writes results/heads.json
    python benchmarks/heads.py --steps 200 --output /tmp/try.json
    python benchmarks/heads.py --only-large   # a CPU minute: heads of 50,000 labels x 768

The classifiers are those of `identifiable reproduce roeder-fig2 --scale small`: an MLP 2-128-128-128-2 with a head 2 -> 18 without a
bias; the hidden layers have biases, because without them logits grow with |x| and the loss stays 0.10 above the entropy. Soft: the
label of a point is drawn from softmax(3 cos(angle - angle_k)). Hard: its sector. All pairs of seeds are reported, none selected;
`excess` is the loss above the entropy of the labels on the same points.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine, timed

from identifiable import Moments, heads
from identifiable.experiments.roeder.radial import World, classified, settings
from identifiable.nn import outputs
from identifiable.options import ReproduceOptions
from identifiable.similarity import cca


def measured(rule: str, seeds: int, steps: int) -> dict[str, Any]:
    chosen = settings("small", {"seeds": seeds, "steps": steps, "checkpoints": 1})
    made = timed(lambda: classified(World(chosen, rule), ReproduceOptions(scale="small")))
    found, points = made.result, made.result.points.astype(np.float32)
    models = [run.model for run in found.runs.trained]
    features = [outputs(model.f, points).astype(np.float64) for model in models]
    weights = [model.g.weight.detach().numpy() for model in models]
    pairs = []
    for i, j in itertools.combinations(range(seeds), 2):
        F = [features[i], features[j]]
        both = heads(weights[i], weights[j], features=F)
        way = both.maps[0].fit
        pairs.append(
            {
                "seeds": [i, j],
                "cca": cca(Moments.of(np.hstack(F), widths=(2, 2))),
                "r2_heads": way.r2,
                "r2_fitted": way.r2_fitted,
                "r2_shuffled": way.null_r2,
                "relative_distance_of_maps": way.distance,
                "temperature": both.temperature,
                "agreement": both.premise.agreement,
                "relative_logit_distance": both.premise.relative_logit_distance,
                "conditions": [head.condition for head in both.heads],
            }
        )
    excess = [model.loss - model.floor for model in found.models]
    return {"entropy": found.models[0].floor, "excess": excess, "cpu_s_of_training": made.cpu, "pairs": pairs}


def large(labels: int = 50_000, width: int = 768, rows: int = 2000) -> dict[str, Any]:
    """What two heads of the size of a language model's cost: weights alone, then with features and one draw of chance."""
    rng = np.random.default_rng(0)
    one = rng.standard_normal((labels, width), dtype=np.float32)
    two = one @ (rng.standard_normal((width, width), dtype=np.float32) / width**0.5)
    features = [rng.standard_normal((rows, width), dtype=np.float32) for _ in range(2)]
    alone = timed(lambda: heads(one, two, workers=1))
    whole = timed(lambda: heads(one, two, features=features, null_draws=1, workers=1))
    return {
        "labels": labels,
        "width": width,
        "rows": rows,
        "cpu_s_weights": alone.cpu,
        "cpu_s_features": whole.cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--only-large", action="store_true", help="time 50,000 labels x 768; leave the rest as it is")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "heads.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only_large:
        known = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
        found = known | {"large": large() | {"machine": machine()}}
        print(found["large"])
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    result: dict[str, Any] = {"machine": machine(), "seeds": options.seeds, "steps": options.steps}
    for rule in ("soft", "hard"):
        result[rule] = found = measured(rule, options.seeds, options.steps)
        print(f"{rule}: loss above the entropy {', '.join(f'{e:.4f}' for e in found['excess'])}")
        for pair in found["pairs"]:
            names = ("cca", "r2_heads", "r2_fitted", "r2_shuffled", "relative_distance_of_maps", "agreement")
            print(f"  seeds {pair['seeds']}:", ", ".join(f"{name} {pair[name]:.4f}" for name in names))
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
