"""When each tensor of a region is complete: the places where a run is stopped to look."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.program import Ints
from toolchain.schedule.regions.region import Region


@dataclass(frozen=True)
class Checkpoint:
    """After the first `stop` instructions, operation number `operation` is done (-1: before any), and so are these tensors."""

    operation: int
    stop: int
    tensors: tuple[str, ...]


def find_checkpoints(region: Region, owner: Ints) -> tuple[Checkpoint, ...]:
    """One cut for each operation, in the order in which they are done. owner: the operation of each instruction, in the order in which these run.

    Raises ValueError where an operation has no instruction.
    """
    stops = [_last(owner, number) + 1 for number in range(len(region.operations))]
    done = _completed(region, stops)
    first = Checkpoint(-1, 0, tuple(name for name, number in done.items() if number < 0))
    rest = [Checkpoint(k, stop, tuple(name for name, number in done.items() if number == k)) for k, stop in enumerate(stops)]
    return first, *sorted(rest, key=lambda cut: (cut.stop, cut.operation))


def _last(owner: Ints, operation: int) -> int:
    mine = np.flatnonzero(owner == operation)
    if not len(mine):
        raise ValueError(f"operation {operation} has no instruction")
    return int(mine[-1])


def _completed(region: Region, stops: Sequence[int]) -> Mapping[str, int]:
    """By tensor: the operation after which it is complete, -1 where the host writes it. Tensors put side by side wait for the last of them, one that
    is read out of another for that one.

    stops: how much of the program each operation takes to be done."""
    made = dict.fromkeys(region.inputs, -1) | {bound.tensors["y"]: number for number, bound in enumerate(region.operations)}

    def completed(name: str) -> Iterator[int]:
        if name in made:
            yield made[name]
        else:
            for part in region.parts.get(name, ()):
                yield from completed(part)

    found = {name: max(completed(region.viewed(name)), key=lambda number: (0, *stops)[number + 1], default=-2) for name in region.tensors}
    return {name: number for name, number in found.items() if number >= -1}
