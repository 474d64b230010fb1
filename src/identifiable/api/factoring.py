"""Factors of a decoder: a decoder and points, or Jacobians, in; `Mechanisms` out."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, as_array
from identifiable.api.decoding import Decoder, decoder_of, latents_of, with_torch
from identifiable.api.opening import is_path, open_sources
from identifiable.api.resolving import resolve
from identifiable.groups import AffineMap
from identifiable.intake import as_representation, default_provenance, inputs_of
from identifiable.io.jacobian_files import SUFFIX, check_jacobians, open_jacobians
from identifiable.jacobians import Values
from identifiable.mechanistic import Found, block_scores, find_factors, second_order
from identifiable.mechanistic.factors import largest_angle
from identifiable.moments import Array
from identifiable.options import MechanismsOptions, takes
from identifiable.representation import Representation, from_torch
from identifiable.results import (
    Alert,
    FormCount,
    IndependenceScores,
    Input,
    MechanismFactor,
    Mechanisms,
    Reason,
)
from identifiable.run import Run

SHOWN_POINTS = 3  # at which the page draws what each factor moves
SHOWN_OUTPUTS = 1024  # cells of such a map
SCORED = 2**24  # numbers of Jacobians that scores are made of
ICA_ROWS, ICA_ROWS_EACH = 100, 10  # points, at least and for each latent, from which on ICA says something


@takes(MechanismsOptions)
def mechanisms(decoder: Any, points: Any = None, /, *, options: MechanismsOptions) -> Mechanisms:
    r"""Which latent factors act on which outputs of a decoder, read off its Jacobians?

    Reconstructed: factors that are mechanistically independent (Type D of Matthes et al. 2025; compositional in Brady et al. 2023)
    move disjoint outputs in some basis of the latents. Ours: how they are found, with noise and without knowing the basis
    (`identifiable.mechanistic`). Nothing is assumed about the law of the latents, so factors may depend on each other, where ICA fails.

    Parameters
    ----------
    decoder
        As for `bilipschitz`; or Jacobians (points, outputs, latents), an array, nested lists or the path of a ``.npy``. Divide
        outputs in different units by their scales first: noise is taken to have one size on all of them.
    points
        Latents at which to look, one point a row: an array, a `Representation`, `Blocks` or a path. May be left out with Jacobians;
        given, they must be the points of the Jacobians, and ICA's axes are compared.

    >>> rng = np.random.default_rng(0)
    >>> J = np.zeros((6, 20, 3))
    >>> J[:, :12, :2], J[:, 12:, 2] = rng.standard_normal((6, 12, 2)), 1
    >>> found = mechanisms(J @ rng.standard_normal((3, 3)))
    >>> found.n_factors, found.certain, [f.dimension for f in found.factors], len(found.factors[0].outputs)
    (2, True, [2, 1], 12)
    """
    run = Run.of(options)
    given = (
        _given(decoder, options.name) if _are_jacobians(decoder) else None
    )  # before the points: swapped tables fail here
    table = (
        None if points is None else as_representation(open_sources([points], options.ids)[0], name="points", alone=True)
    )
    Z = None if table is None else latents_of(table)
    known: Decoder | None = None
    jacobians: Any
    if given is not None:
        jacobians, said = given
        if table is not None:
            _check_points(jacobians.shape, said, table)
        described = _described(jacobians, said)
    else:
        known = _decoder(decoder, Z, options)
        assert Z is not None
        assert table is not None
        jacobians, described = _Made(known, Z), inputs_of([table])[0]
    found = find_factors(jacobians, seed=options.seed, run=run)
    n, m, d = jacobians.shape
    picture = _picture(options.picture, m)
    shown = found.looked_at[np.unique(np.linspace(0, len(found.looked_at) - 1, SHOWN_POINTS).astype(np.intp))]
    live = found.owners[found.owners >= 0]
    values = {"factors": found.n_factors, "leak": float(found.leak[found.n_factors - 1])}
    if found.n_factors > 1:
        values["at_least"] = float(np.mean([k >= found.n_factors for k in found.at_points]))
    if found.rank > 1:
        values["more"] = found.n_factors + 1
        values["next"] = float(found.leak[found.n_factors])
    provenance = default_provenance(options.seed, options.command or "identifiable.mechanisms(...)")
    return Mechanisms(
        inputs=(described,),
        settings={
            "decoder": known.name if known else described.name,
            "decoder_sha256": known.sha256 if known else None,
            "precision": np.dtype(jacobians.dtype).name,
            "shape": list(options.shape) if options.shape else None,
            "blocks": list(options.blocks) if options.blocks else None,
            "picture": list(options.picture) if options.picture else None,
            "seed": options.seed,
            **({} if table is None or table.columns is None else {"columns": list(table.columns)}),
        },
        alerts=_alerts(found, n, m, d),
        provenance=with_torch(provenance, known) if known else provenance,
        decoder=known.name if known else described.name,
        n=n,
        outputs=m,
        latents=d,
        n_factors=found.n_factors,
        certain=found.certain,
        reason=Reason(found.reason, values),
        form=found.form,
        linear=found.linear,
        moving=found.moving,
        owned=found.owned,
        leak=tuple(found.leak.tolist()),
        factors=_factors(found, jacobians, Z, shown, picture, options),
        null_space=tuple(map(tuple, found.null_space.T.tolist())),
        dead=m - len(live),
        agree=float(np.mean([k == found.n_factors for k in found.at_points])),
        at_points=found.at_points,
        looked_at=tuple(found.looked_at.tolist()),
        forms=tuple(
            FormCount(c.form, c.n_factors, tuple(c.found.leak.tolist()), c.separation, c.explained, c.agreement)
            for c in found.counts
        ),
        rows_used=found.rows,
        complete=found.complete,
        shown_points=tuple(shown.tolist()),
        picture=picture,
        **_scores(found, jacobians, known, Z, options),
        basis=_basis(found),
    )


def _are_jacobians(source: Any) -> bool:
    """Whether this is an array, nested lists or the path of an array, and no decoder."""
    if is_path(source):
        return str(source).lower().endswith(SUFFIX)
    if isinstance(source, list | tuple):
        return True
    return not callable(source) and not hasattr(source, "jvp") and hasattr(source, "shape")


def _decoder(decoder: Any, Z: Values | None, options: MechanismsOptions) -> Decoder:
    if Z is None:
        raise UsageError("mechanisms: a decoder needs points; pass latents, one point a row, or Jacobians.")
    shape = None if options.shape is None else tuple(options.shape)
    return decoder_of(decoder, shape=shape, latents=Z.shape[1], name=options.name)


class _Made:
    """Jacobians of a decoder, made as they are read."""

    def __init__(self, decoder: Decoder, points: Values):
        self.products, self.points = decoder.told(lambda rows: None), points
        first = self.products.jacobian(points[:1])
        self.shape, self.dtype = (len(points), first.shape[2], points.shape[1]), first.dtype

    def __getitem__(self, points: slice) -> NDArray[Any]:
        return self.products.jacobian(self.points[points]).transpose(0, 2, 1)


def _given(source: Any, name: str | None) -> tuple[Any, str]:
    """`sampling.Jacobians`, and what they are called."""
    said = name or (str(source).rsplit("/", 1)[-1] if is_path(source) else "Jacobians")
    if is_path(source):
        return open_jacobians(source), said
    J = as_array(from_torch(source), said)
    check_jacobians(J.shape, J.dtype, said)
    return J if J.dtype.kind == "f" else J.astype(np.float64), said


def _check_points(shape: tuple[int, ...], said: str, table: Representation) -> None:
    """Refuse Jacobians that are not at these points."""
    n, d = table.n, table.d
    if (shape[0], shape[2]) == (n, d):
        return
    turned = shape[:2] == (n, d)
    todo = "transpose the last two axes" if turned else "pass the points at which they were taken"
    raise DataError(
        f"{said}: expected shape ({n}, outputs, {d}) for {n} points of {d} latents in {table.name}, got {shape}; {todo}."
    )


def _described(J: Any, said: str) -> Input:
    digest = hashlib.sha256(f"{J.dtype.str};{J.shape};".encode())
    for point in range(J.shape[0]):
        digest.update(np.ascontiguousarray(J[point : point + 1]).data)
    return Input(said, J.shape[0], J.shape[2], J.dtype.name, digest.hexdigest())


def _picture(asked: Any, outputs: int) -> tuple[int, int] | None:
    if asked is None:
        return None
    if len(asked) != 2 or min(asked) < 1 or asked[0] * asked[1] != outputs:
        raise UsageError(
            f"picture {'x'.join(map(str, asked))}: expected height and width whose product is {outputs}, the outputs."
        )
    return int(asked[0]), int(asked[1])


def _factors(
    found: Found,
    jacobians: Any,
    Z: Values | None,
    shown: NDArray[np.intp],
    picture: tuple[int, int] | None,
    options: MechanismsOptions,
) -> tuple[MechanismFactor, ...]:
    d = jacobians.shape[2]
    scale = np.ones(d) if Z is None else np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1)
    own = [np.linalg.qr(basis / scale[:, None])[0] for basis in found.subspaces]
    axes = _nearest(own, np.eye(d))
    components = _ica(Z, options.seed)
    nearest = _nearest(own, components / scale[:, None]) if components is not None else [((), None)] * len(own)
    maps = [_moved(np.asarray(jacobians[int(i) : int(i) + 1][0], np.float64), found, picture) for i in shown]
    result = []
    for k in range(found.n_factors):
        turns = found.turns[:, k][np.isfinite(found.turns[:, k])]
        mine = np.flatnonzero(found.owners == k)
        result.append(
            MechanismFactor(
                index=k,
                dimension=found.dimensions[k],
                outputs=() if found.moving else tuple(mine.tolist()),
                n_outputs=len(mine),
                subspace=tuple(map(tuple, found.subspaces[k].T.tolist())) if found.linear else (),
                axes=axes[k][0] if own else (),
                axis_angle=axes[k][1] if own else None,
                ica_angle=nearest[k][1] if own else None,
                turn=float(np.median(turns)) if len(turns) else None,
                turn_max=float(turns.max()) if len(turns) else None,
                maps=tuple(map(tuple, (each[k] for each in maps))) if found.linear else (),
            )
        )
    return tuple(result)


def _nearest(own: list[Array], directions: Array) -> list[tuple[tuple[int, ...], float | None]]:
    """For each subspace as many of the directions (columns) as it has dimensions, each used once, and the largest angle to them."""
    from scipy.optimize import linear_sum_assignment

    if not own or directions.shape[1] < sum(basis.shape[1] for basis in own):
        return [((), None)] * len(own)
    unit = directions / np.linalg.norm(directions, axis=0)
    cost = np.concatenate([np.tile(((basis.T @ unit) ** 2).sum(axis=0), (basis.shape[1], 1)) for basis in own])
    columns = linear_sum_assignment(cost, maximize=True)[1]
    found: list[tuple[tuple[int, ...], float | None]] = []
    first = 0
    for basis in own:
        chosen = np.sort(columns[first : first + basis.shape[1]])
        first += basis.shape[1]
        found.append((tuple(chosen.tolist()), largest_angle(basis, np.linalg.qr(unit[:, chosen])[0])))
    return found


def _ica(Z: Values | None, seed: int) -> Array | None:
    """Directions of the latents that ICA's components move, as columns; None where the points do not suffice."""
    if Z is None or len(Z) < max(ICA_ROWS, ICA_ROWS_EACH * Z.shape[1]) or Z.shape[1] < 2:
        return None
    try:
        return np.asarray(resolve(np.asarray(Z, np.float64), stability=0, seed=seed).from_components.matrix.T)
    except DataError:  # latents without variance: ICA has nothing to say
        return None


