"""What in the rows themselves makes a verdict doubtful: neighbours that are alike, and rounding of the stored values."""

from __future__ import annotations

from typing import Any

import numpy as np

from identifiable.blocks import Blocks
from identifiable.ica.fitting import Fit
from identifiable.moments import Array
from identifiable.results import Alert

NEIGHBOURS = 5_000  # rows from the beginning in which neighbours are compared
ALIKE = 0.2  # correlation of neighbouring rows from which on they are said to be alike
ROUNDING = 0.1  # share of a component's variance that rounding of the stored values may be


def data_alerts(name: str, blocks: Blocks, fitted: Fit, *, grouped: bool) -> list[Alert]:
    """Alerts about rows that are not independent, and about components that are rounding of the input."""
    alerts = []
    alike = _autocorrelation(blocks, fitted)
    if alike > ALIKE and not grouped:
        alerts.append(Alert("rows_alike", {"name": name, "correlation": alike}))
    rounded = int((_rounding_share(blocks.dtype, fitted) > ROUNDING).sum())
    if rounded:
        alerts.append(
            Alert(
                "below_input_precision",
                {"name": name, "dtype": str(blocks.dtype), "share": ROUNDING, "components": rounded},
            )
        )
    return alerts


def _autocorrelation(blocks: Blocks, fitted: Fit) -> float:
    """The largest correlation, over components, of neighbouring rows at the beginning of the table."""
    y = fitted.to_components(blocks[: min(NEIGHBOURS, blocks.n)])
    y = y - y.mean(axis=0)
    energy = np.einsum("ij,ij->j", y, y)
    if len(y) < 100:
        return 0.0
    lagged = np.einsum("ij,ij->j", y[1:], y[:-1])
    return float(np.max(np.divide(lagged, energy, out=np.zeros_like(energy), where=energy > 0)))


def _rounding_share(dtype: np.dtype[Any], fitted: Fit) -> Array:
    """Variance that rounding to `dtype` adds to each component of unit variance."""
    if dtype.kind != "f":
        return np.zeros(len(fitted.rotation))
    spread = (fitted.whitener.back**2).sum(axis=0)
    size = spread + fitted.whitener.center**2
    noise = (
        float(np.finfo(dtype).eps) ** 2 / 12 * size
    )  # a value is rounded to half an ulp, at most eps / 2 of its size
    share: Array = noise @ fitted.to_components.matrix**2
    return share
