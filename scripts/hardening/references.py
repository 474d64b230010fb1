"""Every headline number again, by slow loops written from the formulas.

A reference uses numpy, scipy and scikit-learn on the rows, and nothing of `identifiable` but who is in which fold. Each is run on
several seeds and shapes; the table says how many numbers were compared and the largest difference. `TOLERANCES` are promises of
docs/reproducibility.md where a number is named there, and rounding elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.spatial.distance
import scipy.special
import scipy.stats
from numpy.typing import NDArray

from hardening.checks import Check, Setting

Array = NDArray[np.float64]
SEEDS = 6  # of each reference
ROUNDING = 1e-6


class Found(NamedTuple):
    """One number in two ways; `near` is the difference that is allowed, relative to the larger of 1 and the reference."""

    name: str
    ours: Any
    reference: Any
    near: float = ROUNDING

    @property
    def distance(self) -> float:
        ours, reference = (np.asarray(v, dtype=np.float64) for v in (self.ours, self.reference))
        if ours.shape != reference.shape or (np.isnan(ours) != np.isnan(reference)).any():
            return np.inf
        gap = np.abs(ours - reference) / np.maximum(1.0, np.abs(reference))
        return float(np.nanmax(gap, initial=0.0))

    @property
    def fault(self) -> str | None:
        if self.distance <= self.near:
            return None
        return f"{self.name}: {np.round(self.ours, 9)}, by the reference {np.round(self.reference, 9)}"


Reference = Callable[[int], Iterator[Found]]  # of a seed


def shape_of(seed: int) -> tuple[int, int]:
    return ((90, 3), (160, 5), (70, 8), (240, 2), (120, 6), (200, 4))[seed % 6]


def tables(seed: int, noise: float = 0.4) -> tuple[Array, Array]:
    """Two tables that agree in part: a mixture of Laplace sources, another mixture of them with noise."""
    rng = np.random.default_rng([seed, 71])
    n, d = shape_of(seed)
    S = rng.laplace(size=(n, d))
    X = S @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    Y = S @ rng.standard_normal((d, d)) + noise * rng.standard_normal((n, d))
    return X, Y


def centred(X: Array) -> Array:
    return np.asarray(X - X.mean(axis=0))


# ---- compare ----------------------------------------------------------------------------------------------------------


def rungs(seed: int) -> Iterator[Found]:
    """Errors and R² of the four maps: in-sample and refitted without each fold."""
    from identifiable import compare
    from identifiable.rows import plan_rows

    X, Y = tables(seed)
    names = ("signed_permutation", "rigid", "similarity", "linear")
    pair = compare(X, Y, groups=names, nulls=(), axes=False, neighbours=0, intervals=False).pairs[0]
    fold = plan_rows(len(X), None, seed=0, n_folds=5).fold
    rms = np.sqrt(2 * np.sum(centred(Y) ** 2) / (len(Y) - 1))
    diameter = max(float(np.linalg.norm(a - b)) for a in Y for b in Y)
    yield Found("diameter", pair.scale.diameter, diameter)
    yield Found("rms distance", pair.scale.rms, rms)
    inside = {
        name: np.linalg.norm(centred(X) @ A - centred(Y), axis=1) for name, A in maps(centred(X), centred(Y)).items()
    }
    held = {name: np.empty(len(X)) for name in names}
    spread = 0.0
    for k in range(5):
        train, test = fold != k, fold == k
        mx, my = X[train].mean(axis=0), Y[train].mean(axis=0)
        for name, A in maps(X[train] - mx, Y[train] - my).items():
            held[name][test] = np.linalg.norm((X[test] - mx) @ A - (Y[test] - my), axis=1)
        spread += float(np.sum((Y[test] - my) ** 2))
    for name in names:
        rung = pair.rung(name)
        yield Found(f"in-sample error, {name}", rung.in_sample.mean, inside[name].mean() / rms, 1e-4)
        yield Found(f"held-out error, {name}", rung.held_out.mean, held[name].mean() / rms, 1e-4)
        yield Found(f"95 % of held-out errors, {name}", rung.held_out.q95, np.quantile(held[name], 0.95) / rms, 1e-4)
        yield Found(f"mean over diameter, {name}", rung.held_out.mean_over_diameter, held[name].mean() / diameter, 1e-4)
        yield Found(f"R², {name}", rung.r2.value, 1 - np.sum(held[name] ** 2) / spread, 1e-4)


def maps(x: Array, y: Array) -> dict[str, Array]:
    """The best map of each group between centred rows; the permutation with a scale, the linear one with a ridge."""
    d = x.shape[1]
    Q, trace = scipy.linalg.orthogonal_procrustes(x, y)
    r = np.corrcoef(x.T, y.T)[:d, d:]
    i, j = scipy.optimize.linear_sum_assignment(-np.abs(r))
    P = np.zeros((d, d))
    P[i, j] = np.sign(r[i, j])
    P *= max(np.sum(x @ P * y), 0.0) / np.sum((x @ P) ** 2)
    return {"signed_permutation": P, "rigid": Q, "similarity": trace / np.sum(x**2) * Q, "linear": ridge(x, y)}


def ridge(x: Array, y: Array) -> Array:
    """The penalty with the least generalised cross-validation error, tried one at a time."""
    from identifiable.identifiability.ladder import PENALTIES

    top = np.linalg.norm(x, 2) ** 2
    best, least = 0.0, np.inf
    for penalty in PENALTIES * top:
        inverse = np.linalg.inv(x.T @ x + penalty * np.eye(x.shape[1]))
        free = 1 - np.trace(x @ inverse @ x.T) / (len(x) - 1)
        error = np.sum((y - x @ (inverse @ x.T @ y)) ** 2) / free**2
        if error < least:
            best, least = penalty, error
    if best == PENALTIES[0] * top:
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0])
    return np.asarray(np.linalg.inv(x.T @ x + best * np.eye(x.shape[1])) @ x.T @ y)


def canonical(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Canonical directions and correlations of centred rows."""
    qx, rx = np.linalg.qr(x)
    qy, ry = np.linalg.qr(y)
    u, s, vt = np.linalg.svd(qx.T @ qy)
    return np.linalg.solve(rx, u), np.linalg.solve(ry, vt.T), s


