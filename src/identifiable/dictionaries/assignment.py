"""One-to-one assignment of unit vectors by cosine: exact where the matrix of cosines fits, else from the best candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import best_assignment
from identifiable.run import PLAIN, Run

Float32 = NDArray[np.float32]
Index = NDArray[np.intp]
Solver = Literal["hungarian", "sparse"]

EXACT = 4096  # features on either side (geometric mean) up to which the Hungarian method sees every cosine: 2 s


class FromCandidates(NamedTuple):
    """What the candidates of large dictionaries give: partners, the two largest scores of every feature of A, whose the first is."""

    partner: Index
    best: Float32
    second: Float32
    nearest: Index
    best_back: Float32


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which feature of B each feature of A is matched with (-1 for none), by cosine or, `signed` or not, its absolute value.

    `cosine` keeps its sign; it is 0 where there is no partner. `margin` is what the partner is nearer than the nearest other
    feature of B, and below 0 where another is nearer. `best` and `best_back` are the largest cosine (absolute unless `signed`) of
    every feature of A and of B, one to one or not.
    """

    partner: Index
    cosine: Float32
    margin: Float32
    best: Float32
    best_back: Float32
    signed: bool
    solver: Solver

    @property
    def scored(self) -> Float32:
        """The score of every feature of A; 0 where there is no partner."""
        scores: Float32 = self.cosine if self.signed else np.abs(self.cosine)
        return scores

    @property
    def size(self) -> Float32:
        """The score of every match, in order of the features of A."""
        return self.scored[self.partner >= 0]


def assign(
    A: Float32, B: Float32, run: Run = PLAIN, *, exact: int = EXACT, conventions: tuple[bool, ...] = (True, False)
) -> list[Assignment]:
    """The assignment of rows of A to rows of B (unit vectors) with the largest mean cosine; by absolute cosine where not `signed`.

    Implements PW-MCC's assignment (Hungarian on cosines). Ours: above `exact` features on either side (geometric mean), the
    assignment is the best among each feature's 20 nearest partners, seen from A and from B; features that this leaves
    without a partner are matched among themselves. On random dictionaries that is within 0.001 of the exact mean.

    >>> one, other = np.eye(3, dtype=np.float32), -np.eye(3, dtype=np.float32)[[2, 0, 1]]
    >>> assign(one, other)[1].partner
    array([1, 2, 0])
    """
    if len(A) * len(B) <= exact**2:
        cosines = A @ B.T
        return [_exact(cosines, signed) for signed in conventions]
    from identifiable.dictionaries.candidates import from_candidates  # here: it compiles

    return [
        _nearly(A, B, each, signed)
        for each, signed in zip(from_candidates(A, B, conventions, run), conventions, strict=True)
    ]


def _exact(cosines: Float32, signed: bool) -> Assignment:
    score = cosines if signed else np.abs(cosines)
    partner = best_assignment(score)
    second = np.partition(score, -2, axis=1)[:, -2] if score.shape[1] > 1 else np.full(len(score), -np.inf, np.float32)
    return _assigned(
        partner, _picked(cosines, partner), score.max(axis=1), second, score.max(axis=0), signed, "hungarian"
    )


def _picked(cosines: Float32, partner: Index) -> Float32:
    found: Float32 = np.where(partner >= 0, cosines[np.arange(len(partner)), partner], np.float32(0))
    return found


def _assigned(
    partner: Index, cosine: Float32, best: Float32, second: Float32, back: Float32, signed: bool, solver: Solver
) -> Assignment:
    size = cosine if signed else np.abs(cosine)
    other = np.where(size >= best, second, best)  # the nearest one that is not the partner
    margin = np.where(partner >= 0, size - other, np.float32(np.nan))
    return Assignment(partner, cosine, margin, best, back, signed, solver)


def _nearly(A: Float32, B: Float32, found: FromCandidates, signed: bool) -> Assignment:
    cosine = np.where(found.partner >= 0, np.einsum("ij,ij->i", A, B[found.partner]), np.float32(0))
    same = found.nearest == found.partner  # then as it was computed before, to the last bit
    size = np.where(same, found.best, cosine if signed else np.abs(cosine))
    exact = size if signed else np.copysign(size, cosine)
    return _assigned(found.partner, exact, found.best, found.second, found.best_back, signed, "sparse")
