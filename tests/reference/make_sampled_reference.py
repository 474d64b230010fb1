"""Make tests/reference/sampled.json: BetaVAE and FactorVAE scores by literal, one-draw-at-a-time sampling of a grid.

    pip install numpy scikit-learn && python tests/reference/make_sampled_reference.py

Written from the definitions (Higgins et al. 2017, Kim and Mnih 2018, with the sizes of disentanglement_lib), with nothing of
`identifiable`: factors are drawn, the row is looked up in the grid, and so on in plain loops. The scores are means over
repetitions, with their standard error; the test asks whether ours come from the same distribution.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

SIZES = (3, 4, 5)
SAMPLES, TRAIN, TEST, REPEATS = 6, 600, 300, 12


def grid() -> Any:
    return np.array([(a, b, c) for a in range(SIZES[0]) for b in range(SIZES[1]) for c in range(SIZES[2])])


def cases() -> dict[str, Any]:
    """Latents of every row of the grid, in thousandths so that the file holds exactly what was scored."""
    rng = np.random.default_rng(7)
    S = grid().astype(float)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    noise = rng.standard_normal((len(S), 4))
    found = {
        "turned": (S - 1.5) @ turn + 0.3 * noise[:, :3],
        "one_latent_for_two_factors": np.column_stack([S[:, 0] + 0.1 * S[:, 1], S[:, 2], noise[:, 0]]),
        "noisy": S + 0.8 * noise[:, :3],
        "noise": noise,
    }
    return {name: np.round(1000 * z) / 1000 for name, z in found.items()}


def row_of(factors: Any) -> int:
    return int((factors[0] * SIZES[1] + factors[1]) * SIZES[2] + factors[2])


def draw(rng: Any) -> Any:
    return np.array([rng.integers(size) for size in SIZES])


def beta_example(z: Any, rng: Any) -> Any:
    k = rng.integers(3)
    total = np.zeros(z.shape[1])
    for _ in range(SAMPLES):
        one, two = draw(rng), draw(rng)
        two[k] = one[k]
        total += np.abs(z[row_of(one)] - z[row_of(two)])
    return k, total / SAMPLES


def beta(z: Any, rng: Any) -> float:
    train = [beta_example(z, rng) for _ in range(TRAIN)]
    test = [beta_example(z, rng) for _ in range(TEST)]
    model = LogisticRegression().fit([x for _, x in train], [k for k, _ in train])
    return float(model.score([x for _, x in test], [k for k, _ in test]))


def factor_vote(z: Any, rng: Any) -> Any:
    k = rng.integers(3)
    value = draw(rng)[k]
    seen = []
    for _ in range(SAMPLES):
        factors = draw(rng)
        factors[k] = value
        seen.append(z[row_of(factors)])
    return k, int(np.argmin(np.var(seen, axis=0, ddof=1) / np.var(z, axis=0, ddof=1)))


def factor(z: Any, rng: Any) -> float:
    votes = np.zeros((3, z.shape[1]))
    for _ in range(TRAIN):
        votes[factor_vote(z, rng)] += 1
    right = 0
    for _ in range(TEST):
        k, latent = factor_vote(z, rng)
        right += int(votes[:, latent].argmax() == k)
    return right / TEST


def repeated(score: Any, z: Any) -> dict[str, float]:
    values = [score(z, np.random.default_rng(100 + r)) for r in range(REPEATS)]
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}


def main() -> None:
    content = {
        "sizes": {"samples": SAMPLES, "train": TRAIN, "test": TEST, "repeats": REPEATS},
        "factors": grid().tolist(),
        "cases": {
            name: {"latents": z.tolist(), "betavae": repeated(beta, z), "factorvae": repeated(factor, z)}
            for name, z in cases().items()
        },
    }
    Path(__file__).with_name("sampled.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
