"""Page to HTML: one file that needs nothing else, or a fragment for a notebook."""

from __future__ import annotations

from functools import cache

import jinja2

from identifiable.report.figures import curve_swatch, draw_curves, draw_dots, mark_swatch
from identifiable.report.grids import draw_grid
from identifiable.report.page import LEFT_OUT
from identifiable.report.pages import page_of
from identifiable.report.pictures import draw_picture
from identifiable.report.record import Drawn
from identifiable.report.wording import bound


def html(result: Drawn) -> str:
    """A complete page that loads nothing from elsewhere; equal results give equal bytes.

    It holds summaries only, never rows of the data.
    """
    return _environment().get_template("page.html").render(page=page_of(result))


def fragment(result: Drawn) -> str:
    """The same content for a notebook cell; its style reaches nothing outside itself."""
    return _environment().get_template("fragment.html").render(page=page_of(result))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("identifiable.report"),
        autoescape=True,  # names and ids come from users
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        left_out=LEFT_OUT,
        draw_dots=draw_dots,
        draw_curves=draw_curves,
        draw_grid=draw_grid,
        draw_picture=draw_picture,
        mark_swatch=mark_swatch,
        curve_swatch=curve_swatch,
    )
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["bound"] = bound
    return environment
