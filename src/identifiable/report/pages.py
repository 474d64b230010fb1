"""Which page and which table belong to which result: the one place that knows all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from identifiable._checks import UsageError
from identifiable.report.attribution import attribution_page
from identifiable.report.audit import audit_page
from identifiable.report.cleaning import cleaning_page
from identifiable.report.content import comparison_page
from identifiable.report.disentanglement import disentanglement_page
from identifiable.report.disentanglement_text import disentanglement_table
from identifiable.report.distortion import distortion_page
from identifiable.report.distortion_text import distortion_table
from identifiable.report.joint import joint_page
from identifiable.report.page import Page
from identifiable.report.record import Drawn
from identifiable.report.reproduction import reproduction_page
from identifiable.report.reproduction_text import reproduction_table
from identifiable.report.resolution import resolution_page
from identifiable.report.resolution_text import joint_table, resolution_table
from identifiable.report.screen_evaluation import evaluation_page
from identifiable.report.screen_text import attribution_table, audit_table, cleaning_table, evaluation_table
from identifiable.report.table2 import table2_page
from identifiable.report.table2_text import table2_table
from identifiable.report.table3 import table3_page, table3_table
from identifiable.report.text import comparison_table
from identifiable.results import (
    Attribution,
    Audit,
    Cleaning,
    Comparison,
    Disentanglement,
    Distortion,
    JointResolution,
    Reproduction,
    Resolution,
    ScreenEvaluation,
    Table2,
    Table3,
)

Drawing = tuple[Callable[[Any], Page], Callable[[Any], str]]

PAGES: dict[type, Drawing] = {
    Comparison: (comparison_page, comparison_table),
    Resolution: (resolution_page, resolution_table),
    JointResolution: (joint_page, joint_table),
    Distortion: (distortion_page, distortion_table),
    Reproduction: (reproduction_page, reproduction_table),
    Disentanglement: (disentanglement_page, disentanglement_table),
    Table2: (table2_page, table2_table),
    Table3: (table3_page, table3_table),
    Audit: (audit_page, audit_table),
    ScreenEvaluation: (evaluation_page, evaluation_table),
    Attribution: (attribution_page, attribution_table),
    Cleaning: (cleaning_page, cleaning_table),
}


def page_of(result: Drawn) -> Page:
    """The page of any result, exactly as it would be drawn from its saved JSON."""
    page, _ = _drawing(result)
    return page(result)


def text_table(result: Drawn) -> str:
    """What the command line prints of any result."""
    _, table = _drawing(result)
    return table(result)


def _drawing(result: Any) -> Drawing:
    found = next((drawing for kind, drawing in PAGES.items() if isinstance(result, kind)), None)
    if found is None:
        raise UsageError(
            f"expected a Comparison to draw, got {type(result).__name__}; a Resolution or a JointResolution can be drawn "
            "too, and a Disentanglement, a Distortion, a Reproduction, a Table2, a Table3, or what deconfound gives (an Audit, a "
            "ScreenEvaluation, an Attribution, a Cleaning): pass what compare(), bilipschitz(), disentangle(), reproduce(), "
            "one of deconfound's calls or resolve() returned."
        )
    return found
