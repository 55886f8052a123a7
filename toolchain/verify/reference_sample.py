"""The last rung: what the fast engine leaves behind is what the reference engine leaves behind."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from toolchain.analysis.state import State
from toolchain.analysis.touched import first_difference
from toolchain.emulator.engines import engine_named
from toolchain.emulator.reference.elements import Element, read_bytes
from toolchain.emulator.reference.sample import disagreements, recompute
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.verify.verdict import Disagreement, Sampled
from toolchain.verify.writers import instruction_text


@dataclass(frozen=True)
class SampleSize:
    """How much the reference engine executes again. instructions: of a large program, each kind at least once; elements: of each of them.

    whole: a program that moves at most so many bytes, on chip and off, is executed as a whole. seed: of what is drawn.
    """

    instructions: int = 24
    elements: int = 4
    whole: int = 300_000
    seed: int = 0

    def share(self, number: int, regions: int) -> "SampleSize":
        """The part of region `number` of a model that has so many: all together take about as long as one large one, and each draws for itself."""
        return replace(self, instructions=ceil(self.instructions / regions), whole=self.whole // regions, seed=self.seed + number)


def sample_reference(
    program: Program, order: Ints, prints: Footprints, listing: Sequence[str], state: Callable[[], State], size: SampleSize
) -> Sampled:
    """order: in which instructions run one by one. state: makes a new state as it stands before the program.

    Raises UserError E07xx for what an engine refuses."""
    traffic = int(prints.traffic_read.sum() + prints.traffic_written.sum())
    if traffic <= size.whole:
        return _whole(program, order, state)
    return _some(program, order, listing, state(), size)


def _whole(program: Program, order: Ints, state: Callable[[], State]) -> Sampled:
    fast, reference = state(), state()
    engine_named("fast")(program, fast, order)
    engine_named("reference")(program, reference, order)
    return Sampled(len(program), len(program), 0, _compare_states(reference, fast))


def _compare_states(reference: State, fast: State) -> Disagreement | None:
    for name, memory in reference.memories.items():
        place = first_difference(memory, fast.memories[name])
        if place:
            held = (f"{state.memories[name][place]:#04x}" for state in (reference, fast))
            return Disagreement("", "", f"byte {place[1]:#x} of {name}[instance {place[0]}]", *held)
    return None


def _some(program: Program, order: Ints, listing: Sequence[str], state: State, size: SampleSize) -> Sampled:
    fast, done, elements, rank = engine_named("fast"), 0, 0, np.argsort(order)
    chosen = sorted(draw_instructions(program, size), key=rank.__getitem__)
    for index in chosen:
        fast(program, state, order[done : rank[index]])
        wanted = recompute(program, state, index, size.elements, size.seed + index)
        fast(program, state, np.arange(index, index + 1, dtype=np.int64))
        done, elements = rank[index] + 1, elements + len(wanted)
        wrong = disagreements(state, wanted)
        if wrong:
            text, found = instruction_text(program, index), read_bytes(state, wrong[0].element)
            return Sampled(
                len(chosen), len(program), elements,
                Disagreement(text, listing[index], _place(wrong[0].element), wrong[0].data.hex(), found.hex()),
            )  # fmt: skip
    return Sampled(len(chosen), len(program), elements)


def draw_instructions(program: Program, size: SampleSize) -> list[int]:
    """Indices in the program's order, drawn with the seed: one of each kind that there is, then any."""
    draw = random.Random(size.seed)
    kinds: Ints = np.unique(program.kind)
    chosen = {int(draw.choice(np.flatnonzero(program.kind == kind).tolist())) for kind in kinds.tolist()}
    others = [index for index in range(len(program)) if index not in chosen]
    chosen.update(draw.sample(others, min(max(size.instructions - len(chosen), 0), len(others))))
    return sorted(chosen)


def _place(element: Element) -> str:
    return f"{element.size} bytes from {element.start:#x} of {element.memory}[instance {element.instance}]"
