"""A length that was not quantised itself computes with the constants of the one that was."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.lengths_network import built
from toolchain.graph.rewrite import add_constant, constant, known_shape
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model, read_stage
from toolchain.passes.resize import resized
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import graph_files


@cache
def stages(number: int) -> dict[str, Path]:
    """Of the length with this number, by the name of the pass."""
    return {path.stem.partition("-")[2]: path for path in graph_files(built().plan.jobs[number])}


def stage(number: int, name: str) -> ir.Model:
    return read_stage(stages(number)[name])


def test_the_largest_length_is_quantised_and_the_other_takes_its_integers() -> None:
    small, large = stage(0, "quantize"), stage(1, "quantize")
    assert [node.op_identifier() for node in small.graph] == [node.op_identifier() for node in large.graph]
    held = {name: constant(value) for name, value in large.graph.initializers.items()}
    other = {name for name, value in small.graph.initializers.items() if not np.array_equal(constant(value), held[name])}  # type: ignore[arg-type]
    assert other == {"positions.folded"}  # a part of a table, as long as the sequence
    assert {known_shape(value) for value in small.graph.inputs} == {(1, 8)}


def test_the_resized_network_is_the_quantised_one_where_all_is_kept() -> None:
    """At the length that was quantised nothing changes; at another, rows see each other alike, so a masked sample has the same results."""
    ids, mask = np.zeros((1, 16), np.int64), np.zeros((1, 16), np.int64)
    ids[0, :6], mask[0, :6] = [3, 1, 4, 1, 5, 9], 1
    large = open_model(resized(stage(1, "fuse"), stage(1, "fuse"), stage(1, "quantize")))
    small = open_model(resized(stage(0, "fuse"), stage(1, "fuse"), stage(1, "quantize")))
    whole = run_session(large, {"ids": ids, "mask": mask})["words"]
    assert np.array_equal(run_session(open_model(stage(1, "quantize")), {"ids": ids, "mask": mask})["words"], whole)
    assert np.allclose(run_session(small, {"ids": ids[:, :8], "mask": mask[:, :8]})["words"][:, :6], whole[:, :6], atol=1e-6)


def _renamed(model: ir.Model) -> None:
    next(iter(model.graph)).name = "another"


def _shorter(model: ir.Model) -> None:
    model.graph.remove(next(node for node in reversed(list(model.graph))), safe=False)


def _other_attribute(model: ir.Model) -> None:
    node = next(node for node in model.graph if node.op_type == "Softmax")
    node.attributes["axis"] = ir.AttrInt64("axis", 2)


@pytest.mark.parametrize(("change", "word"), [(_renamed, "another has 'another'"), (_shorter, "nodes, another has")])
def test_networks_of_other_nodes_are_refused(change: object, word: str) -> None:
    other = stage(0, "fuse")
    change(other)  # type: ignore[operator]
    with pytest.raises(UserError, match="E0933") as raised:
        resized(other, stage(1, "fuse"), stage(1, "quantize"), "m.onnx")
    assert word in str(raised.value)


def test_an_attribute_that_depends_on_the_length_is_taken_over() -> None:
    other = stage(0, "fuse")
    _other_attribute(other)
    made = resized(other, stage(1, "fuse"), stage(1, "quantize"))
    assert next(node for node in made.graph if node.op_type == "Softmax").attributes["axis"].as_int() == 2


def test_integers_that_were_made_of_a_constant_of_another_length_are_refused() -> None:
    integer = stage(1, "quantize")
    add_constant(integer.graph, "wq.rows.int.more", np.ones(3, np.int8))
    other = stage(0, "fuse")
    other.graph.initializers["wq.rows"].const_value = ir.tensor(np.ones((16, 16), np.float32), name="wq")
    with pytest.raises(UserError, match=r"E0933 .*'wq.rows' depends on the length"):
        resized(other, stage(1, "fuse"), integer)
