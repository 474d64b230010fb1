"""Files that `deconfound` writes: corrected tables for scanpy and pycytominer, scores as a long table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import OutputError
from identifiable.api.transforming import component_name, result_dtype
from identifiable.blocks import Blocks
from identifiable.deconfounding.recommendation.candidates import AS_IS
from identifiable.groups import AffineMap
from identifiable.io.anndata_files import AnnDataFile
from identifiable.io.anndata_writing import Parts, extend_anndata, save_anndata
from identifiable.io.label_columns import is_metadata
from identifiable.io.saving import save_table
from identifiable.results import FoldScore, ScreenEvaluation

if TYPE_CHECKING:
    from identifiable.api.screening import Cleaned, Recommended, Screen

ANNDATA = ".h5ad"
TABLES = (".parquet", ".csv")
TOOL = "identifiable"  # the key of `uns`
CORRECTED = "corrected"  # the layer, and `X_corrected` of `obsm`


@dataclass(frozen=True)
class Saved:
    """A file that was written, and where in it the corrected values are, or the input, if nothing was corrected (`unchanged`)."""

    path: Path
    where: str
    unchanged: bool = False

    @property
    def said(self) -> str:
        """What is where, in a sentence."""
        what = "the input, unchanged, is" if self.unchanged else "corrected values are"
        return f"{self.path}: {what} in {self.where}"


def save_corrected(
    path: str | os.PathLike[str],
    opened: Screen,
    corrected: Blocks,
    *,
    record: Mapping[str, Any],
    feature_names: Sequence[str] | None = None,
    pycytominer: bool = False,
) -> Saved:
    """Write a corrected screen, whole or not at all, as pycytominer and scanpy expect it.

    A `.parquet` or `.csv` has the metadata columns under their input names, then the corrected features: under their input names
    where there are as many, otherwise as `feature_0`, …, unless `feature_names` says what they are called.
    `pycytominer` puts ``Metadata_`` before metadata names that lack it.

    An `.h5ad` has the original values in `X`, untouched, and everything else the input file had. The corrected values are in
    ``layers["corrected"]`` if they have the columns of `X`, otherwise in ``obsm["X_corrected"]``; ``uns["identifiable"]`` is `record`.
    """
    path = Path(path)
    table = opened.representation
    if feature_names is None and corrected.d == table.d:
        feature_names = opened.feature_names
    if _suffix(path) != ANNDATA:
        save_table(path, corrected, table.labels, ids=table.ids, feature_names=feature_names, pycytominer=pycytominer)
        return Saved(path, "the feature columns")
    of_input = tuple(feature_names or ()) == opened.feature_names
    if of_input and not (_is_anndata(opened) and table.columns is None):  # columns of an obsm key are not those of X
        _write_anndata(path, opened, layers={CORRECTED: corrected}, uns={TOOL: record})
        return Saved(path, f"layers[{CORRECTED!r}]")
    _write_anndata(path, opened, obsm={f"X_{CORRECTED}": corrected}, uns={TOOL: record})
    return Saved(path, f"obsm['X_{CORRECTED}']")


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (ANNDATA, *TABLES):
        raise OutputError(
            f"{path}: cannot write {suffix or 'a file without a suffix'}; choose .h5ad, .parquet or .csv."
        )
    return suffix


def _is_anndata(opened: Screen) -> bool:
    """Whether the screen has all rows of an `.h5ad`, whose other parts then go along."""
    return opened.path is not None and opened.path.suffix.lower() == ANNDATA


def _write_anndata(
    path: Path, opened: Screen, obs: Mapping[str, NDArray[Any]] | None = None, **parts: Unpack[Parts]
) -> None:
    """A copy of the `.h5ad` that the screen came from, or a new one with the screen as `X`, with `obs` and `parts` added."""
    table, obs = opened.representation, obs or {}
    if opened.path is None or not _is_anndata(opened):
        labels = {**table.labels, **obs}
        save_anndata(path, opened.blocks, labels, ids=table.ids, feature_names=opened.feature_names, **parts)
        return
    held = AnnDataFile(opened.path).columns
    joined = {name: column for name, column in table.labels.items() if name not in held}  # from another file
    extend_anndata(opened.path, path, obs={**joined, **obs}, **parts)


def save_recommended(path: str | os.PathLike[str], recommended: Recommended, *, pycytominer: bool = False) -> Saved:
    """Write the table that a recommendation says, as `save_corrected` does: corrected, or as it came (verdict "keep-as-is").

    A column of metadata, `correction` or `Metadata_correction`, names what was done: "as-is" is the input.
    """
    opened, result = recommended.screen, recommended.result
    table = opened.representation
    name = "Metadata_correction" if any(is_metadata(label) for label in table.labels) else "correction"
    said = np.full(table.n, result.written)
    labelled = replace(opened, representation=replace(table, labels={**table.labels, name: said}))
    rows = recommended.corrected
    corrected = Blocks(_Rounded(rows, result_dtype(None, opened.blocks)), name=rows.name)
    record = recommended_record(recommended)
    saved = save_corrected(path, labelled, corrected, record=record, pycytominer=pycytominer)
    return replace(saved, unchanged=result.written == AS_IS)


def recommended_record(recommended: Recommended) -> Mapping[str, Any]:
    """What a reader of the corrected table needs to know."""
    result = recommended.result
    return {
        "version": result.provenance.version,
        "command": result.provenance.command,
        "seed": result.provenance.seed,
        "input_sha256": result.inputs[0].sha256,
        "correction": result.written,
        "verdict": result.verdict,
        "margin": result.margin,
        "headline": result.headline,
    }


def save_cleaned(
    path: str | os.PathLike[str],
    cleaned: Cleaned,
    *,
    pycytominer: bool = False,
    components: bool = False,
    force: bool = False,
) -> Saved:
    """Write a cleaned screen, whole or not at all: features under their names, as `save_corrected` does.

    A table that is worse than the input, or not shown to be as good (`Cleaning.harmless`), is written only with `force`.

    With `components` the components that were kept are written instead: as columns of a `.parquet` or `.csv`; in an `.h5ad` as
    `obsm["X_ica_clean"]`, beside `["X_pca_white"]`, `["X_ica"]` and `["X_rand"]` (one random rotation, to compare with).
    """
    path, opened, result = Path(path), cleaned.screen, cleaned.result
    if not (result.harmless or force):
        raise OutputError(
            f"{path}: not written, because the verdict is {result.verdict}; use the input, or pass force=True."
        )
    if not components:
        record = cleaned_record(cleaned)
        return save_corrected(path, opened, cleaned_rows(cleaned), record=record, pycytominer=pycytominer)
    kept = cleaned.components
    if not kept.result.components:
        raise OutputError(
            f"{path}: all {len(result.weights)} components were dropped, so there is none to write; write features."
        )
    if _suffix(path) == ANNDATA:
        return _save_anndata(path, cleaned)
    names = [component_name(c.index) for c in kept.result.components]
    values = _through(opened, kept.to_components)
    return save_corrected(path, opened, values, record={}, feature_names=names, pycytominer=pycytominer)


def _save_anndata(path: Path, cleaned: Cleaned) -> Saved:
    opened, found = cleaned.screen, cleaned.resolved
    spaces = cleaned.spaces
    obsm = {f"X_{name}": _through(opened, by) for name, by in spaces.items()}
    varm = {
        "PCs": spaces["pca_white"].matrix,
        "ica_unmixing": spaces["ica"].matrix,
        "ica_mixing": found.from_components.matrix.T,
    }
    uns = {TOOL: cleaned_record(cleaned)}
    design = opened.design
    obs: dict[str, NDArray[Any]] = {"plate_id": design.plate.text(), "is_control": design.control}
    obs["guide"] = design.perturbation.text()
    if design.row is not None and design.column is not None:
        obs |= {"well_row": design.row, "well_col": design.column}
    _write_anndata(path, opened, obs, obsm=obsm, varm=varm, uns=uns)
    return Saved(path, "obsm['X_ica_clean']")


def cleaned_record(cleaned: Cleaned) -> Mapping[str, Any]:
    """What a reader of the `.h5ad` needs to know and to do it again."""
    result, found = cleaned.result, cleaned.resolved.result
    return {
        "version": result.provenance.version,
        "libraries": dict(result.provenance.libraries),
        "command": result.provenance.command,
        "seed": result.provenance.seed,
        "input_sha256": result.inputs[0].sha256,
        "converged": found.converged,
        "passes": found.passes,
        "method": result.method,
        "budget": result.budget,
        "weights": np.array(result.weights),
        "removed": np.array(result.removed, dtype=np.int64),
        "components": {
            "role": np.array([card.role for card in result.attribution.components]),
            "technical": np.array([card.technical for card in result.attribution.components]),
            "biological": np.array([card.biological for card in result.attribution.components]),
            "identifiable": np.array([c.identifiable for c in found.components]),
            "kurtosis": np.array([c.kurtosis for c in found.components]),
        },
        "metrics": {
            "metric": np.array([m.metric for m in result.metrics]),
            "space": np.array([m.space for m in result.metrics]),
            "value": np.array([m.value for m in result.metrics]),
        },
        "checks": {
            "metric": np.array([c.metric for c in result.checks]),
            "held_out": np.array([c.held_out for c in result.checks]),
            "scaled": np.array([c.scaled for c in result.checks]),
            "input": np.array([c.input for c in result.checks]),
            "cleaned": np.array([c.cleaned for c in result.checks]),
        },
        "verdict": result.verdict,
        "headline": result.headline,
    }


def cleaned_rows(cleaned: Cleaned) -> Blocks:
    """The features of the screen without the components that were removed."""
    return _through(cleaned.screen, cleaned.basis.map)


def _through(opened: Screen, by: AffineMap) -> Blocks:
    """Rows of the screen after a map, in the precision of its table, computed as they are written."""
    dtype = result_dtype(None, opened.blocks)
    return Blocks(_Rounded(opened.blocks.through(by.apply, by.matrix.shape[1]), dtype), name=opened.representation.name)


class _Rounded:
    """Rows of a table rounded to another type. A `blocks.Rows`."""

    def __init__(self, source: Blocks, dtype: np.dtype[Any]):
        self.source, self.shape, self.dtype = source, source.shape, dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.source[rows].astype(self.dtype)


def save_scores(path: str | os.PathLike[str], result: ScreenEvaluation) -> Path:
    """The long table of an evaluation: a line for each classifier that was trained (`.csv` or `.parquet`)."""
    names = [f.name for f in fields(FoldScore)]
    columns = {name: np.array([getattr(score, name) for score in result.scores]) for name in names}
    figures = [name for name, column in columns.items() if column.dtype.kind == "f"]
    values = np.column_stack([columns[name] for name in figures])
    words = {name: column for name, column in columns.items() if name not in figures}
    return save_table(path, Blocks(values, name="scores"), words, feature_names=figures)
