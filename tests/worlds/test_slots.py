"""Slots and sprites: their Jacobians are those of their pictures."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable._checks import UsageError
from identifiable.worlds import MovingSprites, SlotWorld

STEP = 1e-6
WORLDS = {
    "slots": SlotWorld.of(3, overlap=0.2, rng=np.random.default_rng(1)),
    "added": MovingSprites(3),
    "occluding": MovingSprites(3, occluding=True),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_jacobians_are_those_of_the_outputs(world: SlotWorld | MovingSprites) -> None:
    rng = np.random.default_rng(0)
    z = world.draw(3, rng=rng)
    d = z.shape[1]
    moved = [(world(z + STEP * e) - world(z - STEP * e)).reshape(3, -1) / (2 * STEP) for e in np.eye(d)]
    J = world.jacobian(z)
    assert np.abs(np.stack(moved, axis=2) - J).max() < 1e-7
    v = rng.standard_normal(z.shape)
    assert np.allclose(world.jvp(z, v), np.einsum("nod,nd->no", J, v))


def test_overlap_is_the_share_of_outputs_that_neighbours_have_in_common() -> None:
    world = SlotWorld.of(3, dim=2, outputs=20, overlap=0.2, rng=np.random.default_rng(2))
    J = world.jacobian(world.draw(1, rng=np.random.default_rng(0)))[0]
    moved = np.stack([np.abs(J[:, 2 * k : 2 * k + 2]).max(axis=1) > 0 for k in range(3)])
    assert world.outputs == 52
    assert [(moved[0] & moved[1]).sum(), (moved[1] & moved[2]).sum(), (moved[0] & moved[2]).sum()] == [4, 4, 0]


def test_dependence_is_the_correlation_between_slots() -> None:
    world = SlotWorld.of(2, dependence=0.7, rng=np.random.default_rng(3))
    z = world.draw(20_000, rng=np.random.default_rng(4))
    r = np.corrcoef(z.T)
    assert r[0, 3] == pytest.approx(0.7, abs=0.02)
    assert r[0, 4] == pytest.approx(0, abs=0.03)


def test_separated_sprites_do_not_touch() -> None:
    world = MovingSprites(2)
    J = world.jacobian(world.draw(20, separated=True, rng=np.random.default_rng(5)))
    moved = np.abs(J).reshape(20, -1, 2, 2).max(axis=3) > 0
    assert not moved.all(axis=2).any()


def test_settings_outside_their_range_are_refused() -> None:
    rng = np.random.default_rng(0)
    for wrong in ({"dim": 0}, {"outputs": 2}, {"overlap": 2.0}, {"dependence": 1.0}):
        with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
            SlotWorld.of(2, **wrong, rng=rng)
    with pytest.raises(UsageError, match=r"0\.6"):
        MovingSprites(radius=0.6)
