"""Screens: tables of wells are opened, roles assigned to their columns, then `deconfounding` does the work."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from identifiable._checks import DataError, PairingError, UsageError, as_array
from identifiable.api.opening import connected, is_path
from identifiable.api.transforming import as_basis, not_checked, places
from identifiable.blocks import Blocks
from identifiable.deconfounding.audit.auditing import audit as audit_design
from identifiable.deconfounding.components.attributing import attribute as attribute_components
from identifiable.deconfounding.components.cleaning import clean as clean_components
from identifiable.deconfounding.components.cleaning import cleaned_basis, cleaned_map, compared_spaces
from identifiable.deconfounding.components.resolving import reproducible_rank, screen_basis
from identifiable.deconfounding.corrections.tasks import Fit
from identifiable.deconfounding.design import Design, pairs_of, summarise
from identifiable.deconfounding.evaluation.evaluating import evaluate as evaluate_representations
from identifiable.deconfounding.feature_map import FeatureMap
from identifiable.deconfounding.presets import is_about_wells
from identifiable.deconfounding.recommendation.candidates import AS_IS, Stepped
from identifiable.deconfounding.recommendation.new_plates import kept_map
from identifiable.deconfounding.recommendation.recommending import recommend as recommend_correction
from identifiable.deconfounding.roles import assign_roles
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.intake import blocks_of, default_provenance, inputs_of
from identifiable.io import read_pairs
from identifiable.io.screens import (
    Gaps,
    OpenedScreen,
    open_screen,
    rows_of,
    screen_of_anndata,
    screen_of_array,
    screen_of_frame,
)
from identifiable.options import (
    AttributeOptions,
    AuditOptions,
    CleanOptions,
    EvaluateOptions,
    RecommendOptions,
    ScreenOptions,
    declared,
    takes,
)
from identifiable.options.running import Threaded
from identifiable.representation import Representation, as_frame, from_torch, is_frame
from identifiable.results import (
    Alert,
    Attribution,
    Audit,
    Cleaning,
    Holder,
    Input,
    Recommendation,
    ScreenDesign,
    ScreenEvaluation,
)
from identifiable.results.kept import KeptArrays
from identifiable.run import PLAIN, Run

Path_ = str | os.PathLike[str]


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

    def inputs(self, run: Run = PLAIN) -> tuple[Input, ...]:
        """The table by name, shape and content."""
        return inputs_of([self.representation], run)

    def __repr__(self) -> str:
        design = self.design
        perturbations = len(np.unique(design.perturbation.codes[~design.control]))
        return (
            f"<Screen {self.representation.name}: {design.n} wells on {design.plate.size} plates, "
            f"{perturbations} perturbations, {int(design.control.sum())} controls>"
        )


@takes(ScreenOptions)
def screen(source: Any, /, *, options: ScreenOptions) -> Screen:
    """A table of wells with the role of every row.

    `source` is a path (`.parquet`, `.csv`, `.h5ad`, or `.npy` and the like with `metadata`), a pandas DataFrame, an AnnData object,
    or an array with `metadata`, a mapping of columns or a DataFrame. Several columns joined with commas make one label.

    >>> rng = np.random.default_rng(0)
    >>> columns = {"plate": np.repeat(["p1", "p2"], 6), "well": ["A01", "A02", "B01", "B02", "C01", "C02"] * 2,
    ...            "treatment": ["DMSO", "x", "DMSO", "y", "DMSO", "x"] * 2}
    >>> screen(rng.standard_normal((12, 3)), metadata=columns, control="DMSO")
    <Screen array: 12 wells on 2 plates, 2 perturbations, 6 controls>
    """
    return _screened(source, options)


def _screened(source: Any, options: ScreenOptions) -> Screen:
    """The screen, opened by the roles that are given; one that is open has its roles already."""
    if isinstance(source, Screen):
        said = [each.name for each in declared(ScreenOptions) if getattr(options, each.name) is not each.default]
        if said:
            raise UsageError(f"{', '.join(said)}: this screen has its roles already; give them to screen().")
        return source
    opened = _opened(source, options)
    table = opened.representation
    assigned = assign_roles(table.labels, options, name=table.name)
    path = None if opened.dropped_values or assigned.rows is not None else opened.path
    table = table if assigned.rows is None else rows_of(table, assigned.rows)
    return Screen(table, assigned.design, (*_dropped(opened), *assigned.alerts), opened.feature_names, path)


@takes(AuditOptions)
def audit(source: Any, /, *, options: AuditOptions) -> Audit:
    """What the design of a screen allows one to conclude, before anything is fitted.

    Ours. Roles and counts, how well position and plate alone predict perturbations, batches confounded with them, degenerate
    folds, Gaussianised or duplicated features; a verdict in one sentence. Takes a `Screen`, or what `screen` takes.
    """
    opened = _screened(source, options)
    with connected(options.scheduler) as cluster:
        return audit_design(opened.blocks, opened.design, options, _run(opened, options, "audit", cluster))


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
    with connected(options.scheduler) as cluster:
        run = _run(opened, options, "evaluate", cluster)
        store = None
        if options.checkpoint is not None:
            fingerprint = _fingerprint(opened, tuple(run.inputs), options.rank, options.seed)
            store = KeptArrays(options.checkpoint, fingerprint)
        return evaluate_representations(opened.blocks, opened.design, options, run, given=given, store=store)


@dataclass(frozen=True, eq=False, repr=False)
class Attributed(Holder):
    """What `attribute` found, and the basis whose components it speaks of."""

    result: Attribution
    resolved: Resolved


@takes(AttributeOptions)
def attribute(source: Any, /, *, options: AttributeOptions) -> Attributed:
    """What every component of a screen contains information about: batch, plate, position, cell count, or perturbations.

    Ours. Shares of variance are cross-validated; technical ones are measured on control wells, biological ones within plates and
    replicated on plates held out. Without a `basis` the screen is resolved, with refits on halves of its plates. Takes a `Screen`,
    or what `screen` takes.
    """
    opened = _screened(source, options)
    with connected(options.scheduler) as cluster:
        return _attributed(opened, options, "attribute", cluster, look_elsewhere=True)[0]


def _attributed(
    opened: Screen, options: AttributeOptions, call: str, cluster: Any, *, look_elsewhere: bool = False
) -> tuple[Attributed, Screen]:
    opened, elsewhere = _doses_apart(opened), None
    if options.basis is None:
        run = _run(opened, options, call, cluster)
        found = screen_basis(opened.representation, opened.design, options, run)
        if look_elsewhere:
            elsewhere = reproducible_rank(opened.representation, opened.design, options, run, found)
    else:
        found, opened = _basis(options.basis, opened)
        run = _run(opened, options, call, cluster)
    result = attribute_components(found, opened.blocks, opened.design, options, run, elsewhere=elsewhere)
    return Attributed(result, found), opened


@dataclass(frozen=True, eq=False, repr=False)
class Cleaned(Holder):
    """A cleaned screen: what `clean` found, the basis that was resolved, and the cleaning itself as a map of features.

    `basis` maps features to the same features without the components that were removed; it needs no batch label, so new
    plates need no refit: ``identifiable.transform(cleaned.basis, new_rows)``.
    """

    result: Cleaning
    resolved: Resolved
    basis: FeatureMap
    screen: Screen

    @property
    def components(self) -> Resolved:
        """The basis of the components that were kept (weighted, if shrunk)."""
        return cleaned_basis(self.resolved, self.result.weights)

    @property
    def spaces(self) -> dict[str, AffineMap]:
        """The maps to the spaces that an `.h5ad` holds: PCA-white, all components, the cleaned ones, one random rotation."""
        return compared_spaces(self.resolved, self.components, self.result.provenance.seed)


@takes(CleanOptions)
def clean(source: Any, /, *, options: CleanOptions) -> Cleaned:
    """A screen without its technical components, and what that costs, beside PCA and random axes with as many removed.

    Ours. Takes a `Screen`, or what `screen` takes. With `relations`, how many of the known pairs are among the most alike or the most
    opposed of all pairs, in every space.
    """
    asked = replace(options, relations=_relations(options.relations))
    opened = _screened(source, options)
    with connected(options.scheduler) as cluster:
        attributed, opened = _attributed(opened, options, "clean", cluster)
        found, run = attributed.resolved, _run(opened, options, "clean", cluster, attributed.result.inputs)
        result = clean_components(found, opened.blocks, opened.design, attributed.result, asked, run)
    basis = FeatureMap(cleaned_map(found, result.weights), result, opened.representation.columns)
    return Cleaned(result, found, basis, opened)


@dataclass(frozen=True, eq=False, repr=False)
class Recommended(Holder):
    """A recommendation, the correction it is about fitted to all rows, and the screen it was made for.

    `basis` is the correction as `save_basis` keeps it and ``identifiable.transform(recommended.basis, new_rows)`` applies it to
    new plates; one that scales by controls needs those of the new plates, ComBat, Harmony and TVN cannot correct them.
    """

    result: Recommendation
    screen: Screen
    basis: FeatureMap
    fit: Fit

    @property
    def corrected(self) -> Blocks:
        """The corrected rows, computed as they are read; with the verdict "keep-as-is" the rows as they came."""
        if self.result.written == AS_IS:
            return self.screen.blocks
        blocks = self.screen.blocks
        return Blocks(Stepped(blocks, np.arange(blocks.n), self.fit.step, self.fit.width), name=blocks.name)


@takes(RecommendOptions)
def recommend(source: Any, /, *, options: RecommendOptions) -> Recommended:
    """Which correction helps a screen, chosen with whole batches held out; or to keep the table as it is.

    Ours. Candidates are control scaling, sphering, TVN, ComBat, Harmony, PCA and ICA cleaning. They are judged by neighbours across
    batches, consensus profiles, replicates and how readable the batch stays, all against the input. Takes a `Screen`, or what
    `screen` takes; doses of one compound are told apart where they are replicated.
    """
    opened = _doses_apart(_screened(source, options))
    with connected(options.scheduler) as cluster:
        run = _run(opened, options, "recommend", cluster)
        found = recommend_correction(opened.blocks, opened.design, options, run)
    columns = opened.representation.columns
    basis = kept_map(found.result, found.candidate, found.fit, opened.design, opened.blocks.d, columns)
    return Recommended(found.result, opened, basis, found.fit)


def _doses_apart(opened: Screen) -> Screen:
    """The screen with each dose as a perturbation of its own, where doses are replicated; and the alert that says so."""
    apart = opened.design.doses_apart
    if apart is opened.design:
        return opened
    (pooled,) = (alert for alert in opened.alerts if alert.code == "doses_pooled")
    alerts = tuple(Alert("doses_apart", a.values) if a is pooled else a for a in opened.alerts)
    roles = {**apart.roles, "perturbation": f"{pooled.values['columns']},{pooled.values['dose']}"}
    return replace(opened, design=replace(apart, roles=roles), alerts=alerts)


def _run(opened: Screen, options: Threaded, call: str, cluster: Any, inputs: tuple[Input, ...] | None = None) -> Run:
    run = Run.of(options, cluster=cluster, alerts=list(opened.alerts))
    run.inputs = opened.inputs(run) if inputs is None else inputs
    run.provenance = default_provenance(options.seed, options.command or f"identifiable.deconfound.{call}(...)")
    return run


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


def _opened(source: Any, options: ScreenOptions) -> OpenedScreen:
    """The table of a source of any kind, with its columns of metadata as labels."""
    features, source = options.features, as_frame(source)
    how: dict[str, Any] = {"metadata": options.metadata, "ids": options.ids}
    how["gaps"] = Gaps(options.drop_nan, options.impute)
    if is_path(source):
        return open_screen(source, features=features, no_feature=is_about_wells, **how)
    if hasattr(source, "obs") and hasattr(source, "obsm"):
        return screen_of_anndata(source, use_rep=options.use_rep or "X", **how)
    if is_frame(source):
        return screen_of_frame(source, features, no_feature=is_about_wells, **how)
    if options.metadata is None and not getattr(source, "labels", None):
        raise UsageError(
            "an array says nothing about wells; pass metadata: a path, or a mapping or DataFrame with a column for each role."
        )
    array = source if isinstance(source, Blocks | Representation) else as_array(from_torch(source), Representation.name)
    return screen_of_array(array, **how)


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
