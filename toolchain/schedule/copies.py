"""Several images in one run of a region: copies of its program side by side."""

from typing import NamedTuple


class Copies(NamedTuple):
    """A region that runs several times side by side, each on images of its own and on so many streams of its own: copy k is on those from
    k * streams on."""

    times: int = 1
    streams: int = 1


ONE = Copies()
"""The region by itself."""
