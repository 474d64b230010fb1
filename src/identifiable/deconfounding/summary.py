"""Roles and counts of a screen, as shown before any fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identifiable.deconfounding.columns import labels_of
from identifiable.deconfounding.design import Design, Labels
from identifiable.results import Role, ScreenDesign

EXAMPLES = 3


def summarise(design: Design, d: int) -> ScreenDesign:
    """The roles of a design and how many rows play them; `d` is the width of the embedding."""
    treated = ~design.control
    controls = np.bincount(design.plate.codes[design.control], minlength=design.plate.size)
    perturbations = design.perturbation.take(treated)
    return ScreenDesign(
        n=design.n,
        d=d,
        roles=tuple(_roles(design)),
        batches=None if design.batch is None else design.batch.size,
        plates=design.plate.size,
        perturbations=perturbations.size,
        targets=None if design.target is None else design.target.take(treated).size,
        controls=int(design.control.sum()),
        wells_per_plate=_range(design.plate.counts),
        controls_per_plate=_range(controls),
        wells_per_perturbation=_range(perturbations.counts),
        grid=None
        if design.row is None or design.column is None
        else (len(np.unique(design.row)), len(np.unique(design.column))),
    )


def _roles(design: Design) -> list[Role]:
    labels = {
        "batch": design.batch,
        "plate": design.plate,
        "well": design.address,
        "perturbation": design.perturbation,
        "target": design.target,
        "control": design.perturbation.take(design.control),
        "cell_count": None if design.cell_count is None else labels_of(design.cell_count),
    }
    return [
        Role(role, design.roles.get(role, ""), found.size, _frequent(found))
        for role, found in labels.items()
        if found is not None
    ]


def _frequent(labels: Labels) -> tuple[str, ...]:
    return tuple(labels.names[k] for k in np.argsort(-labels.counts, kind="stable")[:EXAMPLES])


def _range(counts: NDArray[np.intp]) -> tuple[int, float, int]:
    return int(counts.min()), float(np.median(counts)), int(counts.max())
