"""Which map finds the nearest rows: `Aligner` against RidgeCV and Procrustes, on real and planted pairs; and what choosing costs.

    python benchmarks/align.py --data ../shared/data      # about fifteen CPU minutes; writes results/align.json
    python benchmarks/align.py --only planted --output /tmp/try.json

Recall@10 (cosine) of held-out rows, mapped, in an index of true target rows; the own row is left out. `auto` is `Aligner().fit` on
the pairs alone; `auto_all` chooses with all rows of the target as the index, as `align` does where it has them. `best` is the best of
RidgeCV with its default penalties, RidgeCV(logspace(-3, 5, 17)) and centred Procrustes: three baselines, of which the best is taken
on the very queries that are scored. Seeds are fixed; all pairs are reported, none selected.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from machine import interleaved, machine, ratios, timed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score

from identifiable import Aligner, align
from identifiable.alignment.aligned import Reach
from identifiable.alignment.choosing import Sample, choose, fitted
from identifiable.alignment.curve import fitted_curve
from identifiable.alignment.families import Paths, families_of
from identifiable.alignment.regions import regions_by_rule
from identifiable.blocks import Blocks, one_blas_thread
from identifiable.groups import AffineMap, haar_rotation, procrustes
from identifiable.intake import gather_moments
from identifiable.moments import Moments, leave_one_out
from identifiable.neighbours import Index, common_entries
from identifiable.options import MapOptions
from identifiable.run import Run

Rows = NDArray[Any]
INDEX, K, FOLDS = 6400, 10, 5
WIDE = np.logspace(-3, 5, 17)
ONE = Run(workers=1)
SECTIONS = ("real", "planted", "near", "regions", "foreign", "advice", "speed")
NEAR_SEEDS = range(100, 110)  # the rules were chosen on seeds 0 to 5
REGION_SEEDS = range(300, 310)  # likewise


class Trial:
    """`n` pairs to fit to, `queries` other rows to find, an index of both and of the rest."""

    def __init__(self, x: Rows, y: Rows, n: int, queries: int, seed: int):
        order = np.random.default_rng(seed).permutation(len(x))[:INDEX]
        x, y = np.asarray(x[order], np.float64), np.asarray(y[order], np.float64)
        self.asked, self.train = slice(0, queries), slice(queries, queries + n)
        self.x, self.y = x, y
        self.index = Index(y, metric="cosine")
        self.own = np.arange(queries)
        self.truth = self.index.nearest(y[self.asked], K, own=self.own, run=ONE)

    def recall(self, apply: Callable[[Rows], Rows]) -> float:
        found = self.index.nearest(apply(self.x[self.asked]), K, own=self.own, run=ONE)
        return len(common_entries(found, self.truth)[0]) / found.size

    def baselines(self) -> dict[str, float]:
        x, y = self.x[self.train], self.y[self.train]
        rotation = procrustes((x - x.mean(axis=0)).T @ (y - y.mean(axis=0)))[0]
        return {
            "ridgecv": self.recall(RidgeCV().fit(x, y).predict),
            "ridgecv_wide": self.recall(RidgeCV(alphas=WIDE).fit(x, y).predict),
            "procrustes": self.recall(AffineMap.about(rotation, x.mean(axis=0), y.mean(axis=0))),
        }

    def auto(self) -> dict[str, Any]:
        model = Aligner(workers=1)
        cpu = timed(lambda: model.fit(self.x[self.train], self.y[self.train])).cpu
        return {"auto": self.recall(model.transform), "family": model.family_, "penalty": model.penalty_, "cpu_s": cpu}

    def auto_all(self) -> dict[str, Any]:
        """Chosen with all rows of the target as the index."""
        x, y = self.x[self.train], self.y[self.train]
        fold = np.arange(len(x)) % FOLDS  # rows are in random order
        both = np.hstack([x, y])
        parts = [Moments.of(both[fold == k], (x.shape[1], y.shape[1])) for k in range(FOLDS)]
        own = np.arange(self.train.start, self.train.start + len(x))
        choice = choose(parts, Sample(x, y, fold, self.y, own), MapOptions(), ONE)
        return {"auto_all": self.recall(fitted(reduce(Moments.merge, parts), choice)), "family_all": choice.family}

    def measured(self, *, everything: bool) -> dict[str, Any]:
        found = self.baselines()
        return found | {"best": max(found.values())} | self.auto() | (self.auto_all() if everything else {})


def real_pairs(data: Path) -> dict[str, tuple[Rows, Rows]]:
    magika, spacy, glove, rxnfp = (
        np.load(data / f"{name}.npz")
        for name in (
            "magika_061_vs_103",
            "spacy_en_core_web_sm_36_vs_38",
            "glove6b_50d_vs_100d_20k",
            "rxnfp_three_encoders",
        )
    )
    return {
        "magika 0.6.1 to 1.0.3": (magika["a"], magika["b"]),
        "spaCy 3.6 to 3.8": (spacy["tok2vec_36"], spacy["tok2vec_38"]),
        "spaCy 3.8 to 3.6": (spacy["tok2vec_38"], spacy["tok2vec_36"]),
        "GloVe 50 to 100": (glove["glove50"], glove["glove100"]),
        "GloVe 100 to 50": (glove["glove100"], glove["glove50"]),
        "rxnfp ft to ft_10k": (rxnfp["ft_mean_12"], rxnfp["ft_10k_mean_12"]),
        "rxnfp pretrained to ft": (rxnfp["pretrained_mean_12"], rxnfp["ft_mean_12"]),
        "rxnfp layer 4 to 12, pretrained": (rxnfp["pretrained_mean_4"], rxnfp["pretrained_mean_12"]),
        "rxnfp class token, pretrained to ft": (rxnfp["pretrained_cls_12"], rxnfp["ft_cls_12"]),
    }


def real(data: Path) -> Iterator[dict[str, Any]]:
    for name, (x, y) in real_pairs(data).items():
        for n in (200, 500, 1500):
            trial = Trial(x, y, n, queries=1000 if len(x) >= 5000 else 400, seed=n)
            yield {"pair": name, "n": n, "per_dimension": n / max(x.shape[1], y.shape[1])} | trial.measured(
                everything=True
            )


def planted_pairs(d: int = 48, rows: int = 6400) -> Iterator[tuple[str, Rows, Rows, tuple[int, ...]]]:
    """Name, both tables, and the numbers of pairs to fit to."""
    rng = np.random.default_rng(7)
    decay = np.logspace(0, -1, d)

    def noisy(y: Rows, share: float = 0.3) -> Rows:
        return y + share * y.std() * rng.standard_normal(y.shape) + y.std() * rng.standard_normal(y.shape[1])

    few_to_many = (20, 100, 500, 4800)  # n/d from .4 to 100
    x = rng.standard_normal((rows, d)) * decay @ haar_rotation(d, rng)
    yield "rotation", x, noisy(x @ haar_rotation(d, rng)), few_to_many
    for condition in (1, 100, 10_000):
        stretch = np.logspace(0, -np.log10(condition), d)
        by = haar_rotation(d, rng) * stretch @ haar_rotation(d, rng)
        yield f"linear, condition {condition}", x, noisy(x @ by), few_to_many
        yield f"linear, condition {condition}, no noise", x, x @ by, (100, 500)
        inverse = np.linalg.inv(by) if condition > 1 else by
        yield f"inverse of it, condition {condition}, no noise", x @ by, x @ by @ inverse, (100, 500)
    heavy = rng.standard_t(2, (rows, d)) * decay
    yield "rotation, heavy tails", heavy, noisy(heavy @ haar_rotation(d, rng), 0.1), few_to_many
    rogue = x.copy()
    rogue[:, 0] = 1000 * rogue[:, 0].std() * rng.standard_normal(rows)
    yield "rotation, a rogue column in the source", rogue, noisy(x @ haar_rotation(d, rng)), few_to_many
    rogue = noisy(x @ haar_rotation(d, rng))
    rogue[:, 0] *= 1000
    yield "rotation, a rogue column in the target", x, rogue, few_to_many
    rogue = x * np.r_[1000, np.ones(d - 1)]
    shared = np.c_[rogue[:, :1], x[:, 1:] @ haar_rotation(d - 1, rng)] + 0.3 * x.std() * rng.standard_normal((rows, d))
    yield "rotation, a rogue column in both", rogue, shared, few_to_many
    wide = noisy(x @ rng.standard_normal((d, 2 * d)))
    yield "to twice the columns", x, wide, few_to_many
    yield "to half the columns", wide, x, few_to_many
    yield "two versions: axes correspond", x, noisy(x + 0.3 * x @ haar_rotation(d, rng)), few_to_many


def planted() -> Iterator[dict[str, Any]]:
    for name, x, y, sizes in planted_pairs():
        for n in sizes:
            found = Trial(x, y, n, queries=400, seed=n).measured(everything=False)
            yield {"pair": name, "n": n, "per_dimension": n / max(x.shape[1], y.shape[1])} | found


def near_pair(kind: str, condition: float, seed: int, d: int = 64, rows: int = 3000) -> tuple[Rows, Rows]:
    """A linear map of that condition, or its inverse; noise in the target is .3 of its standard deviation, or none."""
    rng = np.random.default_rng([seed, 991])
    x = rng.standard_normal((rows, d)) * np.logspace(0, -1, d) @ haar_rotation(d, rng)
    y = x @ (haar_rotation(d, rng) * np.logspace(0, -np.log10(condition), d) @ haar_rotation(d, rng))
    if kind.startswith("inverse"):
        x, y = y, x
    if kind.endswith("noise"):
        y = y + 0.3 * y.std() * rng.standard_normal(y.shape) + y.std() * rng.standard_normal(d)
    return x, y


def near() -> Iterator[dict[str, Any]]:
    """Few rows for each column: mean and worst gain over seeds."""
    for kind, condition in product(("noise", "exact", "inverse, noise", "inverse, exact"), (1, 100, 10_000)):
        for ratio in (0.4, 0.8, 1, 1.25, 2, 5):
            found = [
                Trial(x, y, int(ratio * x.shape[1]), queries=400, seed=seed).measured(everything=False)
                for seed in NEAR_SEEDS
                for x, y in [near_pair(kind, condition, seed)]
            ]
            gains = [case["auto"] - case["best"] for case in found]
            about = {"pair": f"{kind}, condition {condition}", "per_dimension": ratio, "seeds": len(gains)}
            yield (
                about
                | {"auto": float(np.mean([case["auto"] for case in found]))}
                | {"best": float(np.mean([case["best"] for case in found])), "worst_gain": min(gains)}
            )


def bad_region(kind: str, seed: int, d: int, queries: int, rows: int = 3000) -> tuple[Rows, Rows, Rows]:
    """Source rows of queries, their recall, and whether they lie in the tenth of the rows whose target is that of another row."""
    rng = np.random.default_rng([seed, d, 77])
    x = rng.standard_normal((rows, d)) * np.logspace(0, -1, d) @ haar_rotation(d, rng)
    noise = 0.15 * x.std()
    y = x + noise * rng.standard_normal(x.shape)
    along = x @ rng.standard_normal(d) if kind == "half-space" else -np.linalg.norm(x - x[rng.integers(rows)], axis=1)
    bad = along > np.quantile(along, 0.9)
    y[bad] = y[rng.permutation(rows)[: bad.sum()]] + noise * rng.standard_normal((int(bad.sum()), d))
    own, index = np.arange(queries), Index(y, metric="cosine")
    found, truth = (index.nearest(each[own], K, own=own, run=ONE) for each in (x, y))
    return x[own], np.bincount(common_entries(found, truth)[0], minlength=queries) / K, bad[own]


def regions() -> dict[str, Any]:
    """AUROC of the first region that is named, on rows that its rule was not found on; and regions named in permuted recalls."""
    found = {}
    for kind, (d, queries) in product(("half-space", "ball"), ((10, 1000), (64, 1000), (64, 2000), (256, 2000))):
        scores, false = [], 0
        for seed in REGION_SEEDS:
            x, recall, bad = bad_region(kind, seed, d, queries)
            fitted_rows, named = regions_by_rule(recall, x, rng=np.random.default_rng(seed))
            rest = ~fitted_rows
            scores.append(float(roc_auc_score(bad[rest], named[0][1][rest])) if named else 0.5)
            none = np.random.default_rng(seed).permutation(recall)
            false += bool(regions_by_rule(none, x, rng=np.random.default_rng(seed))[1])
        found[f"{kind}, {d} columns, {queries} queries"] = {
            "mean": float(np.mean(scores)),
            "least": min(scores),
            "false": false / len(scores),
        }
    return {"seeds": len(REGION_SEEDS), "auroc": found}


def foreign(data: Path) -> dict[str, Any]:
    """AUROC of the leverage for rows of one type, where the map is fitted to the others; beside it what sees more.

    `nearest`: mean distance from the five nearest fitted rows, which a map does not keep. `classifier`: told which rows are foreign.
    """
    magika, spacy, glove = (
        np.load(data / f"{name}.npz")
        for name in ("magika_061_vs_103", "spacy_en_core_web_sm_36_vs_38", "glove6b_50d_vs_100d_20k")
    )
    cases: dict[str, tuple[Rows, Rows]] = {
        "GloVe 50, frequent to rare": (glove["glove50"][:8000], glove["glove50"][14000:15500]),
        "GloVe 100, frequent to rare": (glove["glove100"][:8000], glove["glove100"][14000:15500]),
    }
    for name, x, kind in (("magika", magika["a"], magika["label_a"]), ("spaCy", spacy["tok2vec_36"], spacy["tag_38"])):
        types, counts = np.unique(kind, return_counts=True)
        for each in types[np.argsort(-counts)[:10]]:
            cases[f"{name}, {each}"] = x[kind != each], x[kind == each]
    found = {}
    for name, (own, other) in cases.items():
        rng = np.random.default_rng(0)
        own = np.asarray(own, np.float64)[rng.permutation(len(own))]
        held, known = own[: len(own) // 4], own[len(own) // 4 :]
        rows = np.vstack([held, np.asarray(other, np.float64)])
        is_foreign = np.arange(len(rows)) >= len(held)
        order, half = rng.permutation(len(rows)), len(rows) // 2
        model = LogisticRegression(C=0.1, max_iter=200).fit(rows[order[:half]] / rows.std(), is_foreign[order[:half]])
        nearest = Index(known, metric="euclidean").search(rows, 5, run=ONE).squares.mean(axis=1)
        leverage = Reach.of(Moments.of(known, (known.shape[1],)), known).leverage(rows)
        said = model.decision_function(rows[order[half:]] / rows.std())
        found[name] = {
            "leverage": float(roc_auc_score(is_foreign, leverage)),
            "nearest": float(roc_auc_score(is_foreign, nearest)),
            "classifier": float(roc_auc_score(is_foreign[order[half:]], said)),
        }
    return {"auroc": found}


def advice(data: Path) -> dict[str, Any]:
    """What `align` says of every real pair, both ways, and how well half of its curve forecasts the last point."""
    pairs = real_pairs(data)
    x, y = pairs["magika 0.6.1 to 1.0.3"]
    shuffled = np.random.default_rng(1).permutation(len(y))
    plain: dict[str, Any] = {}
    cases = [(name, pair, plain) for name, pair in pairs.items()]
    cases += [
        ("magika, 5,000 pairs, index 1,000", (x, y), {"holdout": 1000, "index": "held_out"}),
        ("magika, 3,000 pairs, index 3,000", (x, y), {"holdout": 3000, "index": "held_out"}),
        ("magika, shuffled", (x, y[shuffled]), plain),
    ]
    found = {}
    for name, (a, b), options in cases:
        found[name] = [_advised(way) for way in align(a, b, **options).result.ways]
        print(name, json.dumps(found[name][0]), flush=True)
    misses = [abs(way["forecast_miss"]) for ways in found.values() for way in ways if way["forecast_miss"] is not None]
    return {"pairs": found, "forecast_miss": {"mean": float(np.mean(misses)), "largest": max(misses)}}


def _advised(way: Any) -> dict[str, Any]:
    baselines = {each.name: each.cosine.recall_10.value for each in way.baselines}
    miss = None
    if way.curve is not None:
        points = way.curve.points
        half = [p for p in points if p.pairs <= points[-1].pairs / 2]
        if len(half) >= 3:
            limit, drop, offset = fitted_curve([p.pairs for p in half], [p.recall_10.value for p in half])
            miss = limit - drop / (points[-1].pairs + offset) - points[-1].recall_10.value
    uses = {f"{u.use}, {u.metric}": [u.recall_10.value, u.within_100.value, u.advice] for u in way.uses}
    own = way.own_overlap.value
    about = {"family": way.family, "index": way.queries[0].index, "advice": way.advice, "old_encoder": own}
    return about | {"uses": uses, "baselines": baselines, "forecast_miss": miss}


def speed() -> dict[str, Any]:
    """Moments and R² paths of all families against the bare moments; choosing by recall. One thread."""
    rng = np.random.default_rng(0)
    n, d = 222_000, 384
    x = rng.standard_normal((n, d), dtype=np.float32) * np.logspace(0, -1.5, d, dtype=np.float32)
    y = x @ haar_rotation(d, rng).astype(np.float32)
    y += 0.1 * rng.standard_normal((n, d), dtype=np.float32)
    tables = [Blocks(x), Blocks(y)]
    fold = np.arange(n) % FOLDS

    def bare() -> Any:
        return gather_moments(tables, ONE)

    def whole() -> Any:
        with one_blas_thread():
            parts = gather_moments(tables, ONE, part=fold, n_parts=FOLDS)
            pairs = zip(leave_one_out(parts), parts, strict=True)
            return [[paths.r2(f, test) for f in families] for training, test in pairs for paths in [Paths(training)]]

    def ridge_only() -> Any:
        with one_blas_thread():
            return [Paths(training).r2("ridge", test) for training, test in zip(trainings, parts, strict=True)]

    families = families_of(MapOptions(), (d, d))
    taken = interleaved({"bare": bare, "whole": whole}, 2)
    parts = gather_moments(tables, ONE, part=fold, n_parts=FOLDS)
    trainings = leave_one_out(parts)
    few = slice(0, 5000)
    sample = Sample(x[few], y[few], fold[few], y[few], np.arange(5000))
    choose(parts, Sample(x[:50], y[:50], fold[:50], y[:99], np.arange(50)), MapOptions(group="rigid"), ONE)  # compiled
    chosen = timed(lambda: choose(parts, sample, MapOptions(), ONE))
    maps = sum(len(Paths(trainings[0]).penalties(f)[::2]) or 1 for f in families) + 2 * 6
    return {
        "rows": n,
        "columns": d,
        "r2_paths_over_bare_moments": ratios(taken["whole"], taken["bare"]),
        "penalties": {f: len(Paths(trainings[0]).penalties(f)) for f in families},
        "ridge_path_five_folds_cpu_s": timed(ridge_only).cpu,
        "choosing": {"queries": 1000, "index": 5000, "about_maps": maps, "cpu_s": chosen.cpu},
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How far auto is above the best of the baselines: all, and below five pairs a dimension."""

    def of(cases: list[dict[str, Any]], which: str) -> dict[str, Any]:
        gains = np.array([case[which] - case["best"] for case in cases])
        return {
            "cases": len(gains),
            "mean_gain": float(gains.mean()),
            "least_gain": float(gains.min()),
            "better": float(np.mean(gains > 0)),
        }

    few = [case for case in found if case["per_dimension"] < 5]
    many = [case for case in found if case["per_dimension"] >= 5]
    names = [name for name in ("auto", "auto_all") if name in found[0]]
    return {name: {"below_5": of(few, name), "from_5": of(many, name)} for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", choices=SECTIONS, help="one part; the others stay as they are in the output")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "align.json")
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    for section in [options.only] if options.only else SECTIONS:
        about = machine()
        whole = {"speed": speed, "regions": regions, "foreign": lambda: foreign(options.data)}
        whole["advice"] = lambda: advice(options.data)
        if section in whole:
            result[section] = whole[section]() | {"machine": about}
            print(json.dumps({k: v for k, v in result[section].items() if k != "machine"}))
        else:
            cases = []
            for case in {"real": lambda: real(options.data), "planted": planted, "near": near}[section]():
                cases.append(case)
                print({k: round(v, 3) if isinstance(v, float) else v for k, v in case.items()}, flush=True)
            result[section] = {"cases": cases, "summary": summary(cases), "machine": about}
            print(json.dumps(result[section]["summary"]))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
