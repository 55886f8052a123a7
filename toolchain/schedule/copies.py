"""A region that runs several times side by side, each on images and streams of its own."""

from typing import NamedTuple


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
