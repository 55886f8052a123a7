"""Steps written at once and one by one: the same instructions, each with its purpose and its step, and values of many tiles as columns."""

from functools import cache

import numpy as np
import pytest

from tests.schedule.test_compile_region import KERNELS, MACHINES, block, two_convolutions
from toolchain.abi.origins import NONE, Run, StepName
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.emit import plan_constants
from toolchain.schedule.form.realise import realise
from toolchain.schedule.kernels.constants import Fetch
from toolchain.schedule.program import Steps, ordered_steps
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.writer import Listed, OperationPart, Resident, Writer, part_of, step_frame

KEYS = ("base", "segment", "channels", "channel")


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
