"""Which step each instruction belongs to: numbers that survive being written as runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.test_compile_region import KERNELS, MACHINES, two_convolutions
from toolchain.abi.origins import NONE, Origins, Run, StepName, origins_of, runs_of
from toolchain.schedule.compile_region import compile_region

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
