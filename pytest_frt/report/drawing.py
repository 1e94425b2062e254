"""What turns templates into a page: the engine of the ``report`` extra, and the page's own style and script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.errors import MissingExtra

if TYPE_CHECKING:
    from jinja2 import Environment

ENGINE: Final = "jinja2"
PAGE: Final = "page.html.j2"
PACKAGE: Final = "pytest_frt.report"


def check_extra() -> None:
    """Look whether a page can be drawn here.

    Raises:
        MissingExtra: the template engine is not installed.
    """
    if find_spec(ENGINE) is None:
        raise MissingExtra(f"an HTML report needs {ENGINE}, which is absent", hint="pip install 'pytest-frt[report]'")


@cache
def _environment() -> Environment:
    """Return the engine: everything that is put into a template is escaped, and an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return the text of a style or script of the page."""
    return resources.files(PACKAGE).joinpath("templates", name).read_text(encoding="utf-8").strip()


def source_hash(text: str) -> str:
    """Return what a content security policy calls an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def draw(page: object, **more: Any) -> bytes:  # noqa: ANN401 (a template takes any value)
    """Draw the page; it loads nothing, and runs no script but its own.

    Args:
        page: What the template shows, as ``page``.
        more: Further values by name.

    Raises:
        MissingExtra: see :func:`check_extra`.
    """
    check_extra()
    style, script = asset("page.css"), asset("page.js")
    own = {"style": style, "script": script, "style_hash": source_hash(style), "script_hash": source_hash(script)}
    return _environment().get_template(PAGE).render(page=page, **own, **more).encode()
