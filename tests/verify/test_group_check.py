"""Groups as programs of their own give what their operations mean, and a wrong one is told. Kernels that take tiles from others: checked in
groups of random operations, and told apart from those that cannot be checked so. A kernel runs between other operations as well: slips that
show only there are found."""

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.made_regions import Builder, expected
from tests.schedule.search.made_graphs import space_on
from toolchain.operations.library import kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.search.templates import find_embeddings, fusion_graph, load_templates
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify import group_check
from toolchain.verify.group_check import check_groups, check_in_chain, check_in_group, region_values
from toolchain.verify.kernel_check import check_kernel, operations_for
from toolchain.verify.situations import Seen

MACHINE = load_machine("vta")
KINDS = kinds_of(MACHINE)
PASSED = [name for name, kernel in load_kernels(MACHINE).items() if kernel.passed]

TARGETS = Path(__file__).resolve().parents[2] / "targets"


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_every_embedding_of_a_block_is_exact(name: str) -> None:
    space = space_on(name)
    groups = [each.members for each in find_embeddings(load_templates(space.machine), fusion_graph(space.region))]
    assert 0 < check_groups(space, groups) <= len(groups)


def test_a_group_that_is_wrong_is_told_with_its_first_element(monkeypatch: pytest.MonkeyPatch) -> None:
    space, honest = space_on("vta"), Operation.run

    def biased(self: Operation, operands: dict[str, Array], numerics: Numerics) -> Array:
        found = honest(self, operands, numerics).copy()
        if self.name == "three":
            found[0, 3, 2, 1] ^= 1
        return found

    monkeypatch.setattr(Operation, "run", biased)
    with pytest.raises(UserError, match=r"E1305 'narrow3', 'three' as a group make -?\d+ at \[0, 3, 2, 1\] of 'b', not"):
        check_groups(space, [(2, 3)])


@settings(max_examples=30)
@given(st.integers(0, 1 << 20), st.integers(1, 8))
def test_values_are_those_of_the_tests_own_reference(seed: int, steps: int) -> None:
    region = Builder(np.random.default_rng(seed), {"conv2d", "add", "max_pool"}).region(steps)
    rng = np.random.default_rng(seed)
    inputs = {name: rng.integers(-128, 128, tuple(region.tensors[name]), np.int8) for name in region.inputs}
    found, wanted = region_values(region, inputs, Numerics()), expected(region, inputs, Numerics())
    assert all(np.array_equal(values, wanted[name]) for name, values in found.items())
    assert {bound.tensors["y"] for bound in region.operations} <= found.keys()
    assert replace(region, operations=()).operations == ()


def problems(name: str) -> list[Problem]:
    kernel = load_kernels(MACHINE)[name]
    drawn = operations_for(MACHINE, kernel, KINDS[kernel.computes], np.random.default_rng(0))
    return [problem for problem in islice(drawn, 60) if problem is not None]


def test_there_are_such_kernels() -> None:
    assert PASSED


@pytest.mark.parametrize("name", PASSED)
def test_programs_of_several_tilings_are_run(name: str) -> None:
    found = (check_in_group(problem, KINDS, np.random.default_rng(1)) for problem in problems(name))
    assert next((count for count in found if count), 0) > 1


def test_none_is_run_where_no_operation_makes_its_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem, *_) = problems(PASSED[0])
    monkeypatch.setattr(group_check, "load_kernels", lambda _: {problem.kernel.name: problem.kernel})
    assert check_in_group(problem, KINDS, np.random.default_rng(1)) == 0


def chained_problems(machine: Machine, name: str, count: int) -> list[Problem]:
    kernel = load_kernels(machine)[name]
    drawn = operations_for(machine, kernel, kinds_of(machine)[kernel.computes], np.random.default_rng(0))
    return list(islice((problem for problem in drawn if problem is not None), count))


@pytest.mark.parametrize(("target", "kernel"), [("vta", "add"), ("dpuv3", "max_pool"), ("dnnvm", "conv2d"), ("stcp920", "depthwise")])
def test_programs_with_and_without_tensors_on_chip_are_run(target: str, kernel: str) -> None:
    machine = load_machine(target)
    found = [check_in_chain(problem, kinds_of(machine), np.random.default_rng(1), Seen()) for problem in chained_problems(machine, kernel, 4)]
    assert max(found) == 3  # with tensors on chip in two tilings


def test_a_layout_that_no_operation_writes_goes_without_one_before_it() -> None:
    """The host writes the picture of a first layer in squares."""
    machine = load_machine("vta")
    assert (
        sum(check_in_chain(problem, kinds_of(machine), np.random.default_rng(1), Seen()) for problem in chained_problems(machine, "squares", 4)) > 0
    )


WRONG = [
    (
        "dpuv3",
        "upsample",
        "kernels.yaml",
        "        left: 0\n        top: 0\n        pair: 1",
        "        left: 0\n        top: 1\n        pair: 1",
        "whole",
    ),
    (
        "dpuv3",
        "upsample",
        "kernels.yaml",
        "          reg_id: place.segment\n          bank_id: place.bank(kept)",
        "          reg_id: 0\n          bank_id: place.bank(kept)",
        "segment",
    ),
    (
        "stcp920",
        "spaced_attention_values",
        "sequences.yaml",
        "LOADT: {space: llb if z_shared else ddr, cores: z_receivers, local: z_slot, rows: i, width: deep",
        "LOADT: {space: ddr, cores: z_receivers, local: z_slot, rows: i, width: deep",
        "second-operand",
    ),
    ("stcp920", "strided", "kernels.yaml", "kept: w_near_base + first % w_near_size", "kept: w_near_base - first % w_near_size", "waiting-weights"),
]
"""What stands on chip as a whole, or in a memory that streams share, and what an operation before it left in DRAM: none happens to an operation by
itself. Weights that wait elsewhere than in their room are right as long as the room is another one's."""


@pytest.mark.parametrize(("target", "kernel", "file", "old", "new"), [row[:5] for row in WRONG], ids=[row[5] for row in WRONG])
def test_a_slip_that_shows_beside_others_alone_is_found(
    target: str, kernel: str, file: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TARGETS / f"{target}.yaml", tmp_path)
    shutil.copytree(TARGETS / target, tmp_path / target)
    text = (tmp_path / target / file).read_text()
    assert old in text
    (tmp_path / target / file).write_text(text.replace(old, new))
    machine = load_machine(str(tmp_path / f"{target}.yaml"))
    with pytest.raises(UserError, match=r"E1305 kernel '\w+' .*, in a program of |E0\d\d\d|E1307"):
        check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 12)
    monkeypatch.setattr("toolchain.verify.kernel_check.check_in_chain", lambda *_: 0)
    assert check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 4).computed == 4
