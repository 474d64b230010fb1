"""Screens: tables of wells are opened, roles assigned to their columns, then `deconfounding` does the work."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from identifiable._checks import DataError, PairingError, UsageError
from identifiable.api.opening import is_path
from identifiable.api.transforming import as_basis, not_checked, places
from identifiable.blocks import Blocks, Progress
from identifiable.deconfounding import Design
from identifiable.deconfounding.audit import auditing
from identifiable.deconfounding.audit.auditing import audit as audit_design
from identifiable.deconfounding.components import attributing, cleaning
from identifiable.deconfounding.components.attributing import attribute as attribute_components
from identifiable.deconfounding.components.cleaning import clean as clean_components
from identifiable.deconfounding.components.cleaning import cleaned_basis
from identifiable.deconfounding.design import pairs_of, summarise
from identifiable.deconfounding.evaluation import options as evaluation
from identifiable.deconfounding.evaluation.evaluating import evaluate as evaluate_representations
from identifiable.deconfounding.roles import RoleOptions, assign_roles
from identifiable.deconfounding.run import Run
from identifiable.ica import Resolved
from identifiable.ica import resolve as resolve_components
from identifiable.intake import blocks_of, default_provenance, inputs_of
from identifiable.io import read_pairs
from identifiable.io.kept_arrays import KeptArrays
from identifiable.io.screens import OpenedScreen, open_screen, screen_of_anndata, screen_of_array, screen_of_frame
from identifiable.options import (
    AttributeOptions,
    AuditOptions,
    CleanOptions,
    EvaluateOptions,
    ResolveOptions,
    ScreenOptions,
    declared,
    takes,
)
from identifiable.options.running import Threaded
from identifiable.representation import Representation
from identifiable.results import Alert, Attribution, Audit, Cleaning, Input, ScreenDesign, ScreenEvaluation

Path_ = str | os.PathLike[str]


class Roles(TypedDict, total=False):
    """How the columns of a table are told apart; see `screen`."""

    metadata: Any
    ids: str | None
    features: Sequence[str] | None
    use_rep: str
    preset: str | None
    batch: str | None
    plate: str | None
    well: str | None
    perturbation: str | None
    target: str | None
    control: str | None
    cell_count: str | None
    batch_key: str | None


@dataclass(frozen=True, eq=False)
class Screen:
    """Embeddings of wells with the roles of their rows: what every call of `deconfound` begins with.

    `alerts` say what was assumed or dropped on the way. `path` is the file whose rows, all of them, it has; None if there is none.
    """

    representation: Representation
    design: Design
    alerts: tuple[Alert, ...]
    feature_names: tuple[str, ...]
    path: Path | None = None

    @property
    def blocks(self) -> Blocks:
        return blocks_of(self.representation)

    @property
    def summary(self) -> ScreenDesign:
        """Which column plays which role, and how much there is of everything."""
        return summarise(self.design, self.blocks.d)

    def inputs(self, *, workers: int | None = None, progress: Progress | None = None) -> tuple[Input, ...]:
        """The table by name, shape and content."""
        return inputs_of([self.representation], workers=workers, progress=progress)

    def __repr__(self) -> str:
        design = self.design
        perturbations = len(np.unique(design.perturbation.codes[~design.control]))
        return (
            f"<Screen {self.representation.name}: {design.n} wells on {design.plate.size} plates, "
            f"{perturbations} perturbations, {int(design.control.sum())} controls>"
        )


def screen(source: Any, **roles: Unpack[Roles]) -> Screen:
    """A table of wells with the role of every row.

    Parameters
    ----------
    source
        A path (`.parquet`, `.csv`, `.h5ad`, or `.npy` and the like with `metadata`), a pandas DataFrame, an AnnData object,
        or an array with `metadata` a mapping of columns or a DataFrame.
    metadata
        A second table with the columns of the same wells, joined on `ids` where both have them.
    ids, features, use_rep
        The column of ids; names or patterns of the columns of the embedding; of AnnData `X` or a key of `obsm`.
    preset
        `rxrx3-core`, `jump`, `pycytominer` or `anndata`: which columns play which role, by the habits of these data sets.
    batch, plate, well, perturbation, target, cell_count
        Columns; several joined with commas make one label. Without them they are looked for by their usual names.
    control
        Which rows are negative controls: a perturbation or a pattern (``*DMSO*``), ``column=value``, or a column of 0 and 1.
    batch_key
        ``"plate"``: numbers of plates that repeat from batch to batch do mean one plate.

    >>> rng = np.random.default_rng(0)
    >>> columns = {"plate": np.repeat(["p1", "p2"], 6), "well": ["A01", "A02", "B01", "B02", "C01", "C02"] * 2,
    ...            "treatment": ["DMSO", "x", "DMSO", "y", "DMSO", "x"] * 2}
    >>> screen(rng.standard_normal((12, 3)), metadata=columns, control="DMSO")
    <Screen array: 12 wells on 2 plates, 2 perturbations, 6 controls>
    """
    unknown = [name for name in roles if name not in Roles.__annotations__]
    if unknown:
        close = difflib.get_close_matches(unknown[0], Roles.__annotations__, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(Roles.__annotations__)}."
        raise UsageError(f"{unknown[0]}: no such option of a screen; {hint}")
    if isinstance(source, Screen):
        if roles:
            raise UsageError(f"{', '.join(roles)}: this screen has its roles already; give them to screen().")
        return source
    opened = _opened(source, roles)
    table = opened.representation
    given: Mapping[str, Any] = roles
    asked = RoleOptions(**{each.name: given.get(each.name) for each in fields(RoleOptions)})
    assigned = assign_roles(table.labels, asked, name=table.name)
    path = None if opened.dropped_values else opened.path
    return Screen(table, assigned.design, (*_dropped(opened), *assigned.alerts), opened.feature_names, path)


@takes(AuditOptions)
def audit(source: Any, /, *, options: AuditOptions) -> Audit:
    """What the design of a screen allows one to conclude, before anything is fitted.

    Ours. Roles and counts, how well position and plate alone predict perturbations, batches confounded with them, degenerate
    folds, Gaussianised or duplicated features; a verdict in one sentence. Takes a `Screen`, or what `screen` takes.
    """
    opened = _screened(source, options)
    return audit_design(
        opened.blocks, opened.design, options.shared(auditing.AuditOptions), _run(opened, options, "audit")
    )


@takes(EvaluateOptions)
def evaluate(source: Any, /, *, options: EvaluateOptions) -> ScreenEvaluation:
    """Do representations of a screen separate perturbations from controls on plates never seen, and is ICA's gain real?

    Implements the evaluation of section 4.4 of Nelson et al. (2026) with `protocol="paper"`; its gaps are filled by choices of
    ours, which the result names. Ours: transforms fitted on training plates only (the default), position-only and plate-only
    baselines, the linear probe, null perturbations, paired intervals over plates, sparsity beside its null, and the verdict.
    Takes a `Screen`, or what `screen` takes.
    """
    opened = _screened(source, options)
    given = {}
    if options.basis is not None:
        found, opened = _basis(options.basis, opened)
        given = {"given": found.to_components}
    asked = replace(options.shared(evaluation.EvaluateOptions), given=given)
    run = _run(opened, options, "evaluate")
    store = None
    if options.checkpoint is not None:
        fingerprint = _fingerprint(opened, tuple(run.inputs), options.rank, options.seed)
        store = KeptArrays(options.checkpoint, fingerprint)
    return evaluate_representations(opened.blocks, opened.design, asked, run, store=store)


@dataclass(frozen=True, eq=False)
class Attributed:
    """What `attribute` found, and the basis whose components it speaks of."""

    result: Attribution
    resolved: Resolved

    def __repr__(self) -> str:
        return f"<Attributed: {self.result.headline}>"


@takes(AttributeOptions)
def attribute(source: Any, /, *, options: AttributeOptions) -> Attributed:
    """What every component of a screen contains information about: batch, plate, position, cell count, or perturbations.

    Ours. Shares of variance are cross-validated; technical ones are measured on control wells, biological ones within plates and
    replicated on plates held out. Without a `basis` the screen is resolved, with refits on halves of its plates. Takes a `Screen`,
    or what `screen` takes.
    """
    return _attributed(_screened(source, options), options, "attribute")[0]


def _attributed(opened: Screen, options: AttributeOptions, call: str) -> tuple[Attributed, Screen]:
    if options.basis is None:
        found = _resolved(opened, options)
    else:
        found, opened = _basis(options.basis, opened)
    asked, run = options.shared(attributing.AttributeOptions), _run(opened, options, call)
    return Attributed(attribute_components(found, opened.blocks, opened.design, asked, run), found), opened


@dataclass(frozen=True, eq=False)
class Cleaned:
    """A cleaned screen: what `clean` found, the basis that was resolved, and the cleaning itself as a basis.

    `basis` maps rows of the same model to the components that were kept (weighted, if shrunk); it needs no batch label, so new
    plates need no refit: ``identifiable.transform(cleaned.basis, new_rows)``.
    """

    result: Cleaning
    resolved: Resolved
    basis: Resolved
    screen: Screen

    def __repr__(self) -> str:
        return f"<Cleaned: {self.result.headline}>"


@takes(CleanOptions)
def clean(source: Any, /, *, options: CleanOptions) -> Cleaned:
    """A screen without its technical components, and what that costs, beside PCA and random axes with as many removed.

    Ours. Takes a `Screen`, or what `screen` takes. With `relations`, how many of the known pairs are among the most alike or the most
    opposed of all pairs, in every space.
    """
    asked = replace(options.shared(cleaning.CleanOptions), relations=_relations(options.relations))
    attributed, opened = _attributed(_screened(source, options), options, "clean")
    found, run = attributed.resolved, _run(opened, options, "clean", attributed.result.inputs)
    result = clean_components(found, opened.blocks, opened.design, attributed.result, asked, run)
    return Cleaned(result, found, cleaned_basis(found, result.weights), opened)


def _screened(source: Any, options: ScreenOptions) -> Screen:
    """The screen, opened by the roles that are given; one that is open has its roles already."""
    given = {each.name: getattr(options, each.name) for each in declared(ScreenOptions)}
    unsaid = {each.name for each in declared(ScreenOptions) if given[each.name] is each.default}
    return screen(source, **{name: value for name, value in given.items() if name not in unsaid})


def _run(opened: Screen, options: Threaded, call: str, inputs: tuple[Input, ...] | None = None) -> Run:
    known = opened.inputs(workers=options.workers, progress=options.progress) if inputs is None else inputs
    record = default_provenance(options.seed, options.command or f"identifiable.deconfound.{call}(...)")
    return Run(options.seed, options.workers, options.progress, known, record, opened.alerts)


def _relations(given: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of names, before anything is fitted: from a file, a DataFrame, or pairs."""
    if is_path(given):
        found = pairs_of(*read_pairs(given))
        if not found:
            raise DataError(f"{given}: expected pairs of names, found none.")
        return found
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        if len(given.columns) < 2:
            raise UsageError(f"relations: expected two columns of names, got {len(given.columns)}.")
        return pairs_of(given.iloc[:, 0].to_numpy(), given.iloc[:, 1].to_numpy())
    pairs = list(given)
    if odd := next((pair for pair in pairs if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2), None):
        raise UsageError(f"relations: expected pairs of two names each, got {odd!r}.")
    if not pairs:
        return ()
    return pairs_of(*(np.array([str(pair[k]) for pair in pairs]) for k in range(2)))


