"""The kinds of layer of the language: from arguments and the incoming shape to an operator."""

from collections.abc import Callable, Mapping

from toolchain.models.arguments import Arguments
from toolchain.models.operators import (
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    Leaky,
    Normalisation,
    Operator,
    Pair,
    Pool,
    Relu,
    Shape,
    Softmax,
    Upsample,
)
from toolchain.spec.errors import fail


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


def activation(kind: str, arguments: Arguments) -> Operator:
    """The operator of an activation's name."""
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
}


def _size(shape: Shape, arguments: Arguments) -> Pair:
    if len(shape) != 4:
        raise fail("E0803", f"this takes an image, not a tensor of {len(shape)} axes", arguments.span)
    return shape[2], shape[3]
