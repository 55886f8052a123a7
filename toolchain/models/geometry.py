"""How windows lie on an image, read from ONNX nodes."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

Floats = np.typing.NDArray[np.float32]


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """An attribute's value, or `default`."""
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


@dataclass(frozen=True)
class Taps:
    """A window of a node over images. out: height and width of the result."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilation: tuple[int, int]
    out: tuple[int, int]

    def views(self, x: Floats, beyond: float) -> Iterator[Floats]:
        """For every tap, row by row, what it meets: [batch, channels, *out] of x [batch, channels, height, width]; `beyond` is the padding."""
        padded = self._padded(x, beyond)
        for tap in itertools.product(*map(range, self.kernel)):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            spans = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, self.out, self.stride, strict=True)]
            yield padded[:, :, spans[0], spans[1]]

    def _padded(self, x: Floats, beyond: float) -> Floats:
        """With padding on all sides, at the end as far as the last window reaches (further than `pads` says, where it may hang over)."""
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(self.out, self.stride, self.kernel, self.dilation, strict=True)]
        after = [max(r - b - size, 0) for r, b, size in zip(reach, self.pads[:2], x.shape[2:], strict=True)]
        if not any((*self.pads[:2], *after)):
            return x
        return np.pad(x, ((0, 0), (0, 0), (self.pads[0], after[0]), (self.pads[1], after[1])), constant_values=beyond)


def taps_of(node: onnx.NodeProto, kernel: tuple[int, ...], out: tuple[int, ...]) -> Taps:
    """The window of a convolution or pool."""
    height, width = kernel
    stride = attribute(node, "strides", (1, 1))
    top, left, bottom, right = attribute(node, "pads", (0, 0, 0, 0))
    dilation = attribute(node, "dilations", (1, 1))
    return Taps((height, width), (stride[0], stride[1]), (top, left, bottom, right), (dilation[0], dilation[1]), (out[2], out[3]))
