"""The operators of layers; every number concrete. Tensors are laid out batch, channels, height, width."""

from dataclasses import dataclass

from toolchain.spec.errors import Span

Pair = tuple[int, int]
Value = int | float | tuple[int, ...] | tuple[float, ...]
"""Of an attribute."""


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
class Dense:
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
class Call:
    """A function of a library, whose text is `library`. shape: of its result."""

    function: str
    attributes: tuple[tuple[str, Value], ...]
    shape: tuple[int, ...]
    library: str


Operator = Convolution | Normalisation | Relu | Leaky | Pool | GlobalPool | Dense | Flatten | Add | Concat | Upsample | Softmax | Call
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator applied to named tensors; its result has the layer's own name and `shape`."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    shape: Shape
    span: Span
