"""Pools that round up, written as pools that divide evenly: ONNX Runtime computes the same with both, and both have the size that inference says."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import imported, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.importing.resolve import infer_partly, tensor_shapes
from toolchain.graph.importing.window_sizes import Axis, write_windows
from toolchain.spec.errors import UserError


def pool(kind: str, size: Sequence[int], **attributes: object) -> onnx.ModelProto:
    return model([n(kind, ["x"], ["y"], "p", **attributes)], {"x": [1, 2, *size]}, {"y": None})


def rewritten(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    assert write_windows(copy.graph, tensor_shapes(copy))
    assert not write_windows(copy.graph, tensor_shapes(copy))
    return copy


def an_axis(data: st.DataObject) -> tuple[int, int, int, int, int, int]:
    """Size, kernel, stride, dilation, begin and end padding of a window that ONNX Runtime takes, rounded up or not."""
    kernel, stride, dilation = (data.draw(st.integers(1, most)) for most in (4, 4, 2))
    begin, end = (data.draw(st.integers(0, kernel - 1)) for _ in range(2))  # it refuses longer ones
    reach = (kernel - 1) * dilation + 1
    size = data.draw(st.integers(max(reach - begin - end, 1), 9))
    if dilation > 1 and Axis(size, reach, stride, begin, end).needed >= kernel:
        dilation = 1
    return size, kernel, stride, dilation, begin, end


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), st.integers(0, 1), st.data())
def test_results_and_sizes_stay(kind: str, include: int, data: st.DataObject) -> None:
    size, kernel, strides, dilations, begin, end = zip(an_axis(data), an_axis(data), strict=True)
    extra = {"count_include_pad": include} if kind == "AveragePool" else {}
    proto = pool(kind, size, kernel_shape=kernel, strides=strides, dilations=dilations, pads=[*begin, *end], ceil_mode=1, **extra)
    x = {"x": normal(0, 1, 2, *size)}
    result = rewritten(proto)
    wanted, found = run(proto, x)["y"], run(result, x)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert tensor_shapes(infer_partly(result))["y"] == wanted.shape


def test_windows_that_begin_behind_the_picture_are_not_counted() -> None:
    assert Axis(size=5, reach=2, stride=3, begin=0, end=0).count == 2
    assert Axis(size=5, reach=3, stride=2, begin=1, end=2).count == 3  # of 4 when rounded up: the last would begin at pixel 6 of 5 and 1
    assert Axis(size=5, reach=3, stride=2, begin=1, end=0).needed == 1


def test_automatic_padding_is_left_to_whoever_reads_it() -> None:
    proto = pool("MaxPool", [5, 5], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER", ceil_mode=1)
    assert not write_windows(proto.graph, tensor_shapes(proto))


def test_padding_as_long_as_the_kernel_is_never_written() -> None:
    proto = pool("MaxPool", [6, 6], kernel_shape=[2, 2], strides=[3, 3], dilations=[4, 4], ceil_mode=1)
    assert Axis(6, 5, 3, 0, 0).needed == 2
    assert not write_windows(proto.graph, tensor_shapes(proto))


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [0, 1]}, {"kernel_shape": [2]}, {"pads": [1]}, {"dilations": [1, 0]}],
)
def test_attributes_that_do_not_fit_are_left_to_inference(attributes: dict[str, object], tmp_path: Path) -> None:
    given = {"kernel_shape": [2, 2], "ceil_mode": 1} | attributes
    with pytest.raises(UserError, match="E09"):
        imported(tmp_path, [n("MaxPool", ["x"], ["y"], "p", **given)], (1, 2, 5, 5))


def test_a_picture_of_unknown_size_is_left_alone() -> None:
    proto = pool("MaxPool", [5, 5], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert not write_windows(proto.graph, {"x": (1, 2, None, 5)})


@pytest.mark.parametrize("count", [0, 1])
def test_zeros_that_count_are_written_where_windows_reach_further(count: int) -> None:
    proto = pool("AveragePool", [5, 5], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1, count_include_pad=count)
    assert [node.op_type for node in rewritten(proto).graph.node] == (["Pad", "AveragePool"] if count else ["AveragePool"])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]), st.data())
def test_automatic_padding_with_output_padding_is_onnx_runtimes(mode: str, data: st.DataObject) -> None:
    """Inference adds the output padding to the size, ONNX Runtime does not."""
    axes = [[data.draw(st.integers(1, most)) for most in (7, 5, 3, 2)] for _ in range(2)]
    size, kernel, strides, dilations = zip(*axes, strict=True)
    more = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(strides, dilations, strict=True)]
    attributes = {"strides": strides, "dilations": dilations, "output_padding": more, "auto_pad": mode}
    proto = model([n("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": [1, 2, *size]}, {"y": None}, {"w": normal(1, 2, 3, *kernel)})
    x = {"x": normal(0, 1, 2, *size)}
    try:
        (wanted,) = run(proto, x).values()
    except UserError:
        return  # it refuses an output padding that is not below the stride
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    assert write_windows(copy.graph, tensor_shapes(copy)) == any(more)
    (found,) = run(copy, x).values()
    np.testing.assert_array_equal(found, wanted)
    assert tensor_shapes(infer_partly(copy))["y"] == wanted.shape
