"""The passes of several machines in one graph: each takes its turn at what the machines before it left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.offer import Offer
from toolchain.passes.partition import Partition


@dataclass(frozen=True)
class Turn:
    """passes: of one machine, in order. context: with that machine's numerics, templates and device."""

    passes: tuple[Pass, ...]
    context: Context


def steps_of(turns: Sequence[Turn]) -> tuple[tuple[Pass, Context], ...]:
    """Every pass of every turn with its context.

    The first turn has all passes; a further one begins with Offer and has its own from the first that is not of floating point. Regions are made
    last, of all machines at once.
    """
    found: list[tuple[Pass, Context]] = []
    for number, turn in enumerate(turns):
        before = tuple(earlier.context.device for earlier in turns[:number] if earlier.context.device)
        context = replace(turn.context, before=before, further=number < len(turns) - 1)
        passes = (Offer(), *turn.passes[len(float_passes(turn.passes)) :]) if number else turn.passes
        last = number == len(turns) - 1
        found += [(step, context) for step in passes if last or not isinstance(step, Partition)]
    return tuple(found)


def float_passes(passes: Sequence[Pass]) -> Sequence[Pass]:
    """Passes before the first that needs a calibration table, hides tensors from it, or makes regions."""
    names = [step.name for step in passes]
    ends = [names.index(name) for name in ("fuse", "quantize", "partition") if name in names]
    return passes[: min(ends, default=len(names))]