def shared(seed: int) -> Iterator[Found]:
    """ρ = sqrt(held-out × in-sample canonical correlation), and how many are strong."""
    from identifiable import compare
    from identifiable.rows import plan_rows

    X, Y = tables(seed, noise=0.2)
    found = compare(X, Y, nulls=(), axes=False, neighbours=0, intervals=False).pairs[0].shared
    fold = plan_rows(len(X), None, seed=0, n_folds=5).fold
    d = X.shape[1]
    sums = np.zeros((3, d))
    for k in range(5):
        train, test = fold != k, fold == k
        a, b, _ = canonical(centred(X[train]), centred(Y[train]))
        # held-out moments are about the mean of the rows held out
        u, v = centred(X[test]) @ a, centred(Y[test]) @ b
        sums += [np.sum(u * v, axis=0), np.sum(u * u, axis=0), np.sum(v * v, axis=0)]
    held = np.clip(sums[0] / np.sqrt(sums[1] * sums[2]), 0, 1)
    rho = np.sqrt(held * canonical(centred(X), centred(Y))[2])
    yield Found("ρ", found.rho, rho, 1e-6)
    yield Found("strong dimensions", found.strong, int(np.sum(rho > max(0.9, found.chance))))
    yield Found("partly shared", found.partly, int(np.sum(rho > max(0.5, found.chance))) - found.strong)


