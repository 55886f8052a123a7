"""The names of the policies that search for schedules, and their budget: known wherever a command line is read."""

from typing import TYPE_CHECKING

from toolchain.spec.errors import fail, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SEARCH = "climb"
"""The policy that proposes schedules, where nothing else is said."""
POLICIES = ("greedy", "climb", "cover", "optimal", "subgraphs", "retile")
"""The toolchain's own, each a function of that name in `toolchain.schedule.search.policies`."""
GROUP = "tilewright.search"
"""The entry point group of policies that other packages bring."""
EFFORT = 2
"""Schedules of a whole region that are timed exactly, where nothing else is said."""


def foreign_policies() -> "dict[str, EntryPoint]":
    """The policies of installed packages, by name; none takes the name of one of the toolchain's."""
    from importlib.metadata import entry_points  # a tenth of a short command's time

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.value) if point.name not in POLICIES}


def check_policy(name: str) -> str:
    """The name of a policy that there is. Raises UserError E1202 for any other."""
    if name in POLICIES:
        return name
    known = (*POLICIES, *foreign_policies())
    if name not in known:
        raise fail("E1202", f"there is no search policy '{name[:80]}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
    return name
