"""Two builds beside each other on one page: the page of each, one selection for both, and what differs."""

from collections.abc import Sequence

from toolchain.report.html import html_environment


def pair_page(names: Sequence[str], pages: Sequence[str], comparison: str) -> str:
    """names: of the two builds. pages: theirs, HTML. comparison: a page as well. Ends in one line feed; the same pages give the same bytes."""
    named = list(zip(names, pages, strict=True))
    return html_environment().get_template("studio/pair.html.j2").render(names=names, named=named, comparison=comparison)