def _resolved(opened: Screen, options: AttributeOptions) -> Resolved:
    """The screen resolved, its refits on halves of the plates."""
    asked = replace(options.shared(ResolveOptions), group_by=opened.design.plate.codes, ids=None, command="")
    return resolve_components(opened.representation, asked, group_by_name="plate")


def _basis(basis: Path_ | Resolved, opened: Screen) -> tuple[Resolved, Screen]:
    """A basis in the order of the columns of the screen, by name; and the screen, with an alert where this cannot be checked."""
    found = as_basis(basis)
    wanted = found.to_components.matrix.shape[0]
    if wanted != opened.representation.d:
        raise PairingError(
            f"{opened.representation.name}: expected {wanted} columns, as {found.result.inputs[0].name} had when the basis was "
            f"fitted, got {opened.representation.d}."
        )
    known, given = found.columns, opened.representation.columns
    if known == given:
        return found, opened
    order = places(known, given, opened.representation.name)
    if order is None:
        alert = not_checked(opened.representation.name, found)
        return found, replace(opened, alerts=tuple(dict.fromkeys((*opened.alerts, alert))))
    return found.arranged(np.argsort(order).tolist()), opened


def _fingerprint(opened: Screen, inputs: tuple[Input, ...], rank: Any, seed: int) -> str:
    """What kept parts depend on besides their names: the rows, their roles, and what transforms are fitted with."""
    design = opened.design
    digest = hashlib.sha256(f"{inputs[0].sha256};{rank};{seed}".encode())
    for labels in (design.plate, design.perturbation, design.batch, design.target):
        digest.update(b"-" if labels is None else labels.text().tobytes())
    digest.update(design.control.tobytes())
    return digest.hexdigest()


