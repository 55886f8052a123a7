"""The kinds of operations that a kernel can compute."""

from collections.abc import Mapping

from toolchain.schedule.operations import add, conv2d, depthwise, pool, upsample
from toolchain.schedule.operations.operation import OperationKind

KINDS: Mapping[str, OperationKind] = {
    "conv2d": conv2d.KIND,
    "depthwise": depthwise.KIND,
    "max_pool": pool.MAX_KIND,
    "average_pool": pool.AVERAGE_KIND,
    "add": add.KIND,
    "upsample": upsample.KIND,
}
