"""The kinds of layer of the language: from arguments and the incoming shape to an operator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolchain.models.operators import (
    Attention,
    Convolution,
    Dense,
    Flatten,
    Gated,
    GlobalPool,
    LayerNorm,
    Leaky,
    Normalisation,
    Operator,
    Pair,
    Pointwise,
    Pool,
    Positions,
    Relu,
    Scaled,
    Shape,
    Softmax,
    Strip,
    Token,
    Tokens,
    Upsample,
    Value,
    Window,
)
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import parse_expr
from toolchain.spec.yaml_nodes import Node

MAX_ARGUMENT = 1 << 20


@dataclass(frozen=True)
class Arguments:
    """given: the layer's own arguments over the defaults of its kind. names: those that expressions may use."""

    given: Mapping[str, Node]
    names: Mapping[str, int]
    span: Span

    def word(self, key: str, default: str = "") -> str:
        """A name or keyword."""
        return str(self.given[key].value) if key in self.given else default

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self.given[key].value) if key in self.given else default

    def real(self, key: str, default: float) -> float:
        return float(self.given[key].value) if key in self.given else default

    def needed(self, key: str) -> Node:
        """Raises UserError E0804 where it is left out."""
        if key not in self.given:
            raise fail("E0804", f"this layer needs '{key}'", self.span)
        return self.given[key]

    def count(self, key: str) -> int:
        """A number of at least 1 that must be given. Raises UserError E0804."""
        return bounded(self.needed(key), self.names)

    def number(self, key: str, default: int, least: int = 1) -> int:
        """Raises UserError E0804 for a number below `least` or absurdly large."""
        return bounded(self.given[key], self.names, least) if key in self.given else default

    def pair(self, key: str, default: int) -> Pair:
        """One number for height and width, or a list of both."""
        node = self.given.get(key)
        if node is None:
            return default, default
        values = self._numbers(node, 1)
        return values[0], values[-1]

    def window(self, size: Pair, square: int = 1) -> Window:
        """The window over an image of `size`; its kernel is `square` where none is given."""
        kernel, dilation = self.pair("kernel", square), self.pair("dilation", 1)
        stride = self.pair("stride", 1)
        reach = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
        return Window(kernel, stride, self._pads(size, reach, stride), dilation)

    def _pads(self, size: Pair, reach: Pair, stride: Pair) -> tuple[int, int, int, int]:
        node = self.given.get("pad")
        if node is None:
            return 0, 0, 0, 0
        if node.value == "half":
            return reach[0] // 2, reach[1] // 2, reach[0] // 2, reach[1] // 2
        if node.value == "same":
            (top, bottom), (left, right) = (_same(s, r, t) for s, r, t in zip(size, reach, stride, strict=True))
            return top, left, bottom, right
        values = self._numbers(node, 0)
        if len(values) == 4:
            return values[0], values[1], values[2], values[3]
        return values[0], values[-1], values[0], values[-1]

    def _numbers(self, node: Node, least: int) -> list[int]:
        return [bounded(part, self.names, least) for part in node.children() or [node]]


def _same(size: int, reach: int, stride: int) -> Pair:
    """Padding that gives ceil(size / stride) windows, the odd pixel at the end."""
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def number(node: Node, names: Mapping[str, int]) -> int:
    """The integer at `node`, written out or as an expression. Raises UserError E0107, E0120 and so on."""
    if isinstance(node.value, str):
        return constant(parse_expr(node.value, node.locate), names)
    return int(node.value)


def value(node: Node, names: Mapping[str, int]) -> Value:
    """The value of an attribute: a number or an expression, or a list of them, of which one that is no whole number makes all real."""
    if not isinstance(node.value, list):
        return node.value if isinstance(node.value, float) else number(node, names)
    parts = [value(part, names) for part in node.children()]
    whole = tuple(part for part in parts if isinstance(part, int))
    return whole if len(whole) == len(parts) else tuple(part for part in map(_real, parts))


def _real(part: Value) -> float:
    assert not isinstance(part, tuple)
    return float(part)


def bounded(node: Node, names: Mapping[str, int], least: int = 1) -> int:
    """`number`, which must be from `least` to MAX_ARGUMENT. Raises UserError E0804."""
    value = number(node, names)
    if not least <= value <= MAX_ARGUMENT:
        raise fail("E0804", f"{value} is not between {least} and {MAX_ARGUMENT}", node.span)
    return value


def _convolution(arguments: Arguments, shape: Shape) -> Operator:
    bias = arguments.flag("bias", not arguments.flag("norm"))
    return Convolution(arguments.count("out"), arguments.window(_size(shape, arguments)), arguments.number("groups", 1), bias)


def _pool(maximum: bool) -> Callable[[Arguments, Shape], Operator]:
    def make(arguments: Arguments, shape: Shape) -> Operator:
        window = arguments.window(_size(shape, arguments), 2)
        return Pool(maximum, window, arguments.flag("ceil"), arguments.flag("include_pad"))

    return make


def _dense(arguments: Arguments, _: Shape) -> Operator:
    return Dense(arguments.count("out"), arguments.flag("bias", True))


def _upsample(arguments: Arguments, _: Shape) -> Operator:
    return Upsample(arguments.number("factor", 2))


POINTWISE: Mapping[str, Operator] = {"gelu": Pointwise("Gelu"), "tanh": Pointwise("Tanh"), "sigmoid": Pointwise("Sigmoid"), "silu": Pointwise("Silu")}


def activation(kind: str, arguments: Arguments) -> Operator:
    """The operator of an activation's name."""
    if kind in POINTWISE:
        return POINTWISE[kind]
    return Leaky(arguments.real("slope", 0.1)) if kind == "leaky" else Relu(6 if kind == "relu6" else None)


def _plain(operator: Operator) -> Callable[[Arguments, Shape], Operator]:
    return lambda _arguments, _shape: operator


KINDS: Mapping[str, Callable[[Arguments, Shape], Operator]] = {
    "conv": _convolution,
    "norm": _plain(Normalisation()),
    "relu": _plain(Relu()),
    "relu6": _plain(Relu(6)),
    "leaky": lambda arguments, _shape: activation("leaky", arguments),
    "maxpool": _pool(True),
    "avgpool": _pool(False),
    "globalpool": _plain(GlobalPool()),
    "dense": _dense,
    "flatten": _plain(Flatten()),
    "upsample": _upsample,
    "softmax": _plain(Softmax()),
    **{name: _plain(operator) for name, operator in POINTWISE.items()},
    "positions": _plain(Positions()),
    "layernorm": lambda arguments, _shape: LayerNorm(arguments.real("epsilon", 1e-5)),
    "attention": lambda arguments, _shape: Attention(arguments.count("heads"), arguments.flag("causal")),
    "tokens": lambda arguments, _shape: Tokens(arguments.flag("first")),
    "strip": _plain(Strip()),
    "glu": _plain(Gated()),
    "scale": lambda arguments, _shape: Scaled(float(arguments.needed("by").value)),
    "token": lambda arguments, _shape: Token(arguments.number("at", 0, 0)),
}


def _size(shape: Shape, arguments: Arguments) -> Pair:
    if len(shape) != 4:
        raise fail("E0803", f"this takes an image, not a tensor of {len(shape)} axes", arguments.span)
    return shape[2], shape[3]
