"""Windows of convolutions and pools with everything written out: no automatic padding, no rounding up."""

from collections.abc import Sequence

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import integer, ints, shape_of, text

Pair = tuple[int, ...]


def pads_of(node: ir.Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Pair:
    """(top, left, bottom, right) such that dividing without a rest gives the node's own output size; negative pads cannot be."""
    value = node.inputs[0]
    assert value is not None
    size, result = shape_of(value)[2:], shape_of(node.outputs[0])[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    begin = list(ints(node, "pads", (0, 0, 0, 0))[:2])
    mode = text(node, "auto_pad", "NOTSET")
    needed = [max((o - 1) * s + r - i, 0) for o, s, r, i in zip(result, strides, reach, size, strict=True)]
    if mode.startswith("SAME"):
        begin = _leading(needed, mode)
    elif mode == "VALID":
        begin = [0, 0]
    end = [max((o - 1) * s + r - i - b, 0) for o, s, r, i, b in zip(result, strides, reach, size, begin, strict=True)]
    return (*begin, *end)


def window_of(node: ir.Node, kernel: Sequence[int]) -> dict[str, Pair]:
    """The attributes kernel_shape, strides, pads and dilations of a pool."""
    strides, dilations = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1))
    return {"kernel_shape": tuple(kernel), "strides": strides, "pads": pads_of(node, kernel, strides, dilations), "dilations": dilations}


def transposed_window_of(node: ir.Node, kernel: Sequence[int]) -> dict[str, Pair] | None:
    """The attributes strides, pads, dilations and output_padding of a transposed convolution; None where pads would be negative.

    Where the size of the result is given, by attribute output_shape or by automatic padding, the pads follow from it (ONNX, ConvTranspose).
    """
    value = node.inputs[0]
    assert value is not None
    size, result = shape_of(value)[2:], shape_of(node.outputs[0])[2:]
    strides, dilations, more = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1)), ints(node, "output_padding", (0, 0))
    mode = text(node, "auto_pad", "NOTSET")
    pads = ints(node, "pads", (0, 0, 0, 0))
    if mode != "NOTSET" or "output_shape" in node.attributes:
        grown = [(i - 1) * s + (k - 1) * d + 1 + m for i, s, k, d, m in zip(size, strides, kernel, dilations, more, strict=True)]
        total = [a - b for a, b in zip(grown, result, strict=True)]
        begin = _leading(total, mode)
        pads = (*begin, *(a - b for a, b in zip(total, begin, strict=True)))
    return {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": more} if min(pads) >= 0 else None


def _leading(totals: Sequence[int], mode: str) -> list[int]:
    """The parts of paddings that stand before the picture: the smaller halves for SAME_UPPER, else the larger ones."""
    return [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]


def rounds_up(node: ir.Node) -> bool:
    """Whether the last window reaches past the padding that the node declares."""
    return bool(integer(node, "ceil_mode", 0))
