"""The kinds of operations that a kernel can compute."""

from collections.abc import Mapping

from toolchain.schedule import conv2d
from toolchain.schedule.operation import OperationKind

KINDS: Mapping[str, OperationKind] = {"conv2d": conv2d.KIND}