def overlaps(seed: int) -> Iterator[Found]:
    """Mutual nearest neighbours, one row at a time; their null by shuffling."""
    from identifiable import compare

    X, Y = tables(seed)
    found = compare(X, Y, axes=False, intervals=False, null_draws=99, nulls=("shuffle",)).pairs[0]
    n, k = len(X), 10

    def lists(Z: Array) -> list[set[int]]:
        distances = scipy.spatial.distance.cdist(Z, Z)
        return [set(sorted((j for j in range(n) if j != i), key=lambda j: distances[i, j])[:k]) for i in range(n)]

    near_x, near_y = lists(X), lists(Y)
    value = np.mean([len(a & b) / k for a, b in zip(near_x, near_y, strict=True)])
    yield Found("mutual overlap", found.neighbours.mutual.value, value)
    yield Found("chance of overlap", found.neighbours.mutual.chance, k / (n - 1))
    rng = np.random.default_rng([seed, 72])
    drawn_cca, drawn_near = [], []
    for _ in range(200):
        order = rng.permutation(n)
        place = np.argsort(order)
        shuffled = [{int(place[j]) for j in near_y[order[i]]} for i in range(n)]
        drawn_near.append(np.mean([len(a & b) / k for a, b in zip(near_x, shuffled, strict=True)]))
        drawn_cca.append(canonical(centred(X), centred(Y[order]))[2].mean())
    for name, null, drawn, observed in (
        ("CCA", found.similarity.null["cca"], drawn_cca, canonical(centred(X), centred(Y))[2].mean()),
        ("overlap", found.neighbours.null["mutual"], drawn_near, value),
    ):
        error = 5 * np.std(drawn) * np.sqrt(1 / 99 + 1 / 200)  # of a difference of means of draws
        yield Found(f"mean under shuffling, {name}", null.mean, np.mean(drawn), error)
        beyond = np.mean(np.array(drawn) >= observed)
        yield Found(f"p, {name}", null.p, (1 + 99 * beyond) / 100, 0.02 + 5 * np.sqrt(beyond * (1 - beyond) / 66))


def similarities(seed: int) -> Iterator[Found]:
    """CCA, SVCCA and CKA from rows and kernels, plain and debiased, by `compare` and by `layers`."""
    from identifiable import compare, layers

    X, Y = tables(seed)
    k = max(X.shape[1] - 1, 1)
    found = compare(X, Y, nulls=(), axes=False, neighbours=0, intervals=False).pairs[0].similarity
    yield Found("CCA", found.cca, canonical(centred(X), centred(Y))[2].mean())
    yield Found("CKA", found.cka, cka(X, Y))
    yield Found("debiased CKA", found.cka_debiased, cka(X, Y, debiased=True))
    grid = layers({"a": X, "b": np.tanh(X)}, {"a": Y, "b": np.tanh(Y)}, components=k, null_draws=1).grid("models")
    assert grid is not None
    for i, x in enumerate((X, np.tanh(X))):
        for j, y in enumerate((Y, np.tanh(Y))):
            yield Found(f"CKA of layers {i}, {j}", grid.cka[i][j], cka(x, y, debiased=True))
            yield Found(f"SVCCA of layers {i}, {j}", grid.svcca[i][j], svcca(x, y, k))


def svcca(X: Array, Y: Array, k: int) -> float:
    left, right = (np.linalg.svd(centred(Z) / Z.std(axis=0), full_matrices=False)[0][:, :k] for Z in (X, Y))
    return float(np.linalg.svd(left.T @ right, compute_uv=False).mean())


def cka(X: Array, Y: Array, *, debiased: bool = False) -> float:
    """From the n × n kernels; debiased with HSIC₁ (Song et al. 2012), one sum at a time."""
    n = len(X)
    K, L = X @ X.T, Y @ Y.T
    if not debiased:
        H = np.eye(n) - 1 / n
        K, L = H @ K @ H, H @ L @ H
        return float(np.sum(K * L) / np.sqrt(np.sum(K * K) * np.sum(L * L)))

    def hsic(A: Array, B: Array) -> float:
        A, B = A - np.diag(np.diag(A)), B - np.diag(np.diag(B))
        both = np.trace(A @ B) + A.sum() * B.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * A.sum(axis=0) @ B.sum(axis=1)
        return float(both / (n * (n - 3)))

    K, L = centred(X) @ centred(X).T, centred(Y) @ centred(Y).T
    return float(hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L)))


# ---- ICA --------------------------------------------------------------------------------------------------------------


