"""Programs name their instructions, know each stream's place and the queues in which instructions stand.

Which step each instruction belongs to: numbers that survive being written as runs.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.schedule.test_compile_region import KERNELS, MACHINES, two_convolutions
from tests.token_machine import program, token_machine
from toolchain.isa.assembly import assemble
from toolchain.isa.program import NONE, Origins, Run, StepName, origins_of, program_queues, queue_table, runs_of, stream_index
from toolchain.schedule.compile_region import compile_region
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

TEXT = "MOVE side=right where=7 count=3\nEND\n"


def test_labels_say_the_stream_where_there_are_several() -> None:
    one = assemble(coded_machine(), Source("a", TEXT))
    three = assemble(coded_machine(cores=3), Source("a", f".stream 2\n{TEXT}"))
    assert [one.label(i) for i in (0, 1)] == ["#0 MOVE at 0x0", "#1 END at 0x6"]
    assert three.label(1) == "#1 END at 0x6 of stream 2"
    assert len(one) == 2
    assert one.field(0, "where") == 7


def test_every_stream_has_its_own_queues() -> None:
    three = assemble(coded_machine(cores=3), Source("a", f".stream 2\n{TEXT}"))
    assert three.queues == 6
    assert three.queue.tolist() == (2 * 2 + three.unit).tolist()


def test_the_outer_level_varies_slowest() -> None:
    machine = load_machine("stcp920")
    streams = np.arange(machine.streams)
    assert stream_index(machine, "cluster", streams).tolist() == [s // 8 for s in range(32)]
    assert stream_index(machine, "core", streams).tolist() == [s % 8 for s in range(32)]
    with pytest.raises(KeyError):
        stream_index(machine, "device", streams)


def test_instructions_stand_in_their_queues_in_order() -> None:
    table = queue_table(np.array([2, 0, 2, 2, 0]), 4)
    assert [table.item[a:b].tolist() for a, b in zip(table.start[:-1], table.start[1:], strict=True)] == [[1, 4], [], [0, 2, 3], []]
    assert table.position.tolist() == [0, 0, 1, 2, 1]
    assert table.first.tolist() == [0, 5]


def test_streams_and_depths_are_the_machines() -> None:
    machine = token_machine(topology="topology: {core: {count: 2, streams: true}}\n")
    short = replace(machine, units=tuple(replace(u, depth=3 if u.name == "b" else None) for u in machine.units))
    table = program_queues(program(short, [{"unit": 0}, {"unit": 2}], [{"unit": 1}]))
    assert table.stream.tolist() == [0, 0, 0, 1, 1, 1]
    assert table.room.tolist() == [-1, 3, -1, -1, 3, -1]
    assert table.first.tolist() == [0, 2, 3]
    assert table.queue.tolist() == [0, 2, 4]


NAMES = st.sampled_from([None, StepName("load", "x"), StepName("store", "y"), StepName("constants", "")])
RUNS = st.lists(st.builds(Run, st.integers(1, 4), st.integers(-1, 3), NAMES, st.integers(-1, 9)), max_size=12)


def rows(origins: Origins) -> list[tuple[int, StepName | None, int]]:
    names = [*origins.steps, None]
    columns = zip(origins.operation.tolist(), origins.step.tolist(), origins.instance.tolist(), strict=True)
    return [(operation, names[step], instance) for operation, step, instance in columns]


@given(RUNS)
def test_runs_and_columns_say_the_same(runs: list[Run]) -> None:
    found = origins_of(runs)
    assert rows(found) == [(run.operation, run.step, run.instance) for run in runs for _ in range(run.length)]
    again = origins_of(runs_of(found))
    assert rows(again) == rows(found)
    assert runs_of(again) == runs_of(found)


def test_what_is_made_from_nothing_belongs_to_nothing() -> None:
    found = origins_of([Run(2, 5, StepName("load", "x"), 7)]).taken(np.array([NONE, 1, 0]))
    assert found.operation.tolist() == [NONE, 5, 5]
    assert found.renumbered([0, 0, 0, 0, 0, 2]).operation.tolist() == [NONE, 2, 2]
    assert found.does("load").tolist() == [False, True, True]
    assert not found.does("store", "compute").any()
    assert found.does("store", "load").tolist() == [False, True, True]


def test_every_instruction_of_a_program_has_its_step() -> None:
    compiled = compile_region(MACHINES["vta"], KERNELS["vta"], two_convolutions())
    names = [bound.operation.name for bound in compiled.region.operations]
    for label, (operation, step, instance) in zip(compiled.listing, rows(compiled.origins), strict=True):
        if step is None:
            assert (label in ("", "end"), operation, instance) == (True, NONE, NONE)
        else:
            assert label.startswith(f"{names[operation]} {step.kind} {step.place}".rstrip())
            assert instance >= 0
