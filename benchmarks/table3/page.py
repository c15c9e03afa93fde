"""Puts what a benchmark printed into its place in a page of the docs."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"


def written(page: str, section: str, table: str) -> str:
    """A page with a new table between the marks of a section.

    Args:
        page: Its text.
        section: Its name, as in `<!-- section -->` and `<!-- /section -->`.
        table: What stands there from now on.

    Raises:
        ValueError: The page has not exactly one such section.

    >>> written("<!-- a -->old<!-- /a -->", "a", "new").split()
    ['<!--', 'a', '-->', 'new', '<!--', '/a', '-->']
    """
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
    text, count = re.subn(pattern, lambda _: f"{begin}\n{table}\n{end}", page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"expected one section {begin} ... {end} in the page; found {count}.")
    return text
