"""Programs of copies between banks, and their turns."""

from tests.timing.test_cost import banked, copy, ends
from toolchain.analysis.dependences import Needs
from toolchain.schedule.synchronisation.synchronise import find_turns

UNITS = "abc"


def turns(*copies: tuple[str, int, int], free: bool = False) -> Needs | None:
    """copies: unit, bank that is read, bank that is written. Those of unit b take turns. Rows of the copies alone."""
    lines = [copy(UNITS.index(unit), source, to, 10) for unit, source, to in copies]
    found = find_turns(ends(banked(free=free), *lines).footprints, {UNITS.index("b")})
    return None if found is None else found[: len(copies)]
