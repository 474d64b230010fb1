"""`mechanisms`: exact cases, noise on families that no threshold was chosen on, overlap, sprites, cost and memory.

    python benchmarks/mechanisms.py                  # all but large; about seven CPU minutes; writes results/mechanisms.json
    python benchmarks/mechanisms.py exact noise --seed 7 --cases 10 --output /tmp/try.json
    python benchmarks/mechanisms.py large            # 10,000 outputs x 64 latents x 200 points; about four CPU minutes

Exact: random blocks of 1 to 5 dimensions, mixed, with dead and duplicated outputs, rows scaled by 1e-5 to 1e5 in a third of the cases,
a square or a reducible block in some. Noise: a share of the standard deviation of the mixed entries. Families: Laplace entries,
networks of ReLU, frames of unit vectors, sines, entries that decay along the outputs, outputs of one kind at all points. The thresholds
were chosen on other families (`mechanistic/counting.py`). Mixings are Gaussian or have a condition of up to 20, half each.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ica_plot import Panel, scaling_svg
from machine import machine, timed

from identifiable.mechanistic import exact_factors, find_factors
from identifiable.worlds import MovingSprites, SlotWorld

NOISE = (0.0, 0.01, 0.05, 0.1, 0.2)
POINTS = (1, 5, 20)
Array = np.ndarray
Block = Callable[[int, int, int, np.random.Generator], Array]


def conditioned(d: int, condition: float, rng: np.random.Generator) -> Array:
    left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return left * condition ** np.linspace(0, -1, d) @ right if d > 1 else np.ones((1, 1))


def stacked(blocks: list[Array]) -> tuple[Array, Array]:
    """Blocks (points, outputs, latents) as one block-diagonal Jacobian, and the owners of its outputs."""
    n = len(blocks[0])
    J = np.zeros((n, sum(b.shape[1] for b in blocks), sum(b.shape[2] for b in blocks)))
    row = column = 0
    for b in blocks:
        J[:, row : row + b.shape[1], column : column + b.shape[2]] = b
        row, column = row + b.shape[1], column + b.shape[2]
    return J, np.repeat(np.arange(len(blocks)), [b.shape[1] for b in blocks])


def sine(first: Array, second: Array) -> float:
    a, b = (np.linalg.qr(basis)[0] for basis in (first, second))
    return float(np.linalg.norm(b - a @ (a.T @ b), 2)) if a.shape == b.shape else 1.0


# -- exact


def exact_case(condition: float, rng: np.random.Generator) -> tuple[Array, Array, list[Array]]:
    blocks: list[Array] = []
    for d in rng.integers(1, 6, rng.integers(1, 7)):
        rows = int(d + 1 + rng.integers(0, 40)) if d > 1 else int(1 + rng.integers(0, 30))
        b = rng.standard_normal((1, rows, d))
        blocks.append(b * 10 ** rng.uniform(-5, 5, (1, rows, 1)) if rng.random() < 1 / 3 else b)
    if rng.random() < 0.2:  # a square block: as many rows as dimensions, so every row is a factor
        blocks += [np.eye(1)[None] for _ in range(2)]
    J, owners = stacked(blocks)
    d, lost = J.shape[2], int(rng.integers(0, 3))
    if len(blocks) > 2 and rng.random() < 0.2:  # two blocks that a row connects are one
        owners[owners == 1] = 0
        first, second = np.flatnonzero(np.any(J[0][owners == 0] != 0, axis=0))[[0, -1]]
        J[0, np.flatnonzero(owners == 0)[0], [first, second]] = 1.0
    A = conditioned(d + lost, condition, rng)
    parts = [np.any(J[0][owners == k] != 0, axis=0) for k in np.unique(owners)]
    back = np.linalg.inv(A)
    G = np.concatenate([J[0], np.zeros((len(J[0]), lost))], axis=1) @ A
    G = np.concatenate([G, G[:3], np.zeros((2, d + lost))])
    owners = np.concatenate([owners, owners[:3], [-1, -1]])
    order = rng.permutation(len(G))
    null = back[:, d:]
    return G[order], owners[order], [np.concatenate([back[:, :d][:, p], null], axis=1) for p in parts]


def exact(seed: int, cases: int) -> list[dict[str, Any]]:
    found = []
    for dtype, condition in ((np.float64, 1e2), (np.float64, 1e6), (np.float32, 1e2), (np.float32, 1e4)):
        right, worst, smallest = 0, 0.0, np.inf
        for s in range(cases):
            rng = np.random.default_rng([seed, 0, s])
            G, owners, subspaces = exact_case(condition, rng)
            got = exact_factors(G.astype(dtype))
            pairs = set(zip(owners.tolist(), got.owners.tolist(), strict=True))
            same = len(pairs) == len(set(owners.tolist())) == len(set(got.owners.tolist())) and got.n_factors == len(
                subspaces
            )
            if same:
                angles = [
                    sine(subspaces[i], np.concatenate([got.subspaces[dict(pairs)[k]], got.null_space], axis=1))
                    for i, k in enumerate(sorted(set(owners.tolist()) - {-1}))
                ]
                worst = max(worst, *angles)
            smallest = min(smallest, got.gap) if got.gap > 0 else smallest
            right += same
        found.append(
            {
                "dtype": dtype.__name__,
                "condition": condition,
                "cases": cases,
                "right": right,
                "worst_sine": worst,
                "least_gap": smallest,
            }
        )
    return found


# -- noise


def _laplace(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    return rng.laplace(size=(n, m, d))


def _relu(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    first, second = rng.standard_normal((d, 32)), rng.standard_normal((32, m))
    on = (rng.standard_normal((n, d)) @ first + 0.3 * rng.standard_normal(32) > 0) + 0.1
    return np.einsum("ah,nh,ho->noa", first, on, second)


def _frames(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    rows = rng.standard_normal((n, m, d))
    return rows / np.linalg.norm(rows, axis=2, keepdims=True)


def _sines(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    waves, phase = rng.standard_normal((d, m)) * 1.5, rng.uniform(0, 2 * np.pi, m)
    return np.cos(rng.standard_normal((n, d)) @ waves + phase)[:, :, None] * waves.T


def _decaying(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((n, m, d)) * np.exp(-2 * np.arange(m) / m)[:, None]


def _alike(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((1, m, d)) + 0.3 * rng.standard_normal((n, m, d))


FAMILIES: dict[str, Block] = {
    "laplace": _laplace, "relu": _relu, "frames": _frames, "sines": _sines, "decaying": _decaying, "alike": _alike,
}  # fmt: skip


def noisy_case(family: Block, n: int, noise: float, rng: np.random.Generator) -> tuple[Array, int]:
    K = int(rng.integers(1, 5))
    dimensions = rng.integers(1, 5, K)
    while dimensions.sum() > 12:
        dimensions = rng.integers(1, 5, K)
    J, _ = stacked([family(n, int(max(10, rng.integers(8, 16) * d)), int(d), rng) for d in dimensions])
    d = J.shape[2]
    J = J @ (rng.standard_normal((d, d)) if rng.random() < 0.5 else conditioned(d, rng.uniform(1, 20), rng))
    J += noise * J.std() * rng.standard_normal(J.shape)
    return J[:, rng.permutation(J.shape[1])], K


def noise(seed: int, cases: int) -> dict[str, Any]:
    rows = []
    for family, n, level, s in [(f, n, v, s) for f in FAMILIES for n in POINTS for v in NOISE for s in range(cases)]:
        place = [list(FAMILIES).index(family), POINTS.index(n), NOISE.index(level), s]  # each case has draws of its own
        J, K = noisy_case(FAMILIES[family], n, level, np.random.default_rng([seed, 1, *place]))
        found = find_factors(J, seed=s)
        rows.append(
            {
                "family": family,
                "points": n,
                "noise": level,
                "K": K,
                "found": found.n_factors,
                "right": found.n_factors == K,
                "certain": found.certain,
            }
        )
    table = [
        {
            "points": n,
            "noise": level,
            "cases": len(cell),
            "right": float(np.mean([r["right"] for r in cell])),
            "certain": float(np.mean([r["certain"] for r in cell])),
            "certain_and_wrong": sum(r["certain"] and not r["right"] for r in cell),
        }
        for n in POINTS
        for level in NOISE
        for cell in [[r for r in rows if r["points"] == n and r["noise"] == level]]
    ]
    sure = [r for r in rows if r["certain"]]
    easy = [r["certain"] for r in rows if r["noise"] <= 0.01]
    by_family = {
        f: float(np.mean([r["right"] for r in rows if r["family"] == f and r["noise"] <= 0.05 and r["points"] >= 5]))
        for f in FAMILIES
    }
    return {
        "table": table,
        "right_by_family_up_to_5_percent": by_family,
        "certain": len(sure),
        "certain_and_wrong": sum(not r["right"] for r in sure),
        "wrong": [r for r in sure if not r["right"]],
        "answered_up_to_1_percent": float(np.mean(easy)),
    }


# -- hard: families that broke earlier versions; the present one was made on these families with other seeds


def _banded(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    J, first = np.zeros((n, m, d)), np.arange(m) * d // m
    for j in range(min(d, 2)):
        J[:, np.arange(m), (first + j) % d] = rng.normal(1, 0.6, (n, m))
    return J


def _sparse(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((n, m, d)) * (rng.random((n, m, d)) < 0.35)


def _gauss(n: int, m: int, d: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((n, m, d))


def _student(df: float) -> Block:
    return lambda n, m, d, rng: rng.standard_t(df, size=(n, m, d))


HARD: dict[str, Block] = {
    "banded": _banded, "t(1.5)": _student(1.5), "factors 1 to 1000": _gauss, "sparse": _sparse, "one-dimensional": _gauss,
    "sizes 1 and 8": _gauss, "moving": _gauss, "three outputs": _gauss, "one factor, t(2)": _student(2), "one factor, 10^±3": _gauss,
}  # fmt: skip


def hard_case(family: str, n: int, noise: float, rng: np.random.Generator) -> tuple[Array, Array | None, int]:
    """Jacobians, owners (None where outputs move) and the number of factors.

    Noise is a share of the standard deviation of all entries; of each output where outputs differ in scale, and of the median entry
    (times 1.48) where the standard deviation is that of a few entries.
    """
    dimensions = {
        "one-dimensional": lambda: [1] * int(rng.integers(2, 8)),
        "sizes 1 and 8": lambda: [1, 8],
        "three outputs": lambda: [1, int(rng.integers(3, 6))],
    }.get(family, lambda: rng.integers(1, 5, rng.integers(2, 5)).tolist())()
    if family.startswith("one factor"):
        dimensions = [int(rng.integers(2, 6))]
    if family == "banded":
        dimensions = [max(2, d) for d in dimensions]
    outputs = [3, 60] if family == "three outputs" else [int(rng.integers(8, 15)) * d + 3 for d in dimensions]
    blocks = [HARD[family](n, m, d, rng) for m, d in zip(outputs, dimensions, strict=True)]
    if family == "factors 1 to 1000":
        blocks = [b * 10**e for b, e in zip(blocks, [0, 3, *rng.uniform(0, 3, len(blocks))], strict=False)]
    J, owners = stacked(blocks)
    if family == "one factor, 10^±3":
        J *= 10 ** rng.uniform(-3, 3, (J.shape[1], 1))
    order = rng.permutation(J.shape[1])
    J, owners = J[:, order], owners[order]
    if family == "moving":
        J = np.stack([point[rng.permutation(len(point))] for point in J])
    d = J.shape[2]
    J = J @ (rng.standard_normal((d, d)) if rng.random() < 0.5 else conditioned(d, rng.uniform(1, 20), rng))
    scale = (
        J.std(axis=(0, 2), keepdims=True)
        if "10" in family
        else np.median(np.abs(J)) * 1.48
        if "t(" in family
        else J.std()
    )
    return J + noise * scale * rng.standard_normal(J.shape), None if family == "moving" else owners, len(dimensions)


def same_owners(first: Array, second: Array) -> float:
    """Share of the outputs whose owner is the same, under the best match of the factors."""
    from scipy.optimize import linear_sum_assignment

    both = np.zeros((first.max() + 1, second.max() + 2))
    np.add.at(both, (first, second), 1)
    return float(both[linear_sum_assignment(-both)].sum() / len(first))


def hard(seed: int, cases: int) -> dict[str, Any]:
    rows = []
    for family in HARD:
        for level in (0.0, 0.01, 0.05):
            cell = []
            for s in range(cases):
                rng = np.random.default_rng([seed, 5, list(HARD).index(family), int(1000 * level), s])
                J, owners, K = hard_case(family, (5, 10, 20)[s % 3], level, rng)
                got = find_factors(J, seed=s)
                right = got.n_factors == K
                cell.append((right, right and (owners is None or same_owners(owners, got.owners) >= 0.95), got.certain))
            right, blocks, certain = (np.array(column) for column in zip(*cell, strict=True))
            rows.append(
                {"family": family, "noise": level, "cases": cases, "right": float(right.mean()), "blocks_right": float(blocks.mean()),
                 "certain": float(certain.mean()), "certain_and_wrong": int((certain & ~right).sum())}
            )  # fmt: skip
    return {
        "table": rows,
        "right": {str(v): float(np.mean([r["right"] for r in rows if r["noise"] == v])) for v in (0.0, 0.01, 0.05)},
        "certain": round(sum(r["certain"] * cases for r in rows)),
        "certain_and_wrong": sum(r["certain_and_wrong"] for r in rows),
        "answered_up_to_1_percent": float(np.mean([r["certain"] for r in rows if r["noise"] <= 0.01])),
    }


def overlap(seed: int, cases: int) -> list[dict[str, Any]]:
    """Chains of three slots that share outputs with their neighbours."""
    found = []
    for share in (0.0, 0.1, 0.2, 0.25, 0.3):
        cell = []
        for s in range(cases):
            rng = np.random.default_rng([seed, 2, s])
            world = SlotWorld.of(3, dim=int(rng.integers(2, 4)), overlap=share, rng=rng)
            z = world.draw(10, rng=rng)
            cell.append(find_factors(world.jacobian(z) @ rng.standard_normal((world.latents,) * 2), seed=s))
        found.append(
            {
                "overlap": share,
                "cases": cases,
                "three": sum(f.n_factors == 3 for f in cell),
                "certain": sum(f.certain for f in cell),
            }
        )
    return found


def sprites(seed: int, cases: int) -> list[dict[str, Any]]:
    found = []
    for count, occluding, separated in [(k, o, s) for k in (2, 3) for o in (False, True) for s in (True, False)]:
        right, angles = 0, []
        for s in range(cases):
            rng = np.random.default_rng([seed, 3, s])
            world = MovingSprites(count, radius=0.15, occluding=occluding)
            A = rng.standard_normal((2 * count,) * 2)
            got = find_factors(world.jacobian(world.draw(40, separated=separated, rng=rng)) @ A, seed=s)
            right += got.n_factors == count
            back = np.linalg.inv(A)
            angles += [min(sine(back[:, 2 * k : 2 * k + 2], u) for u in got.subspaces) for k in range(count)]
        degrees = np.degrees(np.arcsin(np.minimum(angles, 1)))
        found.append(
            {"sprites": count, "occluding": occluding, "separated": separated, "cases": cases, "right": right,
             "median_degrees": float(np.median(degrees)), "worst_degrees": float(degrees.max())}
        )  # fmt: skip
    return found


# -- cost


def dense(J: Array) -> int:
    """Number of components of |H| above rounding, with H of outputs by outputs: what the exact stage replaces."""
    from scipy.sparse.csgraph import connected_components

    left, sizes, _ = np.linalg.svd(J, full_matrices=False)
    left = left[:, sizes > 1e-10 * sizes[0]]
    return int(connected_components(np.abs(left @ left.T) > 1e-10, directed=False)[0])


def cost(seed: int, cases: int) -> list[dict[str, Any]]:
    found = []
    for m, d in ((1000, 16), (2000, 16), (4000, 16), (2000, 64), (16000, 16), (4000, 32), (4000, 64)):
        rng = np.random.default_rng([seed, 4])
        J, _ = stacked([rng.standard_normal((1, m // 4, d // 4)) for _ in range(4)])
        G = J[0] @ rng.standard_normal((d, d))
        ours = min((timed(lambda G=G: exact_factors(G)) for _ in range(3)), key=lambda t: t.cpu)
        full = timed(lambda G=G: dense(G)) if m <= 4000 else None
        assert ours.result.n_factors == 4
        row = {"outputs": m, "latents": d, "pivoted_cpu": ours.cpu, "dense_cpu": full.cpu if full else None}
        found.append({**row, "times": full.cpu / ours.cpu if full else None})
    panels = [
        Panel(
            f"exact stage, {fixed} = {at}",
            axis,
            "CPU seconds",
            [(r[axis], r["pivoted_cpu"]) for r in found if r[fixed] == at],
            slope,
            label,
        )
        for axis, fixed, at, slope, label in (
            ("outputs", "latents", 16, 1, "∝ m"),
            ("latents", "outputs", 4000, 2, "∝ d²"),
        )
    ]
    (Path(__file__).parent / "results" / "mechanisms_cost.svg").write_text(scaling_svg(panels))
    return found


class Large:
    """Jacobians that are made as they are read, so that only the estimate needs memory."""

    def __init__(self, n: int, m: int, d: int, factors: int, seed: int):
        self.shape, self.dtype, self.factors, self.seed = (n, m, d), np.dtype(np.float32), factors, seed
        self.mixing = np.random.default_rng(seed).standard_normal((d, d)).astype(np.float32)

    def __getitem__(self, points: slice) -> Array:
        n, m, d = self.shape
        rows, columns = m // self.factors, d // self.factors
        made = []
        for i in range(*points.indices(n)):
            rng = np.random.default_rng([self.seed, i])
            blocks = rng.standard_normal((self.factors, rows, columns), dtype=np.float32)
            mixing = self.mixing.reshape(self.factors, columns, d)
            J = np.matmul(blocks, mixing).reshape(m, d)
            made.append(J + np.float32(0.02 * J.std()) * rng.standard_normal(J.shape, dtype=np.float32))
        return np.stack(made)


def large(seed: int, cases: int) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = timed(lambda: find_factors(Large(200, 10_000, 64, 8, seed)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = run.result
    return {
        "shape": [200, 10_000, 64], "n_factors": found.n_factors, "certain": found.certain, "rows": found.rows,
        "cpu": run.cpu, "wall": run.wall, "peak_gb": peak * 1024 / 1e9, "before_gb": before * 1024 / 1e9,
    }  # fmt: skip


PARTS: dict[str, tuple[Callable[[int, int], Any], int]] = {
    "exact": (exact, 250), "noise": (noise, 8), "hard": (hard, 12), "overlap": (overlap, 10),
    "sprites": (sprites, 4), "cost": (cost, 1), "large": (large, 1),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all but large if none is named"
    )
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--cases", type=int, help="for each cell; the default of each part if not given")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "mechanisms.json")
    asked = parser.parse_args()
    results = json.loads(asked.output.read_text()) if asked.output.exists() else {}
    results["machine"] = machine()
    for part in asked.parts or [name for name in PARTS if name != "large"]:
        function, cases = PARTS[part]
        results[part] = {"seed": asked.seed, "found": function(asked.seed, asked.cases or cases)}
        print(part, json.dumps(results[part]["found"], indent=1), flush=True)
        asked.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
