"""What a condition on a distortion may name: a number of the result, or a figure over the points, its worst by default."""

from __future__ import annotations

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields, is_number, kind_of_number, named_kinds, reached
from identifiable.results import Distortion

WORST = {"constant": "max", "condition": "max", "sigma_max": "max", "sigma_min": "min"}


def distortion_fields() -> Fields:
    """`constant` is that of the worst point; `constant.q95` and the like go on to the summary."""

    def find(path: tuple[str, ...]) -> Field:
        kinds = named_kinds(Distortion)
        if path[0] not in kinds:
            choices = [*WORST, *(name for name, kind in kinds.items() if is_number(kind))]
            raise UsageError(f"no field {path[0]!r}; choose from {', '.join(choices)}.")
        real = ("summary", path[0], *(path[1:] or (WORST[path[0]],))) if path[0] in WORST else path
        kind = kind_of_number(Distortion, real, ".".join(path))
        return Field(kind, lambda result: [(result.decoder, reached(result, real))])

    return Fields("constant > 3", find)
