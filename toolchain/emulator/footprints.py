"""Footprints by the quickest way there is."""

from toolchain.emulator.footprint_native import native_footprints
from toolchain.emulator.state import State
from toolchain.isa import footprint_vector
from toolchain.isa.footprint import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.isa.provenance import Provenance


def footprints(program: Program, state: State, order: Ints, provenance: Provenance | None = None) -> Footprints:
    """What every instruction reads and writes, in C where there is a compiler, else with numpy; the same result.

    Raises UserError E0608 for a control memory that cannot be followed, E0122 for an address that has no value.
    """
    provenance = provenance or Provenance(program, state, order)
    found = native_footprints(program, order, provenance)
    return footprint_vector.footprints(program, state, order, provenance) if found is None else found
