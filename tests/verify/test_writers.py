import numpy as np
import pytest

from tests.verify.regions import labelled, small
from toolchain.analysis.checks import prepare_program
from toolchain.isa.footprint.footprints import Footprints
from toolchain.verify.program_under_test import ProgramUnderTest
from toolchain.verify.writers import element_address, instruction_text, last_writer, sources


def prints(tested: ProgramUnderTest) -> Footprints:
    return prepare_program(tested.program, tested.state({})).footprints


@pytest.mark.parametrize("coordinates", [(0, 0, 0, 0), (0, 23, 5, 4), (0, 3, 2, 1)])
def test_an_elements_address_is_where_reading_finds_it(coordinates: tuple[int, int, int, int]) -> None:
    tested, _ = small()
    state = tested.state({})
    before = tested.result(state, "result")
    state.memories["dram"][0, element_address(tested.program.machine, tested.map, "result", coordinates)] ^= 0xFF
    changed = np.argwhere(tested.result(state, "result") != before)
    assert changed.tolist() == [list(coordinates)]


def test_the_writer_is_the_last_before_the_cut() -> None:
    tested, _ = small()
    byte = element_address(tested.program.machine, tested.map, "result", (0, 0, 0, 0))
    granule = byte // tested.program.machine.memory["dram"].granule
    writer = last_writer(prints(tested), tested.rank, "dram", granule, len(tested.program))
    assert writer == labelled(tested, "late store")
    assert last_writer(prints(tested), tested.rank, "dram", granule, writer) is None
    assert last_writer(prints(tested), tested.rank, "dram", 0, len(tested.program)) is None


def test_sources_lead_back_through_what_was_computed() -> None:
    tested, _ = small()
    found = sources(prints(tested), tested.rank, labelled(tested, "early store"))
    assert [tested.listing[k].split()[1] for k in found] == ["finish", "finish", "finish", "compute", "compute", "start"]


def test_an_instruction_is_told_as_it_is_assembled() -> None:
    tested, _ = small()
    store = labelled(tested, "early store")
    text = instruction_text(tested.program, store)
    assert text.startswith(f"#{store} STORE at {16 * store:#x}: STORE ")
    assert "x_size=30" in text
