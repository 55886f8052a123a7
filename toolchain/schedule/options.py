"""The choices of whoever compiles a region: the bounds of the search, and the images of one run, each by a copy of the program."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from toolchain.spec.search_policies import EFFORT, SEARCH


class Copies(NamedTuple):
    """A region that runs several times side by side, each on images of its own and on so many streams of its own: copy k is on those from
    k * streams on. images: that each tensor of a copy holds. weights: elements at the end of a memory that streams share, in which weights wait for
    all of them."""

    times: int = 1
    streams: int = 1
    images: int = 1
    weights: int = 0

    @property
    def together(self) -> int:
        """Images of one run."""
        return self.times * self.images


ONE = Copies()
"""The region by itself."""


@dataclass(frozen=True)
class Options:
    """contexts: slots of each place, at least. timed: how many tilings of an operation are timed exactly, the best of them being taken.

    check: the race checker looks at the whole program. resident: tensors stay on chip where they can. grouped: neighbours share a loop of rows or
    tiles where that is quicker. timed_groups: quicker by exact time, else by the estimate. streams: how many of the machine's may share the
    tiles of an operation, where no schedule is given. timed_streams: an operation is dealt to as many as are quickest by exact time, else to all.
    copies: of the region, side by side, each on images of its own and on `streams` of the machine's. images: that each tensor of a copy holds.
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
    images: int = 1
    search: str = SEARCH
    effort: int = EFFORT
    stored: bool = False
    progress: Callable[[int, int, str], None] | None = None

    def taking(self, ways: Copies) -> Self:
        """These options for a region that shares streams and images so."""
        return replace(self, copies=ways.times, streams=ways.streams, images=ways.images)

    @property
    def ways(self) -> Copies:
        return Copies(self.copies, self.streams, self.images)
