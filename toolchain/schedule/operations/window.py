"""A window that slides over an image: sizes, strides, padding, and what comes out."""

from dataclasses import dataclass

from toolchain.spec.errors import fail

NUMBERS = ("kh", "kw", "sh", "sw", "dh", "dw", "pad_top", "pad_left", "pad_bottom", "pad_right")


@dataclass(frozen=True)
class Window:
    """kernel, strides, dilations: (rows, columns). pads: top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def output(self, size: tuple[int, int], name: str) -> tuple[int, int]:
        """Rows and columns of the result of an image of this size. Raises UserError E1003 where nothing is left."""
        if min(*self.strides, *self.dilations, *self.kernel) < 1 or min(self.pads) < 0:
            raise fail("E1003", f"'{name}' has a kernel {self.kernel}, strides {self.strides}, dilations {self.dilations}, pads {self.pads}")
        spans = [(size[k] + self.pads[k] + self.pads[2 + k] - (self.kernel[k] - 1) * self.dilations[k] - 1) // self.strides[k] + 1 for k in (0, 1)]
        if min(spans) < 1:
            raise fail("E1003", f"'{name}' has no output: {tuple(spans)}")
        return spans[0], spans[1]

    @property
    def numbers(self) -> dict[str, int]:
        """The values of NUMBERS."""
        return dict(zip(NUMBERS, (*self.kernel, *self.strides, *self.dilations, *self.pads), strict=True))
