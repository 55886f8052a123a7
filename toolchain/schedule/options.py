"""The choices of whoever compiles a region: the bounds of the search, and the images of one run, each by a copy of the program."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from toolchain.schedule.copies import Copies
from toolchain.schedule.groups.timed import Clocks
from toolchain.schedule.workers import Workers
from toolchain.spec.search_policies import EFFORT, SEARCH


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the whole program is checked, for races and for steps that leave their buffers. resident: tensors stay on chip where they can. grouped:
    neighbours share a loop of rows or tiles where that is quicker. timed_groups: quicker by exact time, else by the estimate. streams: how many of
    the machine's may share the tiles of an operation, where no schedule is given. timed_streams: an operation is dealt to as many as are quickest by
    exact time, else to all. copies: of the region, side by side, each on images of its own and on `streams` of the machine's. images: that each
    tensor of a copy holds. search: the policy that proposes schedules, by name. effort: how many of them are timed exactly; with 0 the first is taken
    by its estimate alone. stored: every tensor is stored to DRAM as well, so that it can be looked at. progress: is told which operation of how many
    is compiled now.
    clocks: tiles and times found so far, of whoever compiles several regions, or one with several options, for one machine.
    workers: processes that time programs beside this one.
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
    images: int = 1
    search: str = SEARCH
    effort: int = EFFORT
    stored: bool = False
    progress: Callable[[int, int, str], None] | None = None
    clocks: Clocks | None = field(default=None, compare=False)
    workers: Workers = field(default_factory=lambda: Workers(1), compare=False)

    def taking(self, ways: Copies) -> Self:
        """These options for a region that shares streams and images so."""
        return replace(self, copies=ways.times, streams=ways.streams, images=ways.images)

    @property
    def ways(self) -> Copies:
        return Copies(self.copies, self.streams, self.images)