def components(seed: int) -> Iterator[Found]:
    """`resolve` against FastICA: the same optimum; components that are white."""
    from sklearn.decomposition import FastICA

    from identifiable import resolve

    rng = np.random.default_rng([seed, 73])
    d = 2 + seed % 4
    X = rng.laplace(size=(3000, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    basis = resolve(X, stability=0)
    Z = np.asarray(basis.to_components(X))
    yield Found("covariance of components", np.cov(Z.T, bias=True).reshape(d, d), np.eye(d))
    yield Found("there and back", basis.from_components(Z), X, 1e-4)
    other = FastICA(
        d, fun="logcosh", whiten="unit-variance", tol=1e-10, max_iter=2000, random_state=seed
    ).fit_transform(X)
    r = np.abs(np.corrcoef(Z.T, other.T)[:d, d:])
    i, j = scipy.optimize.linear_sum_assignment(-r)
    yield Found("|r| with FastICA", r[i, j], np.ones(d), 1e-4)


# ---- disentanglement --------------------------------------------------------------------------------------------------


def codes(seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Latents that show three discrete factors, each mostly in one latent."""
    rng = np.random.default_rng([seed, 74])
    factors = np.column_stack([rng.integers(k, size=600) for k in (3, 4, 5)])
    mixing = np.eye(3) + 0.25 * rng.standard_normal((3, 3))
    return factors @ mixing + 0.4 * rng.standard_normal((600, 3)), factors


def entropy(labels: NDArray[Any]) -> float:
    return float(scipy.stats.entropy([np.mean(labels == v) for v in np.unique(labels)]))


def mutual(a: NDArray[Any], b: NDArray[Any]) -> float:
    total = 0.0
    for u in np.unique(a):
        for v in np.unique(b):
            joint = np.mean((a == u) & (b == v))
            if joint > 0:
                total += joint * np.log(joint / (np.mean(a == u) * np.mean(b == v)))
    return float(total)


def disentangled(seed: int) -> Iterator[Found]:
    """InfoMEC, MIG, SAP, DCI with a lasso, MCC."""
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.linear_model import Lasso, LogisticRegression

    from identifiable.metrics import dci, infomec, mcc, mig, sap

    Z, S = codes(seed)
    n, m = S.shape
    white = centred(Z) / Z.std(axis=0)
    N = np.array(
        [
            mutual_info_classif(white, s, discrete_features=False, n_neighbors=10, random_state=0) / entropy(s)
            for s in S.T
        ]
    )
    ours = infomec(Z, S)
    yield Found("InfoM", ours.infom, (np.mean(N.max(axis=0) / N.sum(axis=0)) - 1 / m) / (1 - 1 / m))
    yield Found("InfoC", ours.infoc, (np.mean(N.max(axis=1) / N.sum(axis=1)) - 1 / 3) / (1 - 1 / 3))
    left = []
    for s in S.T:
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=10_000, tol=1e-9).fit(white, s)
        weight = n / (len(np.unique(s)) * np.array([np.sum(s == v) for v in s]))
        chosen = model.predict_log_proba(white)[np.arange(n), np.searchsorted(model.classes_, s)]
        left.append(-np.sum(weight * chosen) / np.sum(weight) / np.log(len(np.unique(s))))
    yield Found("InfoE", ours.infoe, 1 - np.mean(left), 2e-2)

    binned = [np.digitize(z, np.linspace(z.min(), z.max(), 21)[1:-1]) for z in Z.T]
    table = np.array([[mutual(s, z) / entropy(s) for z in binned] for s in S.T])
    top = np.sort(table, axis=1)
    yield Found("MIG", mig(Z, S).mig, np.mean(top[:, -1] - top[:, -2]))

    continuous = S + 0.3 * np.random.default_rng([seed, 75]).standard_normal(S.shape)
    order = np.random.default_rng(0).permutation(n)
    fitted, scored = order[:400], order[400:]
    squares = np.array([[np.corrcoef(s[fitted], z[fitted])[0, 1] ** 2 for z in Z.T] for s in continuous.T])
    top = np.sort(squares, axis=1)
    yield Found("SAP", sap(Z, continuous).sap, np.mean(top[:, -1] - top[:, -2]))

    weights, scores = [], []
    mean, spread = Z[fitted].mean(axis=0), Z[fitted].std(axis=0)
    for s in continuous.T:
        about, scale = s[fitted].mean(), s[fitted].std()
        model = Lasso(alpha=0.02, tol=1e-9, max_iter=100_000).fit(
            (Z[fitted] - mean) / spread, (s[fitted] - about) / scale
        )
        weights.append(np.abs(model.coef_))
        scores.append(model.score((Z[scored] - mean) / spread, (s[scored] - about) / scale))
    R = np.array(weights)
    found = dci(Z, continuous, predictor="lasso", alpha=0.02)
    by_latent = [1 - scipy.stats.entropy(column + 1e-11, base=m) for column in R.T]
    by_factor = [1 - scipy.stats.entropy(row + 1e-11, base=Z.shape[1]) for row in R]
    yield Found("DCI disentanglement", found.disentanglement, np.dot(by_latent, R.sum(axis=0) / R.sum()), 1e-3)
    yield Found("DCI completeness", found.completeness, np.dot(by_factor, R.sum(axis=1) / R.sum()), 1e-3)
    yield Found("DCI informativeness", found.informativeness_test, np.mean(scores), 1e-3)

    r = np.abs(np.corrcoef(continuous.T, Z.T)[:m, m:])
    i, j = scipy.optimize.linear_sum_assignment(-r)
    yield Found("MCC", mcc(Z, continuous).mcc, r[i, j].mean())


# ---- decoders ---------------------------------------------------------------------------------------------------------


def constants(seed: int) -> Iterator[Found]:
    """Bi-Lipschitz constants of a small network: singular values of central differences."""
    import torch

    from identifiable import bilipschitz

    d = 2 + seed % 3
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(d, 9), torch.nn.Tanh(), torch.nn.Linear(9, 7)).double()
    points = np.random.default_rng([seed, 76]).standard_normal((12, d))
    found = bilipschitz(net, points)

    def decode(z: Array) -> Array:
        with torch.no_grad():
            return np.asarray(net(torch.from_numpy(z)).numpy())

    step = 1e-5
    J = np.stack([(decode(points + step * e) - decode(points - step * e)) / (2 * step) for e in np.eye(d)], axis=2)
    values = [np.linalg.svd(each, compute_uv=False) for each in J]
    yield Found("largest singular value", found.sigma_max, [v[0] for v in values], 1e-6)
    yield Found("least singular value", found.sigma_min, [v[-1] for v in values], 1e-6)
    yield Found("constant", found.constant, [max(v[0], 1 / v[-1]) for v in values], 1e-5)


def factors_of_a_decoder(seed: int) -> Iterator[Found]:
    """Number, sizes and subspaces of factors: connected components of the hat matrix."""
    from identifiable import mechanisms

    rng = np.random.default_rng([seed, 77])
    sizes = rng.integers(1, 4, 2 + seed % 3).tolist()
    d, n_outputs = sum(sizes), [6 * k for k in sizes]
    J = np.zeros((3, sum(n_outputs), d))
    row = column = 0
    for size, rows in zip(sizes, n_outputs, strict=True):
        J[:, row : row + rows, column : column + size] = rng.standard_normal((3, rows, size))
        row, column = row + rows, column + size
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    J = J @ (turn * np.linspace(1, 3, d))
    found = mechanisms(J)
    stacked = J.reshape(-1, d)
    U = np.linalg.svd(stacked, full_matrices=False)[0]
    hat = np.abs(U @ U.T) > 1e-8
    same = hat.reshape(3, sum(n_outputs), 3, sum(n_outputs)).any(axis=(0, 2))  # an output is one at all points
    count, owner = scipy.sparse.csgraph.connected_components(scipy.sparse.csr_matrix(same), directed=False)
    yield Found("factors", found.n_factors, count)
    yield Found("sizes of factors", sorted(f.dimension for f in found.factors), sorted(sizes))
    for factor in found.factors:
        outputs = [int(o) for o in factor.outputs]
        mine = np.isin(owner, [owner[outputs[0]]])
        yield Found("outputs of a factor", sorted(outputs), np.flatnonzero(mine))
        others = scipy.linalg.null_space(J[:, ~mine].reshape(-1, d)).T  # directions that move its outputs only
        angles = scipy.linalg.subspace_angles(np.array(factor.subspace).reshape(-1, d).T, others.T)
        yield Found("largest angle of a subspace, radians", angles.max(), 0.0)


# ---- heads, alignment, dictionaries, screens --------------------------------------------------------------------------


def heads_of(seed: int) -> Iterator[Found]:
    """The map that two output layers imply, and what it explains of features."""
    from identifiable import heads
    from identifiable.rows import uniforms

    rng = np.random.default_rng([seed, 78])
    m, labels, n = 3 + seed % 3, 14, 200
    W, V = rng.standard_normal((2, labels, m))
    V += W @ rng.standard_normal((m, m))
    F = rng.standard_normal((n, m))
    A = np.linalg.pinv(centred(V)) @ centred(W)  # f' = A f
    G = F @ A.T + 0.5 * rng.standard_normal((n, m)) + 1.0
    way = heads(W, V, features=(F, G), null_draws=1).maps[0]
    yield Found("map of heads", way.matrix, A.T)
    fold = np.argsort(np.argsort(uniforms(0, 0, n))) % 5
    missed, spread = 0.0, float(np.sum(centred(G) ** 2))
    for k in range(5):
        train, test = fold != k, fold == k
        offset = (G[train] - F[train] @ A.T).mean(axis=0)
        missed += float(np.sum((G[test] - F[test] @ A.T - offset) ** 2))
    assert way.fit is not None
    yield Found("R² of the map of heads", way.fit.r2, 1 - missed / spread)


def retrieved(seed: int) -> Iterator[Found]:
    """Recall@1 and @10, MRR, CSLS: every cosine, every rank."""
    from identifiable.alignment.retrieval import retrieve, true_lists
    from identifiable.neighbours import Index
    from identifiable.run import Run

    rng = np.random.default_rng([seed, 79])
    n, d = 150 + 30 * seed, 4 + seed
    Y = rng.standard_normal((n, d)) + 0.5
    mapped = Y + 0.4 * rng.standard_normal((n, d))
    own = np.arange(0, n, 3)
    index, run = Index(Y, metric="cosine"), Run(workers=1)
    result = retrieve(mapped[own], index, true_lists(Y[own], index, own, run), own, run=run).result
    unit = [Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (Y, mapped)]
    true, plain = unit[0][own] @ unit[0].T, unit[1][own] @ unit[0].T
    csls = 2 * plain - np.sort(plain, axis=1)[:, -10:].mean(axis=1)[:, None] - np.sort(plain, axis=0)[-10:].mean(axis=0)

    def ordered(scores: Array) -> list[list[int]]:
        return [
            [j for j in sorted(range(n), key=lambda j: -row[j]) if j != i] for i, row in zip(own, scores, strict=True)
        ]

    truth = ordered(true)
    for name, scores, recall, mrr in (
        ("", plain, result.recall_10, result.mrr),
        (", CSLS", csls, result.csls_recall_10, result.csls_mrr),
    ):
        lists = ordered(scores)
        yield Found(
            f"recall@10{name}",
            recall.value,
            np.mean([len({*a[:10]} & {*b[:10]}) / 10 for a, b in zip(lists, truth, strict=True)]),
        )
        ranks = [1 + sum(row > row[i]) for i, row in zip(own, scores, strict=True)]
        yield Found(f"MRR{name}", mrr.value, np.mean([1 / r for r in ranks]))
    firsts = zip(ordered(plain), truth, strict=True)
    yield Found("recall@1", result.recall_1.value, np.mean([a[0] == b[0] for a, b in firsts]))


def matched(seed: int) -> Iterator[Found]:
    """PW-MCC: a cosine at a time, the best assignment; the isotropic level by its closed form."""
    from identifiable import match
    from identifiable.dictionaries.chance import isotropic_level

    rng = np.random.default_rng([seed, 80])
    k, d = 20 + 5 * seed, 8 + seed
    A = rng.standard_normal((k, d))
    B = (A + 0.5 * rng.standard_normal((k, d)))[rng.permutation(k)][: k - seed] * rng.choice([-1, 1], (k - seed, 1))
    pair = match(A, B, null_draws=1).pairs[0]
    table = np.array([[a @ b / np.sqrt((a @ a) * (b @ b)) for b in B] for a in A])
    for name, gain in (("pw_mcc", table), ("pw_mcc_absolute", np.abs(table))):
        i, j = scipy.optimize.linear_sum_assignment(-gain)
        yield Found(name, pair.score_of(name).value, gain[i, j].mean())
    level = np.sqrt(scipy.special.betaincinv(0.5, (d - 1) / 2, 1 - 2 / k))
    yield Found("isotropic level", isotropic_level(k, d), level)


def screened(seed: int) -> Iterator[Found]:
    """Replicates of a screen: mAP, silhouettes."""
    from sklearn.metrics import average_precision_score, silhouette_samples

    from identifiable.deconfounding.design import Design, Labels
    from identifiable.deconfounding.metrics.mixing import silhouette_batch, silhouette_label
    from identifiable.deconfounding.metrics.replicates import Ranking, replicate_map

    rng = np.random.default_rng([seed, 81])
    drugs = np.array(["a", "b", "c", "dmso"])
    drug = np.repeat(drugs, 12)
    plate = np.tile(["p", "q", "r"], 16)
    X = rng.standard_normal((48, 5)) + 1.5 * rng.standard_normal((4, 5))[np.repeat(np.arange(4), 12)]
    control = drug == "dmso"
    design = Design(Labels.of(plate), Labels.of(drug), control)
    found = replicate_map(X, design, Ranking(positives_differ_by=()), permutations=0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    each = []
    for i in np.flatnonzero(~control):
        others = np.flatnonzero((control | (drug == drug[i])) & (np.arange(48) != i))
        each.append(average_precision_score(drug[others] == drug[i], unit[others] @ unit[i]))
    yield Found("average precision", found.average_precision[~control], each)
    by_drug = [
        np.mean([a for a, name in zip(each, drug[~control], strict=True) if name == each_drug]) for each_drug in "abc"
    ]
    yield Found("mAP", found.mean, np.mean(by_drug))
    labels, batches = Labels.of(drug), Labels.of(plate)
    yield Found("silhouette of labels", silhouette_label(X, labels).score, (silhouette_samples(X, drug).mean() + 1) / 2)
    within = [np.mean(1 - np.abs(silhouette_samples(X[drug == name], plate[drug == name]))) for name in drugs]
    yield Found("silhouette of batches", silhouette_batch(X, batches, labels).score, np.mean(within))


def screen_numbers(seed: int) -> Iterator[Found]:
    """What audit, evaluate, recommend, attribute and clean rest on: one pair of wells, one row, one plate at a time."""
    from identifiable.blocks import Blocks
    from identifiable.deconfounding.audit.blind import mutual_information
    from identifiable.deconfounding.components.variance import Plates, PlateSums
    from identifiable.deconfounding.corrections.registry import fit_correction
    from identifiable.deconfounding.design import Design, Labels
    from identifiable.deconfounding.evaluation.trials import auroc
    from identifiable.deconfounding.metrics.retrieval import Retrieval

    rng = np.random.default_rng([seed, 82])
    batch = np.repeat(["one", "two", "three"], 48)
    plate = np.repeat([f"p{k}" for k in range(6)], 24)
    drug = rng.permuted(np.tile(["a", "b", "c", "dmso"], (6, 6)), axis=1).ravel()
    n, control = len(drug), drug == "dmso"
    shift = {name: rng.standard_normal(4) for name in (*np.unique(drug), *np.unique(plate))}
    X = rng.standard_normal((n, 4)) + np.array([shift[a] + 0.8 * shift[b] for a, b in zip(drug, plate, strict=True)])
    design = Design(Labels.of(plate), Labels.of(drug), control, batch=Labels.of(batch))

    side = np.where(X[:, 0] > 0, "left", "right")  # a label that depends on others
    yield Found("audit: information", mutual_information(Labels.of(side), Labels.of(plate)), mutual(side, plate))

    asked, scores = (drug == "a") | control, np.round(X[:, 1], 1)  # with ties
    pairs = [(p > q) + 0.5 * (p == q) for p in scores[asked & ~control] for q in scores[asked & control]]
    yield Found("evaluate: AUROC of one against controls", auroc(scores[asked], (drug == "a")[asked]), np.mean(pairs))

    found = Retrieval.of(design).scores(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    treated = np.flatnonzero(~control)
    for name, distance in (
        ("nn_euclidean", lambda i, j: np.linalg.norm(X[i] - X[j])),
        ("nn_cosine", lambda i, j: -(unit[i] @ unit[j])),
    ):
        hits = []
        for i in treated:
            nearest = min((j for j in treated if batch[j] != batch[i]), key=lambda j: distance(i, j))
            hits.append(drug[nearest] == drug[i])
        yield Found(f"recommend: {name}, in another batch", found[name].mean, np.mean(hits))
    own = []
    for i in np.flatnonzero(control):
        others = [j for j in np.flatnonzero(control) if plate[j] != plate[i]]
        own.append(batch[min(others, key=lambda j: np.linalg.norm(X[i] - X[j]))] == batch[i])
    yield Found("recommend: batch_readable", found["batch_readable"].mean, np.mean(own))

    plain = Design(Labels.of(plate), Labels.of(drug), control)
    plates = Plates.of(plain, rng=np.random.default_rng(0))
    ours = PlateSums.of(plates, X[plates.reference].astype(np.float32)).variances(plates)
    wells = np.flatnonzero(control)
    z = X[wells] - X[wells].mean(axis=0)
    same, apart = np.zeros((2, 4)), np.zeros((2, 4))
    for one, a in zip(wells, z, strict=True):
        for other, b in zip(wells, z, strict=True):
            if plate[one] != plate[other]:
                apart += [a * b, np.ones(4)]
            elif one != other:
                same += [a * b, np.ones(4)]
    between = same[0] / same[1] - apart[0] / apart[1]
    total = np.mean(z**2, axis=0) - apart[0] / apart[1]
    yield Found("attribute: share between plates", ours.plate / ours.total, between / total, 1e-4)

    corrected = fit_correction("control-z", Blocks(X), plain).apply(X, np.arange(n))
    expected = np.empty_like(X)
    for name in np.unique(plate):
        rows, kept = plate == name, (plate == name) & control
        expected[rows] = (X[rows] - X[kept].mean(axis=0)) / X[kept].std(axis=0)
    yield Found("recommend: control-z", corrected, expected, 1e-4)


REFERENCES: dict[str, Reference] = {
    "compare: errors, R², diameter": rungs,
    "compare: shared dimensions": shared,
    "compare: neighbours, nulls, p": overlaps,
    "CCA, SVCCA, CKA; layers": similarities,
    "ICA against FastICA, whitening": components,
    "InfoMEC, MIG, SAP, DCI, MCC": disentangled,
    "bi-Lipschitz constants": constants,
    "mechanisms: number and factors": factors_of_a_decoder,
    "heads: map, R²": heads_of,
    "align: recall, MRR, CSLS": retrieved,
    "match: PW-MCC": matched,
    "screens: mAP, silhouettes": screened,
    "screens: information, AUROC, 1-NN, plates, control-z": screen_numbers,
}


def checks(setting: Setting) -> Iterator[Check]:
    for name, reference in REFERENCES.items():
        yield compared(name, reference, range(setting.seed, setting.seed + setting.of(SEEDS)))


def compared(name: str, reference: Reference, seeds: Sequence[int]) -> Check:
    """One row of the table: every number of a reference on every seed."""
    check = Check("references", name)
    worst = 0.0
    for seed in seeds:
        for found in reference(seed):
            fault = found.fault
            check.count(None if fault is None else f"seed {seed}, {fault}")
            worst = max(worst, found.distance if found.near < 1e-2 else 0.0)
    check.note = f"largest difference {worst:.0e}"
    return check
