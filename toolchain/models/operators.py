"""The operators of layers, every number concrete, and the shapes that they give.

Images are laid out batch, channels, height, width; sequences batch, rows, width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.spec.errors import Span, fail

Pair = tuple[int, int]
Value = int | float | tuple[int, ...] | tuple[float, ...]
"""The value of an attribute."""


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, each pair height then width. pads: top, left, bottom, right."""

    kernel: Pair
    stride: Pair = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)


@dataclass(frozen=True, slots=True)
class Convolution:
    out: int
    window: Window
    groups: int = 1
    bias: bool = True


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Batch normalisation with fixed statistics."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class Relu:
    """max(x, 0), cut off at `limit` where one is given"""

    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Leaky:
    """x for x >= 0, otherwise slope * x"""

    slope: float


@dataclass(frozen=True, slots=True)
class Pool:
    """include_pad: averages divide by the whole window, also where it hangs over the edge."""

    maximum: bool
    window: Window
    ceil: bool = False
    include_pad: bool = False


@dataclass(frozen=True, slots=True)
class GlobalPool:
    """The average over height and width."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A function of each element. kind: ONNX's operator, Gelu, Tanh or Sigmoid, or Silu, x times its Sigmoid."""

    kind: str


@dataclass(frozen=True, slots=True)
class Dense:
    """A product with weights, of a vector or of each row of a sequence."""

    out: int
    bias: bool = True


@dataclass(frozen=True, slots=True)
class Flatten:
    """Everything but the batch in one axis."""


@dataclass(frozen=True, slots=True)
class Add:
    """Elementwise sum of two or more tensors of one shape."""


@dataclass(frozen=True, slots=True)
class Concat:
    """Joined along the channels."""


@dataclass(frozen=True, slots=True)
class Upsample:
    """Every pixel repeated `factor` times in height and width."""

    factor: int


@dataclass(frozen=True, slots=True)
class Softmax:
    """Over the last axis."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """A row of a learned table [rows, out] for each whole number."""

    rows: int
    out: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Adds a learned row to each row of a sequence."""


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Over the last axis, with a learned scale and offset."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class Attention:
    """Self-attention by heads, its four products included. causal: no row sees a later one."""

    heads: int
    causal: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """The pixels of an image as rows of a sequence. first: after a learned row of its own."""

    first: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """One row of a sequence, as a vector."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class Strip:
    """The rows of a sequence as pixels of an image one pixel wide, its width as channels."""


@dataclass(frozen=True, slots=True)
class Gated:
    """The first half of each row, times the logistic function of the second (GLU)."""


@dataclass(frozen=True, slots=True)
class Scaled:
    by: float


@dataclass(frozen=True, slots=True)
class Interaction:
    """A vector, then the product of each pair of different vectors: of the vector itself and of the rows of a sequence, all of one width."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a library, whose text is `library`. shape: of its result."""

    function: str
    attributes: tuple[tuple[str, Value], ...]
    shape: tuple[int, ...]
    library: str


Sequential = Embedding | Positions | LayerNorm | Attention | Tokens | Token | Strip | Gated | Interaction
"""Operators that make sequences or take them."""
Operator = (
    Convolution | Normalisation | Relu | Leaky | Pointwise | Pool | GlobalPool | Dense | Flatten | Add | Concat | Upsample | Softmax | Scaled | Call
) | Sequential
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator applied to named tensors; its result has the layer's own name and `shape`."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    shape: Shape
    span: Span


MAX_ELEMENTS = 1 << 31


def output_shape(operator: Operator, inputs: Sequence[Shape], span: Span) -> Shape:
    """The shape of the result. Raises UserError E0803 when the inputs do not fit the operator."""
    shape = _shape(operator, inputs, span)
    if math.prod(shape) > MAX_ELEMENTS:
        raise fail("E0803", f"the result {text(shape)} has more than {MAX_ELEMENTS} elements", span)
    return shape


def _shape(operator: Operator, inputs: Sequence[Shape], span: Span) -> Shape:
    first = inputs[0]
    match operator:
        case Convolution(out=out, window=window, groups=groups):
            batch, channels, height, width = _image(first, span)
            if channels % groups or out % groups:
                raise fail("E0803", f"{channels} channels in and {out} out cannot be divided into {groups} groups", span)
            return batch, out, *windows((height, width), window, span)
        case Pool(window=window, ceil=ceil):
            batch, channels, height, width = _image(first, span)
            return batch, channels, *windows((height, width), window, span, ceil)
        case GlobalPool():
            batch, channels, _, _ = _image(first, span)
            return batch, channels, 1, 1
        case Upsample(factor=factor):
            batch, channels, height, width = _image(first, span)
            return batch, channels, height * factor, width * factor
        case Flatten():
            return first[0], math.prod(first[1:])
        case Dense(out=out):
            if len(first) not in (2, 3):
                raise fail("E0803", f"a dense layer takes a vector or a sequence, not {text(first)}", span, "put 'flatten' before it")
            return *first[:-1], out
        case Call(shape=shape):
            return shape
        case Add():
            return _same(inputs, span)
        case Concat():
            return _joined(inputs, span)
        case _ if isinstance(operator, Sequential):
            return _sequential(operator, inputs, span)
        case _:
            return first


