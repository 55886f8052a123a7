"""Room that is shared over time: tensors that are never needed at the same moment may stand in the same place."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """size from moment `first` to moment `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: "Need") -> bool:
        """Whether both are needed at some moment."""
        return self.first <= other.last and other.first <= self.last


def share_room(needs: Mapping[str, Need], step: int) -> tuple[dict[str, int], int]:
    """The offset of each need, a multiple of `step`, and the size of the whole: the largest first, each at the lowest offset that is free."""
    placed: list[tuple[int, int, Need]] = []
    offsets = dict[str, int]()
    for name, need in sorted(needs.items(), key=lambda item: (-item[1].size, item[0])):
        at = 0
        for start, stop, _ in sorted((start, stop, other.first) for start, stop, other in placed if other.meets(need)):
            if start >= at + need.size:
                break
            at = max(at, -(-stop // step) * step)
        offsets[name] = at
        placed.append((at, at + need.size, need))
    return offsets, max((stop for _, stop, _ in placed), default=0)
