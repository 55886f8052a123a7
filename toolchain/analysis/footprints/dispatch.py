"""Footprints by the quickest way there is."""

from toolchain.analysis.footprints.native import native_footprints
from toolchain.analysis.state import State
from toolchain.isa.footprint import vector as footprint_vector
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program


def footprints(program: Program, state: State, order: Ints, provenance: Provenance | None = None) -> Footprints:
    """The reads and writes of every instruction, in C where there is a compiler, else with numpy; the same result.

    Raises UserError E0608 for a control memory that cannot be followed, E0122 for an address that has no value.
    """
    provenance = provenance or Provenance(program, state, order)
    found = native_footprints(program, order, provenance)
    return footprint_vector.footprints(program, state, order, provenance) if found is None else found