def _sequential(operator: Sequential, inputs: Sequence[Shape], span: Span) -> Shape:
    first = inputs[0]
    match operator:
        case Embedding(out=out):
            return *first, out
        case Tokens(first=extra):
            batch, channels, height, width = _image(first, span)
            if extra and batch != 1:
                raise fail("E0803", f"a row of its own needs a batch of 1, not {batch}", span)
            return batch, height * width + extra, channels
        case Token(at=at):
            batch, rows, width = _sequence(first, span)
            if at >= rows:
                raise fail("E0803", f"there is no row {at} among {rows}", span)
            return batch, width
        case Strip():
            batch, rows, width = _sequence(first, span)
            return batch, width, rows, 1
        case Gated():
            batch, rows, width = _sequence(first, span)
            if width % 2:
                raise fail("E0803", f"a width of {width} has no halves", span)
            return batch, rows, width // 2
        case Interaction():
            return _interacting(inputs, span)
        case Attention(heads=heads):
            batch, rows, width = _sequence(first, span)
            if width % heads:
                raise fail("E0803", f"a width of {width} cannot be divided among {heads} heads", span)
            return batch, rows, width
        case Positions() | LayerNorm():
            return _sequence(first, span)


def _sequence(shape: Shape, span: Span) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise fail("E0803", f"this takes a sequence (batch, rows, width), not {text(shape)}", span, "'tokens' makes one of an image")
    return shape[0], shape[1], shape[2]


def _interacting(inputs: Sequence[Shape], span: Span) -> Shape:
    if len(inputs) != 2 or len(inputs[0]) != 2 or len(inputs[1]) != 3 or inputs[0] != (inputs[1][0], inputs[1][2]):
        raise fail("E0803", f"an interaction takes a vector and a sequence as wide, not {', '.join(map(text, inputs))}", span)
    count = inputs[1][1] + 1
    return inputs[0][0], inputs[0][1] + count * (count - 1) // 2


def windows(size: tuple[int, int], window: Window, span: Span, ceil: bool = False) -> tuple[int, int]:
    """How many windows fit in height and width. Raises UserError E0803 when none does."""
    top, left, bottom, right = window.pads
    height = _count(size[0], window, 0, (top, bottom), ceil)
    width = _count(size[1], window, 1, (left, right), ceil)
    if height < 1 or width < 1:
        raise fail(
            "E0803",
            f"the window {text(window.kernel)} is larger than the padded image {text((size[0] + top + bottom, size[1] + left + right))}",
            span,
        )
    return height, width


def _count(size: int, window: Window, axis: int, pads: tuple[int, int], ceil: bool) -> int:
    reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
    stride = window.stride[axis]
    room = size + sum(pads) - reach
    if room < 0:
        return 0
    count = (-(-room // stride) if ceil else room // stride) + 1
    # A window that would begin in the padding after the image is not one, as in ONNX.
    return count - 1 if ceil and (count - 1) * stride >= size + pads[0] else count


def _image(shape: Shape, span: Span) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise fail("E0803", f"this takes an image (batch, channels, height, width), not {text(shape)}", span)
    return shape[0], shape[1], shape[2], shape[3]


def _same(inputs: Sequence[Shape], span: Span) -> Shape:
    if any(shape != inputs[0] for shape in inputs):
        raise fail("E0803", f"cannot add tensors of different shapes: {', '.join(map(text, inputs))}", span)
    return inputs[0]


def _joined(inputs: Sequence[Shape], span: Span) -> Shape:
    first = inputs[0]
    if any(len(shape) < 2 or (shape[0], *shape[2:]) != (first[0], *first[2:]) for shape in inputs):
        raise fail("E0803", f"these differ in more than channels: {', '.join(map(text, inputs))}", span)
    return first[0], sum(shape[1] for shape in inputs), *first[2:]


def text(shape: Sequence[int]) -> str:
    """3x224x224"""
    return "x".join(map(str, shape))
