"""Is the answer of `compare` right where the truth is planted, and do its intervals cover? (docs/compare.md)

    python benchmarks/answer.py form [--count 700]       # is the planted group named, is another ever called clear?
    python benchmarks/answer.py shared [--count 200]     # is the number of shared dimensions found?
    python benchmarks/answer.py coverage [--count 400]   # do intervals of R² and of held-out means cover?
    python benchmarks/answer.py chance [--count 400]     # how often is p <= .05 for unrelated tables?
    python benchmarks/answer.py halves                   # do two halves of a real table give the same answer?
    python benchmarks/answer.py cost [--shape 60000 256] # CPU over that of the bare ladder

Dimensions, spectra, scales and noise are drawn at run time from --seed (by default the clock), so nothing can be tuned to
them. Results go to benchmarks/results/answer.json, one entry per subcommand.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

import identifiable
from identifiable.groups import haar_rotation

RESULTS = Path(__file__).parent / "results" / "answer.json"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BARE: dict[str, Any] = {"nulls": (), "axes": False, "neighbours": 0, "workers": 1}


# -- planted truths


def planted(shape: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """X and Y with Y = s (Z A) + noise, X = Z + noise; the scale s is 1 in half of the draws."""
    d = int(rng.integers(4, 33))
    spectrum = 10.0 ** rng.uniform(
        -rng.uniform(0.5, 1.5), 0, d
    )  # standard deviations, over up to three decades of variance
    Z = _sources(n, d, rng) * spectrum
    lost = 10.0 ** rng.uniform(-2, -0.2)  # of the variance, over both sides
    split = rng.uniform(0, 1)
    like = rng.uniform(0, 1)  # 0: the same noise in every direction, 1: noise as the spectrum
    noise = spectrum**like
    noise *= np.sqrt((spectrum**2).sum() / (noise**2).sum())
    X = Z + np.sqrt(lost * split) * noise * rng.standard_normal((n, d))
    Y = Z + np.sqrt(lost * (1 - split)) * noise * rng.standard_normal((n, d))
    scale = 1.0 if rng.random() < 0.5 else float(np.exp(rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)))
    if shape == "signed_permutation":
        A = np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    elif shape == "similarity":
        A = haar_rotation(d, rng)
        X = X @ haar_rotation(d, rng)
    else:
        A = _linear(Z, d, rng)
        X = X @ haar_rotation(d, rng)
    return X, scale * (Y @ A) + rng.standard_normal(d), scale


def _linear(Z: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """A linear map that no similarity comes near to: it keeps less than 0.8 of the variance, without any noise."""
    while True:
        A = haar_rotation(d, rng) * np.exp(rng.uniform(-1.5, 1.5, d)) @ haar_rotation(d, rng)
        target = Z @ A
        shared = np.linalg.svd(Z.T @ target, compute_uv=False).sum() ** 2
        if shared / (np.sum(Z**2) * np.sum(target**2)) < 0.8:
            return A


def _sources(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    kind = rng.choice(["normal", "laplace", "uniform"])
    if kind == "normal":
        return rng.standard_normal((n, d))
    return rng.laplace(size=(n, d)) / np.sqrt(2) if kind == "laplace" else rng.uniform(-1, 1, (n, d)) * np.sqrt(3)


def form(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """By planted shape and number of rows: named, called otherwise, left open; and scales."""
    found: dict[str, Any] = {}
    for n in (500, 800, 4000):
        tally: dict[str, Counter[str]] = {"R² >= .8": Counter(), "R² < .8": Counter()}
        for draw in range(count):
            shape = ("signed_permutation", "similarity", "linear")[draw % 3]
            X, Y, scale = planted(shape, n, rng)
            verdict = identifiable.compare(X, Y, **BARE).pairs[0].verdict
            form, r2 = verdict.form, min(verdict.r2, verdict.r2_back)
            said = "open" if form.state != "clear" else "named" if form.group == shape else "contradiction"
            words = tally["R² >= .8" if r2 >= 0.8 else "R² < .8"]
            words[said] += 1
            words[f"{shape} {said}"] += 1
            truth = "one" if scale == 1 else "other"
            if shape != "linear":
                words[
                    "scale "
                    + ("open" if form.scale_state == "unknown" else "right" if form.scale_state == truth else "wrong")
                ] += 1
        found[f"n = {n}"] = {level: dict(words) for level, words in tally.items()}
        print(n, found[f"n = {n}"], flush=True)
    return found


def shared(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """k of d dimensions with rho >= .95, the others <= .8: strong within 1, by rows per dimension."""
    found: dict[str, Any] = {}
    for ratio in (3, 4, 5, 8, 20):
        near = 0
        for _ in range(count):
            d = int(rng.integers(6, 49))
            k = int(rng.integers(0, d + 1))
            rho = np.r_[rng.uniform(0.95, 0.999, k), rng.uniform(0, 0.8, d - k)]
            n = ratio * d
            Z, E = rng.standard_normal((2, n, d))
            mixes = [rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-1, 1, d) for _ in range(2)]
            Y = rho * Z + np.sqrt(1 - rho**2) * E
            pair = identifiable.compare(Z @ mixes[0], Y @ mixes[1], **BARE, intervals=False).pairs[0]
            near += abs(pair.shared.strong - k) <= 1
        found[f"n/d = {ratio}"] = near / count
        print(ratio, near / count, flush=True)
    return found


# -- calibration


def coverage(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """How often intervals hold the value on 100,000 new rows, of the maps fitted to the rows at hand (averaged over draws)."""
    found: dict[str, Any] = {}
    for kind, ratio in (
        *((k, r) for k in ("normal", "groups", "t3") for r in (5, 20)),
        ("normal", 3),
        ("t3", 3),
    ):
        d = int(rng.integers(6, 17))
        world = _World(d, kind, rng)
        n = ratio * d if kind != "groups" else ratio * d * 10
        truth = np.mean([world.truth(n, rng) for _ in range(12)], axis=0)
        inside = np.zeros((2, 3))
        for _ in range(count):
            X, Y, group = world.draw(n, rng)
            pair = identifiable.compare(X, Y, **BARE, group_by=group).pairs[0]
            for j, name in enumerate(("signed_permutation", "similarity", "linear")):
                rung = pair.rung(name)
                for i, bounds in enumerate((rung.r2.ci95, rung.held_out.ci95)):
                    inside[i, j] += bounds is not None and bounds[0] <= truth[i, j] <= bounds[1]
        rates = inside / count
        found[f"{kind}, n/d = {ratio}, d = {d}"] = {"R²": rates[0].tolist(), "held-out mean": rates[1].tolist()}
        print(kind, ratio, d, rates.round(3).tolist(), flush=True)
    return found


class _World:
    """Rows of two tables, linked by a rotation and noise."""

    def __init__(self, d: int, kind: str, rng: np.random.Generator):
        self.d, self.kind = d, kind
        self.turn, self.noise = haar_rotation(d, rng), rng.uniform(0.3, 1.0)
        self.spectrum = 10.0 ** rng.uniform(-1, 0, d)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        group = None
        if self.kind == "groups":  # ten rows in each, mostly alike
            group = np.arange(n) // 10
            parts = [
                rng.standard_normal((n // 10 + 1, self.d))[group] * 0.9 + 0.44 * rng.standard_normal((n, self.d))
                for _ in range(2)
            ]
        elif self.kind == "t3":
            parts = [rng.standard_t(3, (n, self.d)) / np.sqrt(3) for _ in range(2)]
        else:
            parts = [rng.standard_normal((n, self.d)) for _ in range(2)]
        X = parts[0] * self.spectrum
        return X, (X + self.noise * parts[1] * self.spectrum) @ self.turn, group

    def truth(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """R² and mean error on 100,000 new rows of maps fitted to four fifths of n rows."""
        from identifiable.groups import SignedPermutation, procrustes
        from identifiable.identifiability.ladder import Ridge, best_scale
        from identifiable.moments import Moments

        X, Y, _ = self.draw(int(0.8 * n), rng)
        new_x, new_y, _ = self.draw(100_000, rng)
        m = Moments.of(np.hstack([X, Y]), widths=(self.d, self.d))
        x, y = new_x - m.mean_x, new_y - m.mean_y
        permutation, turn = SignedPermutation().fit(m).matrix, procrustes(m.xy)[0]
        linear = Ridge.of(m).fit(m.xy, float(np.trace(m.yy)))[0]
        maps = (permutation * best_scale(permutation, m.xx, m.xy), turn * best_scale(turn, m.xx, m.xy), linear)
        r2 = [1 - np.sum((x @ A - y) ** 2) / np.sum(y**2) for A in maps]
        rms = np.sqrt(2 * np.var(new_y, axis=0).sum())
        means = [np.linalg.norm(x @ A - y, axis=1).mean() / rms for A in maps]
        return np.array([r2, means])


def chance(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """p <= .05 of the linear and the similarity rung for unrelated tables, with and without groups of rows."""
    found: dict[str, Any] = {}
    for grouped in (False, True):
        hits = np.zeros(2)
        for _ in range(count):
            d, n = int(rng.integers(3, 9)), int(rng.integers(100, 400))
            group = np.arange(n) // int(rng.integers(4, 9)) if grouped else None
            rows = np.arange(n) if group is None else group
            X, Y = (rng.standard_normal((n, d))[rows] + 0.3 * rng.standard_normal((n, d)) for _ in range(2))
            pair = identifiable.compare(
                X, Y, nulls=("shuffle",), axes=False, neighbours=0, intervals=False, group_by=group, workers=1
            ).pairs[0]
            hits += [pair.rung(g).null["shuffle"].p <= 0.05 for g in ("similarity", "linear")]
        found["groups" if grouped else "rows"] = dict(
            zip(("similarity", "linear"), (hits / count).tolist(), strict=True)
        )
        print(grouped, hits / count, flush=True)
    return found


# -- real pairs, cost


def real_pairs() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    def two(file: str, a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
        with np.load(DATA / file) as stored:
            return stored[a], stored[b]

    with np.load(DATA / "glove6b_50d_vs_100d_20k.npz") as stored:
        wide = sorted((k for k in stored.files if stored[k].ndim == 2), key=lambda k: stored[k].shape[1])
    yield "glove 50 and 100", *two("glove6b_50d_vs_100d_20k.npz", *wide)
    yield "spaCy 3.6 and 3.8", *two("spacy_en_core_web_sm_36_vs_38.npz", "tok2vec_36", "tok2vec_38")
    yield "magika 0.6.1 and 1.0.3", *two("magika_061_vs_103.npz", "a", "b")
    yield "rxnfp layer 4", *two("rxnfp_three_encoders.npz", "pretrained_mean_4", "ft_mean_4")
    yield "rxnfp layer 12", *two("rxnfp_three_encoders.npz", "pretrained_mean_12", "ft_mean_12")


def halves(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Degree and form of two random halves of real pairs."""
    found: dict[str, Any] = {}
    for name, X, Y in real_pairs():
        said = []
        for _ in range(count):
            order = rng.permutation(len(X))
            for rows in (order[: len(X) // 2], order[len(X) // 2 :]):
                pairs = identifiable.compare(X[rows], Y[rows], **BARE).pairs
                said.append(
                    (tuple(p.verdict.degree for p in pairs), pairs[0].verdict.form.group, pairs[0].verdict.form.state)
                )
        twos = list(zip(said[::2], said[1::2], strict=True))
        found[name] = {
            "splits": count,
            "same degree": sum(a[0] == b[0] for a, b in twos),
            "same form": sum(a[1:] == b[1:] for a, b in twos),
            "two different clear": sum(a[2] == b[2] == "clear" and a[1] != b[1] for a, b in twos),
            "said": [str(s) for s in dict.fromkeys(said)],
        }
        print(name, found[name], flush=True)
    return found


def cost(n: int, d: int, rng: np.random.Generator) -> dict[str, Any]:
    """CPU seconds of the bare ladder, with intervals and nulls, and with neighbours; axes apart."""
    Z = rng.standard_normal((n, d), dtype=np.float32) * np.logspace(0, -1.5, d, dtype=np.float32)
    Y = Z @ haar_rotation(d, rng).astype(np.float32) + 0.05 * rng.standard_normal((n, d), dtype=np.float32)
    identifiable.compare(Z[:500, :8], Y[:500, :8], axes=False)  # imports

    def cpu(**options: Any) -> float:
        begun = time.process_time()
        identifiable.compare(Z, Y, **options)
        return time.process_time() - begun

    bare = cpu(**BARE, intervals=False)
    found = {
        "bare": bare,
        "intervals": cpu(**BARE),
        "nulls too": cpu(axes=False, neighbours=0),
        "neighbours too": cpu(axes=False),
    }
    return {**found, "ratio": found["neighbours too"] / bare}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["form", "shared", "coverage", "chance", "halves", "cost"])
    parser.add_argument("--count", type=int, help="draws (form 700, shared 200, coverage and chance 400, halves 10)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--shape", type=int, nargs=2, default=(60_000, 256))
    typed = parser.parse_args()
    rng = np.random.default_rng(typed.seed)
    default = {"form": 700, "shared": 200, "coverage": 400, "chance": 400, "halves": 10, "cost": 1}[typed.what]
    count = typed.count or default
    found = cost(*typed.shape, rng) if typed.what == "cost" else globals()[typed.what](count, rng)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    name = f"cost {typed.shape[0]} x {typed.shape[1]}" if typed.what == "cost" else typed.what
    stored[name] = {"seed": typed.seed, "count": count, "machine": machine(), "found": found}
    RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
