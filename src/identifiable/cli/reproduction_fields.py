"""What a condition on a reproduction may name: a figure of the headline's fit or of another form, or a number of the whole."""

from __future__ import annotations

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields, is_number, kind_of_number, named_kinds, reached
from identifiable.results import Fit, Lift, Reproduction, Table2, Table3

OF_A_FIT = {
    "spearman": ("spearman",),
    "spearman_low": ("spearman_ci95", "0"),
    "spearman_high": ("spearman_ci95", "1"),
    "within_leak": ("within_leak",),
    "r2": ("r2",),
    "slope": ("slope",),
}
OF_A_LIFT = {  # what centred ICA does to InfoM, over all data sets
    "lift": ("difference", "mean"),
    "lift_low": ("difference", "ci95", "0"),
    "lift_high": ("difference", "ci95", "1"),
    "before": ("before", "mean"),
    "after": ("after", "mean"),
    "infoe_difference": ("infoe_difference", "mean"),
}
FORMS = ("mean", "maximum", "sample")  # `maximum.r2`; without one it is the mean


def reproduction_fields() -> Fields:
    """`spearman` is that of the mean over samples with exact constants; `maximum.spearman` that of Figure A.4."""

    def find(path: tuple[str, ...]) -> Field:
        form, rest = (path[0], path[1:]) if path[0] in FORMS else (FORMS[0], path)
        if rest and rest[0] in OF_A_FIT:
            real = (*OF_A_FIT[rest[0]], *rest[1:])
            kind = kind_of_number(Fit, real, ".".join(path))
            return Field(kind, lambda result: [(result.experiment, reached(_fit(result, form), real))])
        if path[0] in FORMS:
            raise UsageError(f"{'.'.join(path)} is not a number; name one of {', '.join(OF_A_FIT)} after {path[0]}.")
        kinds = named_kinds(Reproduction)
        if path[0] not in kinds:
            choices = [*OF_A_FIT, *(name for name, kind in kinds.items() if is_number(kind))]
            raise UsageError(f"no field {path[0]!r}; choose from {', '.join(choices)}.")
        kind = kind_of_number(Reproduction, path, ".".join(path))
        return Field(kind, lambda result: [(result.experiment, reached(result, path))])

    return Fields("spearman < 0.5", find)


def table2_fields() -> Fields:
    """`lift` is what ICA adds to InfoM of the plain autoencoder, `lift_low` the lower end of its interval."""

    def find(path: tuple[str, ...]) -> Field:
        if path[0] not in OF_A_LIFT or len(path) > 1:
            raise UsageError(f"no field {'.'.join(path)!r}; choose from {', '.join(OF_A_LIFT)}.")
        real = OF_A_LIFT[path[0]]
        kind = kind_of_number(Lift, real, path[0])
        return Field(kind, lambda result: [("table2", reached(_of_all(result), real))])

    return Fields("lift < 0.1", find)


def table3_fields() -> Fields:
    """`gain` is what ICA adds to AUROC on plates held out, against PCA; `gain_low` the lower end of its interval."""
    known = {"gain": ("gain",), "gain_low": ("gain_ci95", "0"), "gain_high": ("gain_ci95", "1")}

    def find(path: tuple[str, ...]) -> Field:
        if path[0] not in known or len(path) > 1:
            raise UsageError(f"no field {'.'.join(path)!r}; choose from {', '.join(known)}.")
        kind = kind_of_number(Table3, known[path[0]], path[0])
        return Field(kind, lambda result: [("table3", reached(result, known[path[0]]))])

    return Fields("gain_low < 0", find)


def _of_all(result: Table2) -> Lift | None:
    return result.lift()


def _fit(result: Reproduction, form: str) -> Fit | None:
    wanted = (form, "exact", "latent")
    return next((fit for fit in result.fits if (fit.form, fit.estimator, fit.unit) == wanted), None)
