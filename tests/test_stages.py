"""A call says what it is doing, of which table, in numbers that add up."""

from __future__ import annotations

import numpy as np
import pytest

import identifiable

RNG = np.random.default_rng(0)
X = RNG.laplace(size=(400, 3))
Y = X @ np.linalg.qr(RNG.standard_normal((3, 3)))[0]
J = np.zeros((6, 20, 3))
J[:, :12, :2], J[:, 12:, 2] = RNG.standard_normal((6, 12, 2)), 1
J += 0.02 * RNG.standard_normal(J.shape)

CALLS = {
    "compare": (
        lambda **how: identifiable.compare(X, Y, names=("a", "b"), null_draws=3, **how),
        {"": "hashing moments errors intervals shuffle rotation near diameter", "a": "axes", "b": "axes"},
    ),
    "layers": (
        lambda **how: identifiable.layers({"u": X, "v": X**3}, {"u": Y, "v": Y**3}, null_draws=3, **how),
        {
            "": "hashing moments layers",
            "first:u": "components pairs",
            "first:v": "components",
            "second:u": "components",
            "second:v": "components",
        },
    ),
    "resolve": (
        lambda **how: identifiable.resolve(X, names="a", stability=2, **how),
        {"": "hashing moments", "a": "resolving refit"},
    ),
    "mechanisms": (lambda **how: identifiable.mechanisms(J, **how), {"": "reading counting looking"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_stages_name_the_work_and_its_table(name):
    call, expected = CALLS[name]
    told: dict[str, set[str]] = {}

    def progress(stage, done, total):
        assert 0 <= done <= total
        told.setdefault(stage.of, set()).add(stage.name.replace(",", "").split()[0])

    call(progress=progress)
    assert told == {of: set(words.split()) for of, words in expected.items()}
