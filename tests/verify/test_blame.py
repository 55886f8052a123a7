import numpy as np
import pytest

from tests.verify.regions import small
from toolchain.verify.blame import element_address, instruction_text, last_writer, sources


@pytest.mark.parametrize("coordinates", [(0, 0, 0, 0), (0, 16, 5, 4), (0, 3, 2, 1)])
def test_an_elements_address_is_where_reading_finds_it(coordinates: tuple[int, int, int, int]) -> None:
    compiled, expected = small()
    machine = compiled.program.machine
    state = compiled.state({"image": expected["image"]})
    before = compiled.result(state, "result")
    state.memories["dram"][0, element_address(machine, compiled.map, "result", coordinates)] ^= 0xFF
    changed = np.argwhere(compiled.result(state, "result") != before)
    assert changed.tolist() == [list(coordinates)]


def test_the_writer_is_the_last_before_the_cut() -> None:
    compiled, _ = small()
    prints, machine = compiled.checked.footprints, compiled.program.machine
    byte = element_address(machine, compiled.map, "result", (0, 0, 0, 0))
    writer = last_writer(prints, "dram", byte, len(compiled.program))
    assert writer is not None
    assert compiled.listing[writer].startswith("conv store")
    assert last_writer(prints, "dram", byte, writer) is None
    assert last_writer(prints, "dram", 0, len(compiled.program)) is None


def test_sources_lead_back_through_what_was_computed() -> None:
    compiled, _ = small()
    prints = compiled.checked.footprints
    store = next(k for k, label in enumerate(compiled.listing) if label.startswith("conv store"))
    kinds = [compiled.listing[k].split()[1] for k in sources(prints, store)]
    assert kinds == ["finish", "finish", "finish", "compute", "compute", "start"]


def test_an_instruction_is_told_as_it_is_assembled() -> None:
    compiled, _ = small()
    store = next(k for k, label in enumerate(compiled.listing) if label.startswith("conv store"))
    assert instruction_text(compiled.program, store).startswith(f"#{store} STORE at {16 * store:#x}: STORE ")
    assert "x_size=30" in instruction_text(compiled.program, store)