def _opened(source: Any, roles: Roles) -> OpenedScreen:
    """The table of a source of any kind, with its columns of metadata as labels."""
    metadata, ids, features = roles.get("metadata"), roles.get("ids"), roles.get("features")
    if is_path(source):
        return open_screen(source, metadata=metadata, ids=ids, features=features)
    if hasattr(source, "obs") and hasattr(source, "obsm"):
        return screen_of_anndata(source, use_rep=roles.get("use_rep", "X"), metadata=metadata, ids=ids)
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return screen_of_frame(source, features, metadata=metadata, ids=ids)
    if metadata is None and not getattr(source, "labels", None):
        raise UsageError(
            "an array says nothing about wells; pass metadata: a path, or a mapping or DataFrame with a column for each role."
        )
    return screen_of_array(
        source if isinstance(source, Blocks | Representation) else np.asarray(source), metadata=metadata, ids=ids
    )


def _dropped(opened: OpenedScreen) -> list[Alert]:
    """What did not find a partner when the table and its metadata were joined, and other notes."""
    found = []
    if opened.dropped_values or opened.dropped_metadata:
        found.append(
            Alert(
                "rows_dropped",
                {
                    "name": opened.representation.name,
                    "rows": opened.dropped_values,
                    "metadata": opened.dropped_metadata,
                },
            )
        )
    return [*found, *opened.notes]
