"""Instructions that set a register to what it holds are left out; those of registers with one reader are not. Steps written at once and one by
one: the same instructions, each with its purpose and its step, and values of many tiles as columns."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.test_compile_region import KERNELS, MACHINES, block, two_convolutions
from toolchain.isa.assembly import disassemble
from toolchain.isa.program import NONE, Run, StepName
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.emit import plan_constants
from toolchain.schedule.form.realise import realise
from toolchain.schedule.kernels.constants import Fetch
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.program import Steps, ordered_steps
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.writer import Listed, OperationPart, Resident, Writer, part_of, repeatable, repeated_latches, step_frame

DPUV3 = load_machine("dpuv3")
SYNC = re.compile(r" (dpdon|dpdby) \S+")

KEYS = ("base", "segment", "channels", "channel")


@pytest.mark.parametrize(("machine", "names"), [("dpuv3", {"CONVINIT"}), ("vta", set[str]())])
def test_which_only_set_a_register_that_many_read(machine: str, names: set[str]) -> None:
    assert repeatable(load_machine(machine)) == names


def test_each_stream_has_registers_of_its_own() -> None:
    kinds = [instruction.name for instruction in DPUV3.instructions]
    latch, other = kinds.index("CONVINIT"), kinds.index("CONV")
    table = np.array([[1, 0], [2, 0]])
    given = [(0, latch, 0), (0, other, 0), (0, latch, 0), (1, latch, 0), (0, latch, 1), (0, latch, 0), (1, latch, 0), (0, other, 0)]
    stream, kind, row = np.array(given).T
    found = repeated_latches(DPUV3, kind, stream, row, {latch: table, other: table})
    assert found.tolist() == [False, False, True, False, False, False, True, False]


def test_a_program_sets_what_changes() -> None:
    compiled = compile_operation(DPUV3, load_kernel(DPUV3, "conv2d"), convolution((4, 32, 30, 30), (64, 3, 3), pads=(1, 1, 1, 1)), timed=1).compiled
    text = disassemble(compiled.program).splitlines()
    lines = [SYNC.sub("", line) for line in text if line.startswith("CONVINIT")]
    assert lines
    assert all(one != other for one, other in pairwise(lines))
    assert sum(line.startswith("CONV ") for line in text) > len(lines)


@cache
def steps_of(name: str) -> Steps:
    machine, kernels, region = MACHINES[name], KERNELS[name], two_convolutions() if name == "vta" else block(60)
    plan = realise(machine, kernels, region, find_schedule(machine, kernels, region))
    return ordered_steps(plan, find_rings(plan.problems))


def scope_of(part: OperationPart) -> dict[str, int]:
    """Every tensor at the beginning of DRAM, with no more channels than it has."""
    tensors = [*(tensor.name for tensor in part.problem.kernel.tensors), "constants"]
    return {f"{tensor}_{key}": 32 * (key == "channels") for tensor in tensors for key in KEYS}


def written(name: str) -> Listed:
    """The first operation, all of whose constants stand on chip already."""
    part = steps_of(name).parts[0]
    residency = plan_constants(MACHINES[name], [part], [(0, index) for index in range(len(part.steps))])
    writer = Writer(MACHINES[name])
    writer.prepare(0, part, scope_of(part), residency.places)
    for index in range(len(part.steps)):
        writer.step(0, part, index, scope_of(part), residency.fetches[index], residency.places[index])
    return writer.listed()


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_every_instruction_has_the_step_that_wrote_it(name: str) -> None:
    part, found = steps_of(name).parts[0], written(name)
    origins = found.origins()
    assert len(found.labels()) == len(found.batch) == len(origins.operation)
    assert set(origins.operation.tolist()) == {0}
    steps = origins.instance[origins.instance != NONE]
    assert np.array_equal(steps, np.sort(steps))
    for label, instance in zip(found.labels(), origins.instance.tolist(), strict=True):
        step = part.steps[instance].step
        assert label.startswith((f"{part.problem.operation.name} {step.kind} {step.place}", f"{part.problem.operation.name} constants"))


def test_a_step_written_alone_is_as_when_all_are_written_at_once() -> None:
    machine, part, whole = MACHINES["dpuv3"], steps_of("dpuv3").parts[0], written("dpuv3")
    for index in (0, len(part.steps) // 2, len(part.steps) - 1):
        writer, one = Writer(machine), part_of(part.problem, part.steps[index : index + 1])
        writer.prepare(0, one, scope_of(part), [()])
        writer.step(0, one, 0, scope_of(part), (), ())
        alone = iter(writer.listed().batch.kind.tolist())
        kinds = whole.batch.kind[whole.origins().instance == index].tolist()
        assert kinds
        assert all(kind in alone for kind in kinds)  # in this order; beside them, registers that were set before


def test_a_fetch_of_records_stands_before_its_step() -> None:
    machine, part = MACHINES["vta"], steps_of("vta").parts[0]
    index = next(number for number, item in enumerate(part.steps) if item.step.constants)
    held = [tuple(range(len(item.step.constants))) for item in part.steps]
    writer = Writer(machine)
    writer.prepare(0, part, scope_of(part), held)
    writer.step(0, part, index, scope_of(part), (Fetch(4, 8, 2),), held[index])
    found = writer.listed()
    runs = [piece.run for piece in found.pieces]
    assert [run.step for run in runs] == [StepName("constants", ""), StepName(part.steps[index].step.kind, part.steps[index].step.place)]
    assert found.labels()[0] == "first constants"


def test_values_of_many_tiles_are_columns_and_of_all_alike_numbers() -> None:
    part = steps_of("dpuv3").parts[0]
    chosen = [number for number, item in enumerate(part.steps) if (item.step.kind, item.step.place) == ("load", "x")]
    assert len(chosen) > 1
    frame = step_frame(part, {"x_base": 77}, chosen, [()] * len(part.steps))
    for name in part.names[chosen[0]]:
        values = [part.names[number][name] for number in chosen]
        assert np.broadcast_to(frame[name], len(chosen)).tolist() == values
        assert isinstance(frame[name], int) == (len(set(values)) == 1)
    assert (frame["x_base"], frame["kh"]) == (77, part.problem.numbers["kh"])


def test_no_items_are_no_piece() -> None:
    kernel, writer = KERNELS["dpuv3"]["conv2d"], Writer(MACHINES["dpuv3"])
    writer.add(kernel, (), {}, "nothing", Run(0, NONE, None, NONE))
    assert writer.pieces == []
    writer.add(kernel, kernel.end, {}, "end", Run(0, NONE, None, NONE))
    assert [(piece.first, piece.label) for piece in writer.pieces] == [(0, "end")]
    assert Resident(3, 7).stop - Resident(3, 7).first == 4
