"""Open dimensions: all of them told at once, one by its own key or several by a shared name."""

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.graph.onnx_builder import PATH, model
from toolchain.graph.importing.dims import fix_dims, open_axes
from toolchain.spec.errors import UserError


def two_inputs(**shapes: list[int | str | None]) -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "z"], ["y"])], shapes, {"y": None})


def sizes(proto: onnx.ModelProto) -> dict[str, list[int]]:
    return {entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in proto.graph.input}


def dims_refusal(proto: onnx.ModelProto, **dims: int) -> str:
    with pytest.raises(UserError) as caught:
        fix_dims(proto, {name.replace("__", "."): size for name, size in dims.items()}, PATH)
    return str(caught.value)


axes = st.lists(st.one_of(st.integers(1, 9), st.none(), st.sampled_from(["batch", "height"])), min_size=1, max_size=4)


@given(axes, axes, st.integers(1, 9), st.booleans())
def test_every_axis_has_a_size_afterwards_and_none_that_had_one_changes(
    x: list[int | str | None], z: list[int | str | None], size: int, named: bool
) -> None:
    proto = two_inputs(x=x, z=z)
    found = open_axes(proto.graph)
    assert [axis.key for axis in found] == [
        f"{name}.{k}" for name, shape in (("x", x), ("z", z)) for k, each in enumerate(shape) if type(each) is not int
    ]
    dims = {axis.name if named and axis.name else axis.key: size for axis in found}
    fix_dims(proto, dims, PATH)
    assert sizes(proto) == {name: [each if type(each) is int else size for each in shape] for name, shape in (("x", x), ("z", z))}
    assert open_axes(proto.graph) == []


def test_an_axis_of_its_own_wins_over_its_name() -> None:
    proto = two_inputs(x=["batch", 3], z=["batch", 3])
    fix_dims(proto, {"batch": 1, "z.0": 7}, PATH)
    assert sizes(proto) == {"x": [1, 3], "z": [7, 3]}


def test_all_that_are_missing_are_told_at_once() -> None:
    told = dims_refusal(two_inputs(x=["batch", None, 3], z=["batch", "height"]), batch=1)
    assert told == (
        "net.onnx: E0904 sizes are open: dimension 1 of the input 'x' (unnamed), dimension 1 of the input 'z' ('height'); "
        "give each one, such as dim=x.1:1,height:1"
    )


def test_a_name_of_several_axes_is_asked_for_by_axis() -> None:
    assert dims_refusal(two_inputs(x=["n", 3], z=["n", 3])).endswith("give each one, such as dim=x.0:1,z.0:1")


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"bach": 1, "batch": 1}, "E0905 no dimension of the inputs is called 'bach'; did you mean 'batch'?"),
        ({"x__1": 1, "batch": 1}, "E0905 no dimension of the inputs is called 'x.1'"),
        ({"batch": 0}, "E0904 dimension 'x.0' cannot be 0; a size is at least 1"),
        ({"batch": 1 << 31}, "E0904 the input 'x' of shape 2147483648x3 has more than 67108864 elements"),
    ],
)
def test_sizes_that_cannot_be(dims: dict[str, int], words: str) -> None:
    assert words in dims_refusal(two_inputs(x=["batch", 3], z=[1, 3]), **dims)


def test_a_constant_that_is_an_input_too_has_no_open_axis() -> None:
    proto = two_inputs(x=[1, 3], z=["batch", 3])
    proto.graph.initializer.add(name="z", dims=[1, 3], data_type=1, raw_data=bytes(12))
    assert open_axes(proto.graph) == []


def test_a_constant_may_be_larger_than_any_input() -> None:
    proto = two_inputs(x=[1 << 14, 1 << 14], z=[1, 1])
    fix_dims(proto, {}, PATH, constants={"x"})
    assert dims_refusal(proto).startswith("net.onnx: E0904 the input 'x'")
