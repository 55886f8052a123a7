import numpy as np
import pytest

from tests.verify.regions import labelled, small
from toolchain.analysis.checks import prepare_program
from toolchain.isa.footprint.footprints import Footprints
from toolchain.verify.blame import element_address, instruction_text, last_writer, sources
from toolchain.verify.subject import Subject


def prints(subject: Subject) -> Footprints:
    return prepare_program(subject.program, subject.state({})).footprints


@pytest.mark.parametrize("coordinates", [(0, 0, 0, 0), (0, 23, 5, 4), (0, 3, 2, 1)])
def test_an_elements_address_is_where_reading_finds_it(coordinates: tuple[int, int, int, int]) -> None:
    subject, _ = small()
    state = subject.state({})
    before = subject.result(state, "result")
    state.memories["dram"][0, element_address(subject.program.machine, subject.map, "result", coordinates)] ^= 0xFF
    changed = np.argwhere(subject.result(state, "result") != before)
    assert changed.tolist() == [list(coordinates)]


def test_the_writer_is_the_last_before_the_cut() -> None:
    subject, _ = small()
    byte = element_address(subject.program.machine, subject.map, "result", (0, 0, 0, 0))
    granule = byte // subject.program.machine.memory["dram"].granule
    writer = last_writer(prints(subject), "dram", granule, len(subject.program))
    assert writer == labelled(subject, "late store")
    assert last_writer(prints(subject), "dram", granule, writer) is None
    assert last_writer(prints(subject), "dram", 0, len(subject.program)) is None


def test_sources_lead_back_through_what_was_computed() -> None:
    subject, _ = small()
    found = sources(prints(subject), labelled(subject, "early store"))
    assert [subject.listing[k].split()[1] for k in found] == ["finish", "finish", "finish", "compute", "compute", "start"]


def test_an_instruction_is_told_as_it_is_assembled() -> None:
    subject, _ = small()
    store = labelled(subject, "early store")
    text = instruction_text(subject.program, store)
    assert text.startswith(f"#{store} STORE at {16 * store:#x}: STORE ")
    assert "x_size=30" in text
