"""A float network with the corners of offloading: what only says where tensors stand, padding, groups, dilation, pictures that become rows."""

import numpy as np
import onnx
from onnx import helper

from tests.graph.onnx_builder import model

F = np.float32
OUTPUTS = {
    "mixed": [1, 24, 8, 8], "short": [1, 24, 8, 8],
    "m": [1, 32, 8, 8], "shuffled": [1, 32, 8, 8], "m2": [1, 16, 8, 8], "again": [1, 64, 8, 8], "rows_sum": [1, 1024], "total": [1, 24],
}  # fmt: skip


def corners() -> onnx.ModelProto:
    """One input 'x' [1, 16, 8, 8]."""
    rng, n = np.random.default_rng(11), helper.make_node

    def weights(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(F)

    constants = {
        "w_in": weights(32, 16, 3, 3), "w_pad": weights(16, 32, 3, 3), "w_group": weights(32, 16, 3, 3), "w_wide": weights(16, 32, 3, 3),
        "w_odd": weights(8, 32, 1, 1), "w_big": weights(16, 32, 1, 1), "w_rows": weights(24, 1024), "w_last": weights(24, 24),
        "w_mix": weights(32, 8, 3, 3), "apart": np.array([1, 4, 8, 8, 8]), "whole": np.array([1, 32, 8, 8]),
        "pads": np.array([0, 0, 1, 2, 0, 0, 1, 0]), "pads2": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    }  # fmt: skip
    nodes = [
        n("Conv", ["x", "w_in"], ["base"], "base", pads=[1, 1, 1, 1]),
        n("Pad", ["base", "pads"], ["padded"], "pad"),
        n("Conv", ["padded", "w_pad"], ["a"], "after_pad"),
        n("Pad", ["base", "pads2"], ["padded2"], "pad2"),
        n("MaxPool", ["padded2"], ["m"], "max_of_pad", kernel_shape=[3, 3]),
        n("Relu", ["a"], ["a_relu"], "a_relu"),
        n("Pad", ["a_relu", "pads2"], ["padded3"], "pad3"),
        n("MaxPool", ["padded3"], ["m2"], "max_of_relu", kernel_shape=[3, 3]),
        n("Conv", ["base", "w_group"], ["g"], "grouped", group=2, pads=[1, 1, 1, 1]),
        n("Conv", ["base", "w_mix"], ["mix"], "mix", group=4, pads=[1, 1, 1, 1]),
        *shuffle("mix", "mixed_up"),
        *shuffle("g", "g_up"),
        n("Add", ["mixed_up", "g_up"], ["shuffled"], "shuffled"),
        n("Conv", ["base", "w_wide"], ["d"], "dilated", dilations=[2, 2], pads=[2, 2, 2, 2]),
        n("Conv", ["base", "w_odd"], ["odd"], "odd"),
        n("Conv", ["base", "w_big"], ["big"], "big"),
        n("Concat", ["odd", "big"], ["mixed"], "off_the_block", axis=1),
        n("Concat", ["big", "odd"], ["short"], "short_at_the_end", axis=1),
        n("Concat", ["d", "g"], ["inner"], "inner", axis=1),
        n("Concat", ["inner", "d"], ["again"], "a_part_of_two", axis=1),
        n("Concat", ["inner", "a"], ["nested"], "nested", axis=1),
        n("MaxPool", ["nested"], ["p"], "pool", kernel_shape=[5, 5]),
        n("Flatten", ["p"], ["rows"], "rows"),
        n("Flatten", ["a"], ["wide"], "wide"),
        n("Add", ["rows", "wide"], ["rows_sum"], "rows_sum"),
        n("Gemm", ["rows", "w_rows"], ["h"], "picture_to_row", transB=1),
        n("Relu", ["h"], ["hr"], "row_relu"),
        n("Gemm", ["hr", "w_last"], ["last"], "last", transB=1),
        n("Add", ["last", "hr"], ["total"], "row_sum"),
    ]
    return model(nodes, {"x": [1, 16, 8, 8]}, OUTPUTS, constants)


def shuffle(x: str, y: str) -> list[onnx.NodeProto]:
    """Of [1, 32, 8, 8] in four groups, as frameworks export it."""
    n = helper.make_node
    return [
        n("Reshape", [x, "apart"], [f"{y}.apart"], f"{y}.apart"),
        n("Transpose", [f"{y}.apart"], [f"{y}.swapped"], f"{y}.swapped", perm=[0, 2, 1, 3, 4]),
        n("Reshape", [f"{y}.swapped", "whole"], [y], y),
    ]


def samples(count: int, seed: int = 5) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(size=(count, 1, 16, 8, 8)).astype(F)}
