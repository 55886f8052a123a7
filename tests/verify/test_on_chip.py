"""Tensors on chip are read as they stand, and a wrong element leads to the instruction that wrote it."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution, direct, image
from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, flat_schedule_of
from tests.schedule.made_regions import expected
from tests.schedule.test_compile_region import images
from tests.verify.regions import labelled, small, with_field
from toolchain.abi.dram_map import Shape
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.state import State
from toolchain.emulator import engine_named
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Origins, StepName
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.built import ProgramUnderTest, program_of_region
from toolchain.verify.on_chip import ON_CHIP, OnChipReader, TensorReader, after_work, element_address, instruction_text, last_writer, sources
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.region_ladder import climb_region


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
    assert [tested.listing[k].split()[1] for k in found] == ["finish", "finish", "finish", "compute", "load"]


def test_an_instruction_is_told_as_it_is_assembled() -> None:
    tested, _ = small()
    store = labelled(tested, "early store")
    text = instruction_text(tested.program, store)
    assert text.startswith(f"#{store} STORE at {16 * store:#x}: STORE ")
    assert "x_size=30" in text


FEW = SampleSize(instructions=1, elements=1, whole=0)
Tensors = dict[str, NDArray[Any]]


@cache
def chain() -> tuple[ProgramUnderTest, OnChipReader, Tensors]:
    """image, early, middle, late, result; the one in the middle stays on chip."""
    machine = load_machine("dpuv3")
    early = convolution((4, 20, 6, 5), (17, 3, 3), bias=50, pads=(1, 1, 1, 1), low=0, high=127)
    late = convolution((4, 17, 6, 5), (24, 1, 1), seed=2, bias=50, shift=7, low=0, high=127)
    shapes = {"image": Shape(*early.input("x")), "middle": Shape(*early.output), "result": Shape(*late.output)}
    steps = Bound(replace(early, name="early"), {"x": "image", "y": "middle"}), Bound(replace(late, name="late"), {"x": "middle", "y": "result"})
    region = Region("region", shapes, ("image",), ("result",), steps, {})
    real, stored = (compile_region(machine, load_kernels(machine), region, Options(stored=stored)) for stored in (False, True))
    middle = direct(early, image(early)).astype(np.int8)
    return program_of_region(real), OnChipReader(stored), {"image": image(early), "middle": middle, "result": direct(late, middle).astype(np.int8)}


def looked_at(tested: ProgramUnderTest, peek: OnChipReader, state: State) -> NDArray[Any]:
    """The tensor in the middle, out of a state in which it is complete."""
    (piece,) = peek.pieces("middle", tested.origins, tested.program.stream)
    return peek.read(peek.copy(state, piece), "middle")


def test_every_tensor_is_compared_wherever_it_is() -> None:
    tested, peek, expected = chain()
    assert "middle" not in tested.map.tensors
    verdict = climb_region(tested, expected, FEW, peek)
    assert verdict.exact
    assert [(item.tensor, item.where) for item in verdict.compared] == [("image", "ddr"), ("middle", ON_CHIP), ("result", "ddr")]


def test_without_a_way_to_read_it_the_verdict_says_so() -> None:
    tested, _, expected = chain()
    verdict = climb_region(tested, expected, FEW)
    assert not verdict.exact
    assert verdict.unseen == (("middle", "it never reaches DRAM, and nothing says how to read it on chip"),)
    with pytest.raises(KeyError):
        TensorReader(tested).read(tested.state({}), "middle", {})


def test_reading_changes_nothing() -> None:
    tested, peek, expected = chain()
    state = tested.state({"image": expected["image"]})
    stop = int(np.flatnonzero(tested.owner == 0)[-1]) + 1
    engine_named("fast")(tested.program, state, np.arange(stop))
    before = state.copy()
    assert np.array_equal(looked_at(tested, peek, state), expected["middle"])
    assert all(np.array_equal(before.memories[name], state.memories[name]) for name in ("fm", "pm"))
    engine_named("fast")(tested.program, state, np.arange(stop, len(tested.program)))
    assert np.array_equal(tested.result(state, "result"), expected["result"])


def test_what_nothing_computed_is_not_taken_for_right() -> None:
    tested, peek, expected = chain()
    assert not np.array_equal(looked_at(tested, peek, tested.state({"image": expected["image"]})), expected["middle"])


@pytest.mark.parametrize("coordinates", [(0, 0, 0, 0), (3, 16, 5, 4), (2, 5, 3, 1)])
def test_an_element_on_chip_is_where_reading_finds_it(coordinates: tuple[int, int, int, int]) -> None:
    tested, peek, _ = chain()
    state = tested.state({})
    found = peek.locate(state, "middle", coordinates)
    assert found is not None
    before = looked_at(tested, peek, state)
    state.memories[found.memory][found.instance, found.start : found.start + found.size] ^= 0x7F
    changed = np.argwhere(looked_at(tested, peek, state) != before).tolist()
    assert list(coordinates) in changed
    assert len(changed) <= found.size


def test_a_fault_on_chip_is_traced_to_its_instruction() -> None:
    tested, peek, expected = chain()
    start = labelled(tested, "early compute")
    init = next(k for k in range(start, len(tested.program)) if tested.program.machine.instructions[int(tested.program.kind[k])].name == "CONVINIT")
    broken = with_field(tested, init, "shift_cut", tested.program.field(init, "shift_cut") + 1)
    verdict = climb_region(broken, expected, FEW, peek)
    found = verdict.difference
    assert found is not None
    assert (found.tensor, found.operation) == ("middle", "early")
    assert found.writer is not None
    assert found.writer.place.startswith("fm[")
    assert " CONV at " in found.writer.instruction


def test_a_piece_is_there_when_all_steps_before_its_store_are_done() -> None:
    """Units take their work in an order of their own: the second tile's copies may be done before the first one's."""
    names = (StepName("compute", "y"), StepName("finish", "y"), StepName("store", "y"))

    def origins(*steps: tuple[int, int]) -> Origins:
        step, instance = np.array(steps, np.int64).T
        return Origins(names, np.zeros(len(steps), np.int64), step, instance)

    stored = origins((0, 0), (1, 1), (2, 2), (0, 3), (1, 4), (2, 5))
    real = origins((0, 0), (0, 2), (1, 3), (1, 1))
    assert [(stop, stores.tolist()) for stop, stores in after_work(real, stored, 0)] == [(4, [2]), (4, [5])]
    assert [stop for stop, _ in after_work(origins((0, 0), (1, 1), (0, 2), (1, 3)), stored, 0)] == [2, 4]


def test_a_wrong_row_at_the_beginning_of_a_round_shows_in_the_tensor_that_is_made_of_it() -> None:
    """Rows that stand in two rounds are read at the end of the first one. The slab that makes them again writes to another place of the ring here."""
    (machine, kernels), region, schedule = short_machine(), CHAINS["conv -> conv"], flat_schedule_of("conv -> conv")
    real, stored = (compile_region(machine, kernels, region, Options(stored=stored), schedule) for stored in (False, True))
    tested, wanted = program_of_region(real), expected(region, images(region), machine.quantisation or Numerics())
    assert climb_region(tested, wanted, FEW, OnChipReader(stored)).exact
    first, again = [number for number, label in enumerate(tested.listing) if label.startswith("op0 compute y n=0:1 oc=0:1 oh=136:144")]
    for conv, wrong in ((first, "t0"), (again, "t1")):
        address = tested.program.field(conv, "bank_addr_out")
        found = climb_region(with_field(tested, conv, "bank_addr_out", address + 1), wanted, FEW, OnChipReader(stored)).difference
        assert found is not None
        assert found.tensor == wrong
