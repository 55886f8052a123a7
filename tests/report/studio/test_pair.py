"""Pages inside a page: whatever they hold stays inside."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from toolchain.report.studio.pair import pair_page

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(TEXTS, TEXTS, TEXTS)
def test_pages_come_back_as_they_were(one: str, other: str, comparison: str) -> None:
    page = pair_page(["a", "b"], [one, other], comparison)
    found = [html.unescape(text) for text in re.findall(r'srcdoc="([^"]*)"', page)]
    assert found == [comparison, one, other]
    assert page == pair_page(["a", "b"], [one, other], comparison)


def test_names_are_escaped() -> None:
    page = pair_page(["<i>a", "b"], ["", ""], "")
    assert "<i>" not in page
    assert "&lt;i&gt;a beside b</title>" in page
    assert page.endswith("</html>\n")
