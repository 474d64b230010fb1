"""A simulated screen: its design, its latents and effects, and what each broken assumption breaks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from errors import naming
from identifiable import resolve
from identifiable._checks import UsageError
from identifiable.worlds import CellWorld, cells

EMPTY = "EMPTY_control"


@cache
def small(seed: int = 0, **knobs: Any) -> CellWorld:
    return cells("small", seed=seed, **knobs)


def plates_of(world: CellWorld) -> np.ndarray:
    """The physical plate of each row."""
    m = world.metadata
    return np.char.add(np.char.add(m["experiment_name"], "/"), m["plate"].astype(str))


def kurtosis(values: np.ndarray) -> np.ndarray:
    centred = np.asarray(values, np.float64) - values.mean(axis=0)
    return (centred**4).mean(axis=0) / (centred**2).mean(axis=0) ** 2 - 3


def given(world: CellWorld, treatment: str) -> np.ndarray:
    return world.metadata["treatment"] == treatment


def fraction_explained(values: np.ndarray, groups: np.ndarray) -> float:
    """Of the variance, by the means of groups."""
    _, codes = np.unique(groups, return_inverse=True)
    means = np.bincount(codes, values) / np.bincount(codes)
    return float(means[codes].var() / values.var())


# -- the design


def test_a_gene_plate_has_16_empty_wells_one_of_each_table_3_guide_and_48_query_wells():
    world = cells("small", seed=3, dropout=0.0)
    m = world.metadata
    assert m["well_id"].size == np.unique(m["well_id"]).size == 8 * 9 * 80 + 4 * 64
    for plate in np.unique(plates_of(world)[m["perturbation_type"] == "CRISPR"]):
        genes = m["gene"][plates_of(world) == plate]
        assert (genes == EMPTY).sum() == 16
        assert np.char.startswith(genes, "GENE").sum() == 48
        assert [int((genes == gene).sum()) for gene in ("MTOR", "PLK1", "SRC")] == [6, 6, 1]


def test_metadata_are_named_and_typed_as_in_rxrx3_core_and_plate_is_a_number_within_the_experiment():
    m = small().metadata
    assert list(m) == [
        "well_id", "experiment_name", "plate", "address", "gene", "treatment", "SMILES", "concentration",
        "perturbation_type", "cell_type", "cell_count",
    ]  # fmt: skip
    assert all(column.dtype.kind in "Uif" and column.shape == m["plate"].shape for column in m.values())
    assert np.unique(m["plate"]).tolist() == list(range(1, 10))  # the trap: 76 plates, 9 numbers
    assert np.unique(plates_of(small())).size == 8 * 9 + 4
    compound = m["perturbation_type"] == "COMPOUND"
    assert (m["SMILES"][compound & (m["gene"] == "")] != "").all()
    assert not (m["SMILES"][~compound] != "").any()
    assert np.isnan(m["concentration"][~compound]).all()
    first = m["well_id"][0].split("_")
    assert first == [m["experiment_name"][0], str(m["plate"][0]), m["address"][0]]


def test_the_largest_preset_has_the_size_and_counts_of_rxrx3_core():
    world = cells("rxrx3core", lazy=True)
    m = world.metadata
    assert abs(world.n - 222_601) < 500
    assert world.X.shape == (world.n, 384)
    assert world.S.shape == (world.n, 384)
    gene = m["perturbation_type"] == "CRISPR"
    assert np.unique(m["experiment_name"]).size == 180
    assert np.unique(plates_of(world)[gene]).size == 176 * 9
    assert abs((given(world, EMPTY) & gene).sum() - 25_312) < 400
    assert 1540 < given(world, "MTOR_guide_3").sum() <= 1584
    assert not (given(world, "CRISPR_control") & gene).any()
    assert {"A01", "Z26", "AF48"} < set(m["address"].tolist())
    assert np.isfinite(world.X[-100:]).all()
    assert (world.roles.count("biology"), world.roles.count("technical")) == (96, 64)


@pytest.mark.parametrize(("layout", "locked"), [("random", 0.0), ("fixed", 1.0), (0.5, 0.5)])
def test_layout_says_which_share_of_a_guides_wells_has_the_guides_own_address(layout: Any, locked: float):
    world = small(layout=layout)
    shares = []
    for guide in ("MTOR_guide_1", "SRC_guide_1", "HCK_guide_1"):
        _, counts = np.unique(world.metadata["address"][given(world, guide)], return_counts=True)
        shares.append(counts.max() / counts.sum())
    assert np.mean(shares) == pytest.approx(locked, abs=0.12)
    assert np.unique(world.metadata["well_id"]).size == world.n  # one address holds one well


@pytest.mark.parametrize("confounding", [0.0, 1.0])
def test_confounding_keeps_guides_to_their_own_experiments(confounding: float):
    world = small(confounding=confounding)
    m = world.metadata
    seen = [np.unique(m["experiment_name"][given(world, f"MTOR_guide_{k}")]).size for k in range(1, 7)]
    assert seen == ([8] * 6 if confounding == 0 else [2] * 6)
    assert np.unique(m["experiment_name"][given(world, EMPTY)]).size == 9  # controls stay everywhere


# -- one world, however it is made


def test_rows_depend_on_neither_blocks_nor_threads_nor_when_they_are_made():
    whole = cells("tiny", seed=4, patches=3, keep_patches=True)
    cut = cells("tiny", seed=4, patches=3, keep_patches=True, rows_per_block=1, workers=3)
    lazy = cells("tiny", seed=4, patches=3, keep_patches=True, lazy=True)
    for name in ("X", "S", "patches"):
        table = getattr(whole, name)
        assert np.array_equal(table, getattr(cut, name))
        parts = [getattr(lazy, name)[a : a + 50] for a in range(0, len(table), 50)]
        assert np.array_equal(table, np.concatenate(parts))
        assert np.array_equal(table[[7, 300, 2]], getattr(lazy, name)[np.array([7, 300, 2])])
    assert not np.array_equal(whole.X, cells("tiny", seed=5).X)


def test_arrays_to_fill_are_filled_and_refused_if_they_do_not_fit():
    kept: dict[str, np.ndarray] = {}

    def out(name: str, shape: tuple[int, int]) -> np.ndarray:
        kept[name] = np.zeros(shape, np.float32)
        return kept[name]

    world = cells("tiny", seed=4, out=out)
    assert world.X is kept["X"]
    assert np.array_equal(kept["X"], cells("tiny", seed=4).X)
    with pytest.raises(UsageError, match=naming("X", (428, 24), "got float64")):
        cells("tiny", out=lambda name, shape: np.zeros(shape))


def test_lost_wells_and_layout_leave_the_other_wells_as_they_are():
    full, lossy = cells("tiny", seed=1, dropout=0.0), cells("tiny", seed=1, dropout=0.3)
    place = {well: k for k, well in enumerate(full.metadata["well_id"].tolist())}
    rows = [place[well] for well in lossy.metadata["well_id"].tolist()]
    assert 0.6 < len(rows) / full.n < 0.8
    assert np.array_equal(lossy.S, full.S[rows])
    fixed = cells("tiny", seed=1, dropout=0.0, layout="fixed")
    of_place = np.isin(full.factors, ("row", "column", "edge"))
    # A plate's wells are in the order of addresses: compare what does not depend on the order.
    assert np.allclose(np.sort(fixed.S[:32, ~of_place], axis=0), np.sort(full.S[:32, ~of_place], axis=0))
    assert not np.allclose(np.sort(fixed.S[:32, of_place], axis=0), np.sort(full.S[:32, of_place], axis=0))


# -- latents


def test_latents_have_mean_0_variance_1_and_are_nearly_uncorrelated():
    S = small(no_biology=True).S
    assert np.abs(S.mean(axis=0)).max() < 0.1
    assert np.abs(S.std(axis=0) - 1).max() < 0.1
    assert np.abs(np.corrcoef(S.T) - np.eye(S.shape[1])).max() < 0.25  # offsets of 9 experiments and 76 plates


def test_technical_latents_follow_their_factor_and_no_other_latent_does():
    world = small(no_biology=True)
    m = world.metadata
    row = np.char.rstrip(m["address"], "0123456789")
    column = np.char.lstrip(m["address"], "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    edge = np.isin(row, ("A", "AF")) | np.isin(column, ("01", "48"))
    by = {"row": row, "column": column, "edge": edge, "experiment": m["experiment_name"]}
    by |= dict.fromkeys(("plate", "stain", "focus", "drift"), plates_of(world))
    for k, (role, factor) in enumerate(zip(world.roles, world.factors, strict=True)):
        if role == "technical":
            assert fraction_explained(world.S[:, k], by[factor]) > 0.4, factor
        else:
            assert max(fraction_explained(world.S[:, k], groups) for groups in by.values()) < 0.05
    assert set(world.factors) >= set(by) | {"state", "cycle", "viability", "cut", "noise"}


def test_cell_count_goes_with_viability_and_is_lower_at_the_edge():
    world = small(no_biology=True)
    count = np.log(world.metadata["cell_count"])
    correlations = [abs(np.corrcoef(count, column)[0, 1]) for column in world.S.T]
    assert world.factors[int(np.argmax(correlations))] == "viability"
    assert 0.3 < max(correlations) < 0.6


def test_a_guide_shifts_its_latents_by_its_effect_where_it_shows_and_a_null_guide_none():
    world = small(penetrance=0.5, effect=2.5)
    control = given(world, EMPTY)
    for guide in ("PLK1_guide_1", "MTOR_guide_2"):
        wells = given(world, guide)
        expected = 0.5 * world.effects[world.treatments == guide][0]
        found = world.S[wells].mean(axis=0) - world.S[control].mean(axis=0)
        error = 1.5 / np.sqrt(wells.sum())
        biology = world.of_role("biology")
        assert np.abs(found - expected)[biology].max() < 3 * error
        assert np.abs(expected).max() > 3 * error
        assert np.count_nonzero(expected) == 2
    for gene in world.null_genes:
        assert not world.effects[np.char.startswith(world.treatments, f"{gene}_guide")].any()
    assert {"CYP11B1", "HCK"} < set(world.null_genes)


def test_a_higher_dose_has_a_larger_effect():
    world = cells("medium", lazy=True)
    assert world.X.shape[1] == 128
    compound = next(name for name, target in world.biology.targets.items() if target)
    code = np.flatnonzero(world.treatments == compound)
    sizes = [np.abs(world.biology.at(code, np.array([dose]))).max() for dose in (0.0025, 0.1, 10.0)]
    assert sizes[0] < sizes[1] < sizes[2] <= np.abs(world.effects[code]).max()


def test_related_genes_move_the_same_latents_and_others_do_not():
    world = small()
    guides = {name: world.effects[k] for k, name in enumerate(world.treatments.tolist())}

    def cosine(a: str, b: str) -> float:
        u, v = guides[f"{a}_guide_1"], guides[f"{b}_guide_1"]
        return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    assert ("EIF3H", "MTOR") in world.relations
    assert min(cosine(a, b) for a, b in world.relations) > 0.95
    assert abs(cosine("MTOR", "PLK1")) < 0.05
    assert not set(world.null_genes) & {gene for pair in world.relations for gene in pair}


def test_without_biology_all_genes_are_null_and_the_cut_moves_every_guide():
    assert not small(no_biology=True).effects.any()
    assert {"MTOR", "PLK1"} < set(small(no_biology=True).null_genes)
    assert small(no_biology=True).relations == ()
    cut = cells("tiny", cut=0.7)
    axis = cut.factors.index("cut")
    guides = np.char.find(cut.treatments, "_guide_") > 0
    assert np.allclose(cut.effects[guides, axis], 0.7)
    assert cut.effects[cut.treatments == "CRISPR_control", axis] == pytest.approx(0.7)
    assert not cut.effects[cut.treatments == EMPTY].any()


# -- broken assumptions


def test_gaussian_fraction_makes_latents_gaussian():
    # Without effects, and with many plates: a few offsets of plates are not Gaussian, whatever they were drawn from.
    knobs: dict[str, Any] = {
        "experiments": 60,
        "plates": 4,
        "empty": 4,
        "query": 0,
        "compound_plates": (),
        "no_biology": True,
    }
    plain, gaussian = (cells("small", gaussian_fraction=f, **knobs).S for f in (0.0, 1.0))
    assert np.median(np.abs(kurtosis(plain))) > 1
    assert np.median(np.abs(kurtosis(gaussian))) < 0.1
    half = cells("small", gaussian_fraction=0.5, **knobs)
    assert half.latents.laws.count("gaussian") == 24


def test_rho_is_the_correlation_of_biology_with_technique():
    world = small(rho=0.6, no_biology=True)
    biology, technical = world.of_role("biology"), world.of_role("technical")
    found = np.corrcoef(world.S.T)[np.ix_(biology, technical)]
    assert np.abs(found).max(axis=1) == pytest.approx(0.6, abs=0.1)
    independent = np.corrcoef(small(no_biology=True).S.T)[np.ix_(biology, technical)]
    assert np.abs(independent).max() < 0.1


def test_heteroscedastic_plates_differ_in_the_scale_of_nuisance_only():
    def spread(world: CellWorld, role: Any) -> float:
        _, codes = np.unique(plates_of(world), return_inverse=True)
        values = world.S[:, world.of_role(role)]
        logs = [np.log(values[codes == p].std(axis=0)).mean() for p in range(codes.max() + 1)]
        return float(np.std(logs))

    assert spread(small(heteroscedastic=0.5), "nuisance") > 0.4
    assert spread(small(), "nuisance") < 0.05
    assert spread(small(heteroscedastic=0.5), "technical") == pytest.approx(spread(small(), "technical"), abs=1e-6)


def test_unseen_shift_moves_technique_in_the_last_quarter_of_the_gene_experiments():
    plain, shifted = small(), small(unseen_shift=4.0)
    assert shifted.unseen.tolist() == ["gene-007", "gene-008"]
    unseen = np.isin(shifted.metadata["experiment_name"], shifted.unseen)
    moved = np.abs((shifted.S - plain.S)[unseen].mean(axis=0))
    by_plate = np.isin(plain.factors, ("experiment", "plate", "stain", "focus", "drift"))
    assert moved[by_plate].min() > 1
    assert moved[~by_plate].max() == 0
    assert np.array_equal(shifted.S[~unseen], plain.S[~unseen])


def test_delta_bends_within_its_bi_lipschitz_constants():
    bent = cells("tiny", seed=2, delta=0.8, layers=2)
    low, high = bent.mixing.bounds
    assert (low, high) == pytest.approx((0.2**2, 1.8**2))
    smallest, largest = bent.stretches()
    assert low < smallest < 0.9
    assert 1.1 < largest < high
    assert cells("tiny", seed=2).stretches() == pytest.approx((1, 1))
    # The Jacobian agrees with differences of the map itself, the linear part taken off.
    point, step = bent.S[:1].astype(np.float64), 1e-3
    ahead, behind = (bent.mixing((point + s * step * np.eye(24)).astype(np.float32)) for s in (1, -1))
    jacobian = (ahead - behind) / (2 * step) / bent.mixing.amplitude[:, None]
    core = jacobian @ bent.mixing.frame.T / bent.mixing.spread @ bent.mixing.turn.T
    singular = np.linalg.svd(core, compute_uv=False)
    assert bent.mixing.stretches(bent.S[:1]) == pytest.approx((singular[-1], singular[0]), rel=0.02)


def test_kappa_is_the_condition_number_and_rank_deficit_takes_dimensions_away():
    world = cells("tiny", kappa=50.0, loudness=1.0, noise=0.0)
    linear = world.mixing(np.eye(24, dtype=np.float32)) - world.mixing(np.zeros((1, 24), np.float32))
    assert np.linalg.cond(linear) == pytest.approx(50, rel=1e-3)
    deficient = cells("tiny", rank_deficit=4)
    assert deficient.S.shape[1] == len(deficient.roles) == 20
    assert deficient.X.shape[1] == 24
    ranks = [np.linalg.matrix_rank(w.X - w.X.mean(axis=0), tol=1e-3) for w in (deficient, world)]
    assert ranks == [20, 24]


def test_pooled_rows_are_the_means_of_the_patches_and_otherwise_the_first_patch():
    for delta in (0.0, 0.8):
        pooled = cells("tiny", seed=6, patches=5, pooled=True, keep_patches=True, delta=delta)
        single = cells("tiny", seed=6, patches=5, keep_patches=True, delta=delta)
        one = cells("tiny", seed=6, delta=delta)
        assert np.array_equal(pooled.patches, single.patches)
        assert np.array_equal(single.patches[::5], single.X)
        assert np.array_equal(single.X, one.X)
        assert np.array_equal(single.S, one.S)
        assert np.bincount(pooled.patch_well).tolist() == [5] * pooled.n
        means = pooled.patches.reshape(-1, 5, 24).mean(axis=1)
        assert np.allclose(means, pooled.X, atol=1e-5)
        assert not np.allclose(pooled.X, single.X, atol=0.1)


def test_patches_of_a_well_share_technique_but_not_nuisance():
    single, pooled = (cells("small", no_biology=True, patches=8, pooled=p).S.var(axis=0) for p in (False, True))
    world = small(no_biology=True)
    ratio = pooled / single
    assert ratio[world.of_role("technical")].min() > 0.5
    assert ratio[world.of_role("nuisance")].max() < 0.2


# -- what it is for


def test_ica_finds_the_latents_of_the_default_world_and_not_gaussian_ones():
    world = small()
    assert world.recovery(resolve(world.X, stability=0, restarts=1).to_components).mean() > 0.95
    gaussian = small(gaussian_fraction=1.0)
    assert gaussian.recovery(resolve(gaussian.X, stability=0, restarts=1).to_components).mean() < 0.5


# -- messages


@pytest.mark.parametrize(
    ("knobs", "parts"),
    [
        ({"preset": "large"}, "'large'; .*tiny, small"),
        ({"gaussian": 1}, "'gaussian'; .*batch_share"),
        ({"seed": -1}, "seed: .*got -1"),
        ({"rows_per_block": 0}, "rows_per_block: .*got 0"),
        ({"delta": 1.0}, "delta: "),
        ({"rho": "x"}, "rho: .*got 'x'"),
        ({"kappa": 0.5}, "kappa: "),
        ({"layout": "grid"}, "layout: .*random or fixed.*got 'grid'"),
        ({"layout": 1.5}, "layout: "),
        ({"patches": 0}, "patches: "),
        ({"pooled": True}, "patches: .*2"),
        ({"pooled": 1}, "pooled: "),
        ({"biology": 4}, "biology: .*10"),
        ({"width": 20}, "width: .*28 columns"),
        ({"compound_plates": 3}, "compound_plates: "),
        ({"query_genes": 0}, "query: "),
        ({"compounds": 0}, "compound_wells: "),
        ({"technical": 0, "rho": 0.5}, "rho: "),
        ({"grid_rows": 1}, "grid_rows: .*48 addresses .*80 wells"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(knobs: dict[str, Any], parts: str):
    with pytest.raises(UsageError, match=parts):
        cells(**knobs)
