"""A state of one step is an input of the next, in every sequence from its start; moves around it that undo each other are left out, others stay."""

import math

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.states import Sequences, Tensors, carried, carried_pairs, each_step, undone, unrolled
from toolchain.spec.arrays import Array

NUMBERS = st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=4)


def add(inputs: Tensors) -> dict[str, Array]:
    """Sums from the start on, and the step's own number again."""
    return {"next": inputs["sum"] + inputs["x"], "y": inputs["x"]}


def sums(numbers: list[list[int]], start: int) -> Sequences:
    return Sequences({"x": np.array(numbers)[..., None]}, {"sum": "next"}, {"sum": np.array([start])})


@given(NUMBERS, st.integers(-9, 9))
def test_every_step_is_a_sample_with_the_state_that_the_steps_before_it_made(numbers: list[list[int]], start: int) -> None:
    found = unrolled(add, sums(numbers, start))
    wanted = start + np.cumsum([[0, *sequence[:-1]] for sequence in numbers], axis=1)
    assert np.array_equal(found["sum"], wanted.reshape(-1, 1))
    assert np.array_equal(found["x"], np.array(numbers).reshape(-1, 1))


@given(NUMBERS, st.integers(-9, 9))
def test_one_sequence_ends_in_its_own_sum(numbers: list[list[int]], start: int) -> None:
    for number, sequence in enumerate(numbers):
        steps = list(each_step(add, sums(numbers, start), number))
        assert len(steps) == 3
        assert steps[-1][1]["next"].tolist() == [start + sum(sequence)]


def test_a_network_of_states_alone_has_one_step() -> None:
    alone = Sequences({}, {"sum": "next"}, {"sum": np.array([1])})
    assert (alone.count, alone.steps, alone.sequence(0)) == (1, 1, [{}])


FLOAT = TensorProto.FLOAT
Move = tuple[str, tuple[int, ...]]
"""A Transpose and its axes, or a Reshape and its sizes."""


def step(shape: tuple[int, ...], enter: list[Move], leave: list[Move], watched: str = "") -> ir.Model:
    """A state x [shape] to y, with a sum of one between its moves. watched: a tensor that is an output as well."""
    nodes, constants, extents = list[onnx.NodeProto](), list[onnx.TensorProto](), {"x": shape}

    def chain(source: str, moves: list[Move], word: str, last: str = "") -> str:
        for number, (kind, numbers) in enumerate(moves):
            name = last if last and number == len(moves) - 1 else f"{word}{number}"
            if kind == "Transpose":
                nodes.append(helper.make_node(kind, [source], [name], name, perm=numbers))
                extents[name] = tuple(extents[source][axis] for axis in numbers)
            else:
                constants.append(numpy_helper.from_array(np.array(numbers, np.int64), f"{name}.sizes"))
                nodes.append(helper.make_node(kind, [source, f"{name}.sizes"], [name], name))
                extents[name] = numbers
            source = name
        return source

    taken = chain("x", enter, "enter")
    constants.append(numpy_helper.from_array(np.float32(1), "one"))
    made = "made" if leave else "y"
    nodes.append(helper.make_node("Add", [taken, "one"], [made], "add"))
    extents[made] = extents[taken]
    chain(made, leave, "leave", "y")
    info = [helper.make_tensor_value_info(name, FLOAT, size) for name, size in extents.items()]
    ends = {entry.name: entry for entry in info}
    outputs = [ends[name] for name in dict.fromkeys(["y", *filter(None, [watched])])]
    graph = helper.make_graph(nodes, "step", [ends["x"]], outputs, constants, value_info=[entry for entry in info if entry.name not in ("x", "y")])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


BY_HEADS, ROWS = ("Transpose", (0, 2, 1, 3)), ("Reshape", (1, 6, 8))
HEADS = (1, 2, 6, 4)


def test_a_cache_by_heads_goes_round_as_a_sequence() -> None:
    model = step(HEADS, [BY_HEADS, ROWS], [("Reshape", (1, 6, 2, 4)), BY_HEADS])
    assert carried_pairs(model.graph, {"x": "y"}) == {"enter1": "made"}


def test_as_many_moves_as_are_undone_are_left_out() -> None:
    """The Transpose at the end undoes the one in front; the Reshape between stays."""
    model = step(HEADS, [BY_HEADS, ("Reshape", (1, 3, 4, 4))], [("Reshape", (1, 6, 2, 4)), BY_HEADS])
    found = carried(model.graph.inputs[0], model.graph.outputs[0])
    assert [node.op_type for node in found.enter] == ["Transpose", "Reshape"]  # three rows of four heads are six of two
    other = step((1, 6, 2, 4), [("Reshape", (1, 6, 8))], [("Reshape", (1, 6, 4, 2)), ("Reshape", (1, 6, 2, 4))])
    assert carried_pairs(other.graph, {"x": "y"}) == {"enter0": "made"}


def test_moves_that_do_not_undo_each_other_stay() -> None:
    model = step((1, 2, 2, 4), [BY_HEADS], [("Transpose", (0, 1, 2, 3)), ("Reshape", (1, 2, 2, 4))])
    assert carried_pairs(model.graph, {"x": "y"}) == {"x": "y"}


def test_a_state_that_something_else_reads_stays() -> None:
    moves: list[Move] = [BY_HEADS, ROWS]
    back: list[Move] = [("Reshape", (1, 6, 2, 4)), BY_HEADS]
    assert carried_pairs(step(HEADS, moves, back, watched="enter0").graph, {"x": "y"}) == {"x": "y"}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_moves_and_their_inverses_in_turn_undo_each_other(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    size, enter, back = shape, list[Move](), list[Move]()
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            perm = tuple(data.draw(st.permutations(range(len(size)))))
            enter.append(("Transpose", perm))
            back.append(("Transpose", tuple(int(axis) for axis in np.argsort(perm))))
            size = tuple(size[axis] for axis in perm)
        else:
            before, count = size, math.prod(size)
            first = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
            size = (first, count // first)
            enter.append(("Reshape", size))
            back.append(("Reshape", before))
    model = step(shape, enter, back[::-1])
    found = carried(model.graph.inputs[0], model.graph.outputs[0])
    assert (found.taken.name, found.made.name) == (f"enter{len(enter) - 1}", "made")
    assert undone(found.enter, found.leave, shape)
