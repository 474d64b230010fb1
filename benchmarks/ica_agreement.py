"""Do two resolutions of one distribution give the same columns? Random halves of the rows, and different seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ica_methods import Array, Rows, correlation, covariance, partners, resolved

from identifiable.groups import AffineMap
from identifiable.worlds import Kind, sources

SAME = 0.99
LEVELS = (0.9, 0.95, 0.99)
REAL = {
    "tok2vec_36": ("spacy_en_core_web_sm_36_vs_38.npz", "tok2vec_36"),
    "tok2vec_38": ("spacy_en_core_web_sm_36_vs_38.npz", "tok2vec_38"),
    "glove50": ("glove6b_50d_vs_100d_20k.npz", "glove50"),
    "glove100": ("glove6b_50d_vs_100d_20k.npz", "glove100"),
}


def real_data(folder: Path) -> dict[str, Rows]:
    """The embeddings in `folder` that are there, as float32."""
    found = {}
    for name, (file, key) in REAL.items():
        if (folder / file).exists():
            with np.load(folder / file) as archive:
                found[name] = archive[key].astype(np.float32)
    return found


def synthetic_data() -> dict[str, Rows]:
    """Worlds whose components are all, partly and not at all identifiable."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(20)

    half: tuple[Kind, ...] = ("super", "gaussian") * 8
    return {
        "mixed 20000 x 32": sources(20_000, 32, rng=rng()).X,
        "bent 20000 x 32": sources(20_000, 32, rng=rng(), nonlinearity=0.1).X,
        "half Gaussian 10000 x 16": sources(10_000, 16, rng=rng(), kinds=half).X,
        "all Gaussian 5000 x 8": sources(5_000, 8, rng=rng(), kinds="gaussian").X,
    }


def halves(
    data: dict[str, Rows], *, splits: int, options: dict[str, Any], tick: Callable[[str], None]
) -> dict[str, Any]:
    """Random halves resolved separately: what becomes of every component that half A calls identifiable."""
    report = {}
    for name, X in data.items():
        cov = covariance(X)
        runs = []
        for split in range(splits):
            tick(f"halves: {name}, split {split + 1} of {splits}")
            order = np.random.default_rng([split, len(X)]).permutation(len(X))
            middle = len(X) // 2
            A = resolved(X[np.sort(order[:middle])], seed=split, **options)
            B = resolved(X[np.sort(order[middle:])], seed=splits + split, **options)
            runs.append(agreement(cov, A, B))
        report[name] = {"n": len(X), "d": X.shape[1], **totals(runs), "splits": runs}
    return report


def seeds(data: dict[str, Rows], *, count: int, options: dict[str, Any], tick: Callable[[str], None]) -> dict[str, Any]:
    """The same rows from different seeds, each against the first."""
    report = {}
    for name, X in data.items():
        cov = covariance(X)
        found = []
        for seed in range(count):
            tick(f"seeds: {name}, seed {seed + 1} of {count}")
            found.append(resolved(X, seed=seed, **options))
        runs = [agreement(cov, found[0], other) for other in found[1:]]
        report[name] = {"n": len(X), "d": X.shape[1], **totals(runs), "against_first": runs}
    return report


def agreement(cov: Array, first: tuple[Any, AffineMap], second: tuple[Any, AffineMap]) -> dict[str, Any]:
    """Components of the first that it calls identifiable, and their partners in the second."""
    (result, to_first), (other, to_second) = first, second
    partner, r = partners(correlation(cov, to_first, to_second))
    yes = np.array([c.identifiable for c in result.components], dtype=bool)
    yes_other = np.array([c.identifiable for c in other.components], dtype=bool)
    both = yes & (partner >= 0) & yes_other[partner]
    size = np.abs(r)
    differs = size <= SAME
    chosen = np.flatnonzero(yes)
    return {
        "components": len(yes),
        "identifiable": int(yes.sum()),
        "identifiable_in_second": int(yes_other.sum()),
        "identifiable_in_both": int(both.sum()),
        "above": {f"{level:g}": int(np.sum(size[yes] > level)) for level in LEVELS},
        "smallest_correlation": float(size[yes].min()) if yes.any() else None,
        "median_correlation": float(np.median(size[yes])) if yes.any() else None,
        "same_sign": int(np.sum(r[yes] > 0)),
        "same_place": int(np.sum(partner[yes] == chosen)),
        "pairs_out_of_order": out_of_order(
            chosen, partner, *([c.places for c in each.components] for each in (result, other))
        ),
        "differ": int(differs.sum()),
        "differ_unflagged": int(np.sum(differs & yes)),
        "differ_unflagged_by_both": int(np.sum(differs & both)),
        "not_flagged": [
            {
                "place": int(i),
                "partner": int(partner[i]),
                "correlation": float(r[i]),
                "reason": result.components[i].reason,
            }
            for i in np.flatnonzero(yes & (differs | (r <= 0)))
        ],
        "contrast": [result.contrast, other.contrast],
        "converged": [result.converged, other.converged],
    }


def out_of_order(chosen: Any, partner: Any, places: Any, other_places: Any) -> dict[str, int]:
    """Pairs of identifiable components whose partners come in the other order: announced by `places`, and not.

    Announced: the places the two may take overlap, in either resolution.
    """
    swapped = [
        _overlap(places[i], places[j]) or _overlap(other_places[partner[i]], other_places[partner[j]])
        for a, i in enumerate(chosen)
        for j in chosen[a + 1 :]
        if partner[i] > partner[j]
    ]
    pairs = len(chosen) * (len(chosen) - 1) // 2
    return {"pairs": pairs, "announced": sum(swapped), "not_announced": len(swapped) - sum(swapped)}


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def totals(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums over splits or seeds; the smallest correlation of all."""
    keys = ("identifiable", "identifiable_in_both", "same_sign", "same_place", "differ", "differ_unflagged")
    smallest = [r["smallest_correlation"] for r in runs if r["smallest_correlation"] is not None]
    return {
        **{key: sum(r[key] for r in runs) for key in (*keys, "differ_unflagged_by_both", "components")},
        "above": {f"{level:g}": sum(r["above"][f"{level:g}"] for r in runs) for level in LEVELS},
        "pairs_out_of_order": {
            key: sum(r["pairs_out_of_order"][key] for r in runs) for key in ("pairs", "announced", "not_announced")
        },
        "smallest_correlation": min(smallest, default=None),
    }
