"""Time on the host and at its border with the device, by the costs that the machine's file declares, never by a clock."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from toolchain.spec.model import Host, Layout

CONVOLUTIONS: dict[str, str] = dict.fromkeys(("Conv", "ConvInteger"), "conv2d")
PRODUCTS: dict[str, str] = dict.fromkeys(("Gemm", "MatMul", "MatMulInteger", "LSTM", "GRU", "RNN"), "dense")
ALIKE: Mapping[str, str] = MappingProxyType(CONVOLUTIONS | PRODUCTS)
"""Operators that a machine's file need not name: they cost as much as the operation of that kind."""


class Work(Protocol):
    """Multiply-accumulates of operators, the bytes that they touch, and the steps of loops."""

    @property
    def macs(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def steps(self) -> int: ...


def operators_ms(kind: str, macs: int, size: int, host: Host) -> float:
    """Operators with multiply-accumulates by their rate, others by the bytes that they touch."""
    rate = host.gmac_per_s.get(kind) or host.gmac_per_s.get(ALIKE.get(kind, "default")) or host.gmac_per_s.get("default")
    if macs and rate is not None:
        return macs / rate.value / 1e6
    return size / host.gb_per_s.value / 1e6


def work_ms(work: Mapping[str, Work], host: Host) -> float:
    """Operators by their kind, one after the other, and the start of each step of a loop."""
    start = 0.0 if host.step_us is None else host.step_us.value / 1e3
    return sum(operators_ms(kind, each.macs, each.bytes, host) + each.steps * start for kind, each in work.items())


def copy_ms(size: int, layout: Layout | None, host: Host) -> float:
    """One buffer to or from the device: rearranged by the layout's rate where it declares one, then copied. size: in bytes."""
    rearranged = size / layout.gb_per_s.value / 1e6 if layout is not None and layout.gb_per_s is not None else 0.0
    return rearranged + host.transfer_us.value / 1e3 + size / host.transfer_gb_per_s.value / 1e6
