"""Footprints by the quickest way there is."""

from toolchain.emulator.state import State
from toolchain.isa import footprint_vector
from toolchain.isa.footprint import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.isa.provenance import Provenance


def footprints(program: Program, state: State, order: Ints, provenance: Provenance | None = None) -> Footprints:
    """What every instruction reads and writes, in C where there is a compiler, else with numpy; the same result."""
    return footprint_vector.footprints(program, state, order, provenance)