def _moved(J: Array, found: Found, picture: tuple[int, int] | None) -> list[list[float]]:
    """How much each factor moves every output at one point, over the most; neighbours are averaged where there are many."""
    moved = [np.linalg.norm(J @ basis, axis=1) for basis in found.subspaces]
    height, width = picture or (1, len(J))
    step = 1
    while -(-height // step) * -(-width // step) > SHOWN_OUTPUTS:
        step += 1
    result = []
    for each in moved:
        cells = each.reshape(height, width)
        rows = [np.add.reduceat(cells, range(0, height, min(step, height)), axis=0)]
        summed = np.add.reduceat(rows[0], range(0, width, step), axis=1).reshape(-1)
        top = float(summed.max())
        result.append((summed / top).round(3).tolist() if top > 0 else np.zeros(len(summed)).tolist())
    return result


def _scores(
    found: Found, jacobians: Any, known: Decoder | None, Z: Values | None, options: MechanismsOptions
) -> dict[str, Any]:
    """Scores of the factors in their basis, and of given blocks of latents as they are."""
    _, m, d = jacobians.shape
    kept = found.looked_at[: max(1, SCORED // (m * d))]
    J = np.concatenate([np.asarray(jacobians[int(i) : int(i) + 1], np.float64) for i in kept])
    result: dict[str, Any] = {}
    if found.linear:
        Q = np.concatenate(found.subspaces, axis=1)
        result["scores"] = _scored(J @ Q, found.dimensions, None if known is None else known, Z, Q, options.seed)
    if options.blocks:
        if sum(options.blocks) != d:
            raise UsageError(f"blocks {','.join(map(str, options.blocks))}: expected sizes that add up to {d} latents.")
        result["given"] = _scored(J, tuple(options.blocks), known, Z, np.eye(d), options.seed)
    return result


def _scored(
    J: Array, sizes: tuple[int, ...], known: Decoder | None, Z: Values | None, Q: Array, seed: int
) -> IndependenceScores:
    ends = np.cumsum(sizes)
    blocks = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    share = None
    if known is not None and Z is not None and len(Z) > 1 and Q.shape[0] == Q.shape[1] and len(sizes) > 1:
        back = np.linalg.inv(Q)
        jvp = known.told(lambda rows: None).jvp
        few = np.asarray(Z[:64], np.float64)

        def moved(s: Values, v: Values) -> Values:
            return np.asarray(jvp((s @ Q.T).astype(Z.dtype), (v @ Q.T).astype(Z.dtype))).reshape(len(s), -1)

        share = second_order(moved, few @ back.T, blocks, rng=np.random.default_rng(seed)).share
    return IndependenceScores(tuple(sizes), **asdict(block_scores(J, blocks)), second_order=share)


def _basis(found: Found) -> AffineMap | None:
    """Latents to coordinates of the factors, one after the other, then of the null space."""
    if not found.linear:
        return None
    Q = np.concatenate([*found.subspaces, found.null_space], axis=1)
    return AffineMap(np.linalg.inv(Q).T, np.zeros(len(Q)))


def _alerts(found: Found, n: int, m: int, d: int) -> tuple[Alert, ...]:
    alerts = []
    if found.rank < d:
        alerts.append(Alert("directions_without_effect", {"directions": d - found.rank, "of": d}))
    if not found.complete:
        alerts.append(Alert("jacobian_rows_sampled", {"rows": found.rows, "of": n * m}))
    if n == 1:
        alerts.append(Alert("one_point_of_jacobian"))
    return tuple(alerts)
