"""Page to HTML: one file that needs nothing else, or a fragment for a notebook."""

from __future__ import annotations

from functools import cache

import jinja2

from identifiable.report.page import LEFT_OUT, Page
from identifiable.report.render.figures import curve_swatch, draw_curves, draw_dots, drawn_legend, mark_swatch
from identifiable.report.render.grids import draw_grid
from identifiable.report.render.pictures import draw_picture
from identifiable.report.words import bound


def html(page: Page, template: str = "page") -> str:
    """A whole file that loads nothing from elsewhere or, as a `fragment`, the same for a notebook cell."""
    return _environment().get_template(f"{template}.html").render(page=page)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("identifiable.report.render"),
        autoescape=True,  # names and ids come from users
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        left_out=LEFT_OUT,
        draw_dots=draw_dots,
        drawn_legend=drawn_legend,
        draw_curves=draw_curves,
        draw_grid=draw_grid,
        draw_picture=draw_picture,
        mark_swatch=mark_swatch,
        curve_swatch=curve_swatch,
    )
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["bound"] = bound
    return environment
