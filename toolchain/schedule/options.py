"""The choices of whoever compiles a region: how much the search may look at, and how the machine is used."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from toolchain.spec.errors import fail, nearest

SEARCH = "climb"
"""The policy that proposes schedules, where nothing else is said."""
POLICIES = ("greedy", "climb", "cover", "optimal")
"""The toolchain's own, each a function of that name in `toolchain.schedule.search.policies`."""
GROUP = "tilewright.search"
"""The entry point group of policies that other packages bring."""
EFFORT = 2
"""Schedules of a whole region that are timed exactly, where nothing else is said."""


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the race checker looks at the whole program. resident: tensors stay on chip where they can. grouped: neighbours share a loop of rows or
    tiles where that is quicker. timed_groups: quicker by exact time, else by the estimate. streams: how many of the machine's may share the
    tiles of an operation, where no schedule is given. timed_streams: an operation is dealt to as many as are quickest by exact time, else to all.
    copies: of the region, side by side, each on images of its own and on `streams` of the machine's.
    search: the policy that proposes schedules, by name. effort: how many of them are timed exactly; with 0 the first is taken by its estimate alone.
    stored: every tensor is stored to DRAM as well, so that it can be looked at. progress: is told which operation of how many is compiled now.
    """

    contexts: int = 2
    timed: int = 1
    check: bool = True
    resident: bool = True
    grouped: bool = True
    timed_groups: bool = True
    streams: int = 1
    timed_streams: bool = True
    copies: int = 1
    search: str = SEARCH
    effort: int = EFFORT
    stored: bool = False
    progress: Callable[[int, int, str], None] | None = None


def foreign_policies() -> dict[str, EntryPoint]:
    """Those of installed packages, by name; none takes the name of one of the toolchain's."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.value) if point.name not in POLICIES}


def check_policy(name: str) -> str:
    """The name of a policy that there is. Raises UserError E1202 for any other."""
    known = (*POLICIES, *foreign_policies())
    if name not in known:
        raise fail("E1202", f"there is no search policy '{name[:80]}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
    return name
