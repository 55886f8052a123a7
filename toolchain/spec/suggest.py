"""`did you mean ...?`"""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the most similar known word, or an empty string."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""
