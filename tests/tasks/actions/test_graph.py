"""The operations of several machines in one graph, and what a graph leaves in memory."""

import gc
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from toolchain.operations.library import Kinds, builtin_kinds
from toolchain.process import rare_collections
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.tasks.actions.graph import make_graph, shared_kinds
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import fulfil


def test_machines_share_the_operations_of_all() -> None:
    assert shared_kinds([load_machine("dpuv3"), load_machine("vta")]) == builtin_kinds()


def test_two_meanings_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = load_machine("dpuv3"), load_machine("vta")
    kinds = {"dpuv3": builtin_kinds(), "vta": {**builtin_kinds(), "add": replace(builtin_kinds()["add"], floats="r = Identity (a)")}}

    def kinds_of(machine: Machine) -> Kinds:
        return kinds[machine.name]

    monkeypatch.setattr("toolchain.tasks.actions.graph.kinds_of", kinds_of)
    with pytest.raises(UserError, match="E1208 machine 'vta' describes the operation 'add' otherwise than a machine before it in 'target'"):
        shared_kinds([first, second])


def test_nodes_do_not_stay_in_memory(tmp_path: Path) -> None:
    (steps,) = make_plan({"target": "vta", "model": "digits"}, tmp_path).steps
    step = steps["graph"]
    fulfil(step, lambda _: None)
    gc.freeze()  # what other tests left is not looked at, and stays so: to look through all that a worker holds takes half a minute
    with rare_collections():
        make_graph(step, lambda _: None)
        assert not any(isinstance(each, ir.Node) for each in gc.get_objects())
