"""Shapes of layers agree with ONNX's own inference."""

import onnx
from hypothesis import assume, given
from hypothesis import strategies as st

from toolchain.models.expand import Network
from toolchain.models.operators import Convolution, Layer, Operator, Pool, Shape, Upsample, Window, output_shape, windows
from toolchain.models.shape_graph import shape_graph
from toolchain.models.sources import shapes_of
from toolchain.spec.errors import Source, Span, UserError

SPAN = Span(Source("t.yaml", ""), 1, 1)
PAIRS = st.tuples(st.integers(1, 5), st.integers(1, 5))


def inferred(operator: Operator, shape: Shape) -> tuple[Shape, Shape]:
    ours = output_shape(operator, [shape], SPAN)
    bare = shape_graph("t", Network((Layer("y", operator, ("x",), ours, SPAN),), ("y",)), {"x": shape})
    model = bare.declared()
    model.opset_import[0].version = 22  # inference of opset 21 counts windows that begin past the image; ONNX Runtime never does
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return ours, shapes_of(model)["y"]


@st.composite
def fitting_windows(draw: st.DrawFn) -> Window:
    kernel = draw(PAIRS)
    pads = [draw(st.integers(0, kernel[axis] - 1)) for axis in (0, 1, 0, 1)]
    return Window(kernel, draw(PAIRS), (pads[0], pads[1], pads[2], pads[3]), draw(st.tuples(st.integers(1, 2), st.integers(1, 2))))


@given(fitting_windows(), st.booleans(), st.booleans(), st.tuples(st.integers(1, 15), st.integers(1, 15)))
def test_windows_agree_with_onnx(window: Window, pool: bool, ceil: bool, size: tuple[int, int]) -> None:
    try:
        windows(size, window, SPAN, ceil)
    except UserError:
        assume(False)
    operator = Pool(True, window, ceil) if pool else Convolution(6, window, 2)
    ours, theirs = inferred(operator, (2, 4, *size))
    assert ours == theirs


def test_upsampling_agrees_with_onnx() -> None:
    ours, theirs = inferred(Upsample(3), (1, 2, 4, 5))
    assert ours == theirs == (1, 2, 12, 15)


def test_onnx_is_new_enough_for_the_opset() -> None:
    assert onnx.defs.onnx_opset_version() >= 21
