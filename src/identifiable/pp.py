"""Corrections of AnnData objects, as scverse tools have them: ``identifiable.pp.sphering(adata, control="DMSO")``.

Every function reads `X` or ``use_rep``, takes the roles of wells from `obs`, and writes the corrected rows to ``obsm["X_corrected"]``
(``key_added``: another key, or ``layers/NAME``) and what was done to ``uns["identifiable"]``. What was under that key before is
replaced without a warning, as scanpy does. `X` is not changed: tell the tools that follow, as in
``sc.pp.neighbors(adata, use_rep="X_corrected")``. With ``copy=True`` the object stays as it is and a corrected copy is returned.
scanpy is not needed.

>>> from types import SimpleNamespace
>>> import numpy as np, pandas as pd
>>> obs = pd.DataFrame({"plate": ["p1"] * 4 + ["p2"] * 4, "treatment": ["DMSO", "DMSO", "DMSO", "x"] * 2}, index=list("abcdefgh"))
>>> adata = SimpleNamespace(X=np.arange(8.0)[:, None] ** 2, obs=obs, obs_names=obs.index, var_names=["f"], obsm={}, layers={}, uns={})
>>> control_z(adata, control="DMSO", well="none")
>>> adata.obsm["X_corrected"].ravel().round(2)
array([-0.98, -0.39,  1.37,  4.31, -1.18, -0.08,  1.26,  2.85])
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from identifiable import __version__
from identifiable._checks import DataError, DataWarning, OutputError
from identifiable.api import screening
from identifiable.api.screen_files import cleaned_record, cleaned_rows, recommended_record
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CorrectionOptions, fit_correction
from identifiable.io.anndata_writing import TOOL, storable
from identifiable.options import (
    CleanOptions,
    CorrectOptions,
    CountOptions,
    GroupedOptions,
    HarmonyOptions,
    PlacedCleanOptions,
    PlacedRecommendOptions,
    PositionOptions,
    RecommendOptions,
    ScreenOptions,
    SpheringOptions,
    TvnOptions,
    takes,
)
from identifiable.options.screens import Placed
from identifiable.run import Run

__all__ = [
    "clean",
    "combat",
    "control_mad",
    "control_z",
    "count_regressed",
    "harmony",
    "pca_cs",
    "position_subtracted",
    "recommend",
    "sphering",
    "tvn",
]


@takes(PlacedRecommendOptions)
def recommend(adata: Any, /, *, options: PlacedRecommendOptions) -> Any:
    """The table that `identifiable.deconfound.recommend` says: corrected, or as it is; the record has its verdict."""
    found = screening.recommend(adata, **vars(options.shared(RecommendOptions)))
    return _placed(adata, found.corrected, recommended_record(found), options)


@takes(PlacedCleanOptions)
def clean(adata: Any, /, *, options: PlacedCleanOptions) -> Any:
    """The features without technical components, as `identifiable.deconfound.clean` finds them; the record has its verdict.

    Nothing is added where cleaning is not shown to be harmless, unless `force` is set.
    """
    found = screening.clean(adata, **vars(options.shared(CleanOptions)))
    if not (found.result.harmless or options.force):
        raise OutputError(
            f"{options.key_added}: not added, because the verdict is {found.result.verdict}; use the input, or pass force=True."
        )
    return _placed(adata, cleaned_rows(found), cleaned_record(found), options)


@takes(GroupedOptions)
def control_z(adata: Any, /, *, options: GroupedOptions) -> Any:
    """Z-score of every plate or batch by the mean and standard deviation of its negative controls."""
    return _corrected(adata, "control-z", options)


@takes(GroupedOptions)
def control_mad(adata: Any, /, *, options: GroupedOptions) -> Any:
    """As `control_z`, by the median and the median absolute deviation."""
    return _corrected(adata, "control-mad", options)


@takes(SpheringOptions)
def sphering(adata: Any, /, *, options: SpheringOptions) -> Any:
    """Columns turned and scaled so that the negative controls have the identity as covariance (ZCA), up to a ridge."""
    return _corrected(adata, "sphering", options)


@takes(TvnOptions)
def tvn(adata: Any, /, *, options: TvnOptions) -> Any:
    """Typical variation normalisation: whitened by the controls, then the controls of each batch are aligned."""
    return _corrected(adata, "tvn", options)


@takes(GroupedOptions)
def combat(adata: Any, /, *, options: GroupedOptions) -> Any:
    """Shift and scale of each batch, estimated by empirical Bayes (ComBat) and removed."""
    return _corrected(adata, "combat", options)


@takes(HarmonyOptions)
def harmony(adata: Any, /, *, options: HarmonyOptions) -> Any:
    """Harmony on the leading principal components of z-scored columns."""
    return _corrected(adata, "harmony", options)


@takes(GroupedOptions)
def pca_cs(adata: Any, /, *, options: GroupedOptions) -> Any:
    """White principal components, each batch scaled by its controls."""
    return _corrected(adata, "pca-cs", options)


@takes(PositionOptions)
def position_subtracted(adata: Any, /, *, options: PositionOptions) -> Any:
    """The mean of every well position over plates, subtracted."""
    return _corrected(adata, "position-subtracted", options)


@takes(CountOptions)
def count_regressed(adata: Any, /, *, options: CountOptions) -> Any:
    """The linear effect of the cell count, subtracted."""
    return _corrected(adata, "count-regressed", options)


def _corrected(adata: Any, name: str, options: CorrectOptions) -> Any:
    opened = screening.screen(adata, **vars(options.shared(ScreenOptions)))
    told = {f.name for f in fields(CorrectionOptions)} & {f.name for f in fields(options)}
    asked = CorrectionOptions(**{name: getattr(options, name) for name in told})
    found = fit_correction(name, opened.blocks, opened.design, asked, Run.of(options))
    for alert in found.alerts:
        warnings.warn(f"{alert.code}: {alert.message}", DataWarning, stacklevel=4)
    record = {
        "correction": name,
        "settings": options.settings(),
        "roles": {role.role: role.column for role in opened.summary.roles},
        "notes": [note.message for note in found.notes],
        "version": __version__,
    }
    return _placed(adata, found.table(opened.blocks), record, options)


def _placed(adata: Any, rows: Blocks, record: Mapping[str, Any], options: Placed) -> Any:
    """Put corrected rows and their record into the object, or into a copy, which is returned."""
    if rows.n != len(adata.obs):
        raise DataError(
            f"adata: {rows.n} of {len(adata.obs)} observations have all that is needed; name the perturbation of the others "
            "(obs, metadata), impute missing values, or subset the object first."
        )
    of_layer = options.key_added.removeprefix("layers/")
    layered = of_layer != options.key_added
    if layered and rows.d != len(adata.var_names):
        raise DataError(
            f"{options.key_added}: a layer has the {len(adata.var_names)} columns of X, the corrected rows have {rows.d}; "
            "use a key of obsm."
        )
    target = adata.copy() if options.copy else adata
    place = target.layers if layered else target.obsm
    place[of_layer.removeprefix("obsm/")] = rows[: rows.n]
    target.uns[TOOL] = {**target.uns.get(TOOL, {}), options.key_added.replace("/", "_"): storable(record)}
    return target if options.copy else None
