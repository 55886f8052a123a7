"""Input rows that a range of output rows reads, and those of them that are padding."""

from collections.abc import Mapping

import numpy as np

from toolchain.schedule.kernels.kernel import Window
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.evaluate import constant


def window_names(window: Window, start: int, size: int, numbers: Mapping[str, int]) -> dict[str, int]:
    """The window's names for output rows start..start + size - 1."""
    stride, reach, before, extent, step = (constant(e, numbers) for e in (window.stride, window.reach, window.before, window.extent, window.step))
    low = start * stride - before
    high = (start + size - 1) * stride - before + reach
    first, stop = max(low, 0), min(high, extent)
    front, count, back = max(-low, 0), -(-(stop - first) // step), max(high - extent, 0)
    values = {"first": first, "count": count, "before": front, "after": back, "window": front + count + back}
    return {f"{window.name}_{key}": value for key, value in values.items()}


def loaded_names(window: Window, rows: range) -> dict[str, int]:
    """The window's names for a load of these input rows, whoever reads them."""
    values = {"first": rows.start, "count": len(rows), "before": 0, "after": 0, "window": len(rows)}
    return {f"{window.name}_{key}": value for key, value in values.items()}


def largest_window(window: Window, size: Ints, numbers: Mapping[str, Ints]) -> dict[str, Ints]:
    """The window's names for tiles of `size` output rows, as if they stood where nothing is cut off. numbers: without axes."""
    stride, reach, extent, step = (evaluate_arrays(e, numbers) for e in (window.stride, window.reach, window.extent, window.step))
    whole = -(-((size - 1) * stride + reach) // step)
    zero = np.zeros_like(size)
    values = {"first": zero, "count": np.minimum(whole, extent), "before": zero, "after": zero, "window": whole}
    return {f"{window.name}_{key}": value for key, value in values.items()}
