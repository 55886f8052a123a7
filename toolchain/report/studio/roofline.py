"""The roofline of a region: multiply-accumulates a cycle of each operation beside those that its traffic allows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.spec.model import Machine

WIDE, TALL, LEFT, FOOT = 640, 300, 56, 36
"""Pixels: the picture, and the room for labels to the left and below."""


@dataclass(frozen=True)
class Dot:
    """An operation. intensity: multiply-accumulates for each byte of DRAM; rate: in each cycle that its unit is busy. x, y: pixels."""

    region: str
    operation: str
    intensity: float
    rate: float
    x: float
    y: float


@dataclass(frozen=True)
class Tick:
    """at: pixels from the left or from above."""

    at: float
    text: str


@dataclass(frozen=True)
class Roofline:
    """roof: path of SVG. bytes: that the link moves in a cycle; link: its name. peak: multiply-accumulates a cycle."""

    dots: tuple[Dot, ...]
    roof: str
    peak: int
    link: str
    bytes: float
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True)
class _Scale:
    """Powers of two between which both axes go."""

    x: tuple[int, int]
    y: tuple[int, int]

    def across(self, value: float) -> float:
        return round(LEFT + (WIDE - LEFT) * (math.log2(value) - self.x[0]) / (self.x[1] - self.x[0]), 2)

    def up(self, value: float) -> float:
        return round((TALL - FOOT) * (1 - (math.log2(value) - self.y[0]) / (self.y[1] - self.y[0])), 2)


def roofline(machine: Machine, regions: Sequence[RegionUse]) -> Roofline | None:
    """None where the machine's file states no peak or no link, or no operation multiplies and moves DRAM. The device's widest link is taken for
    DRAM's: links of inner levels join memories on chip."""
    links = [link for link in machine.timing.resources if link.scope == "device"]
    links.sort(key=lambda each: (-each.bytes_per_cycle / each.per, each.name))
    points = [(region, use) for region in regions for use in region.operations if use.macs and use.bytes and use.busy > 0]
    peak = machine.timing.peak_macs
    if not (peak and links and points):
        return None
    link = links[0]
    rate = link.bytes_per_cycle / link.per
    scale = _scale(points, peak, rate)
    ridge = min(max(peak / rate, 2.0 ** scale.x[0]), 2.0 ** scale.x[1])
    low = max(2.0 ** scale.x[0] * rate, 2.0 ** scale.y[0])
    roof = f"M{scale.across(low / rate)} {scale.up(low)}L{scale.across(ridge)} {scale.up(peak)}H{WIDE}"
    dots = tuple(_dots(points, scale))
    return Roofline(dots, roof, peak, link.name, rate, tuple(_ticks(scale.x, scale.across)), tuple(_ticks(scale.y, scale.up)))


def _scale(points: Sequence[tuple[RegionUse, OperationUse]], peak: int, rate: float) -> _Scale:
    across = [math.log2(use.macs / use.bytes) for _, use in points] + [math.log2(peak / rate)]
    up = [math.log2(use.macs / use.busy) for _, use in points] + [math.log2(peak)]
    return _Scale((math.floor(min(across)) - 1, math.ceil(max(across)) + 1), (math.floor(min(up)) - 1, math.ceil(max(up)) + 1))


def _dots(points: Sequence[tuple[RegionUse, OperationUse]], scale: _Scale) -> Iterator[Dot]:
    for region, use in points:
        intensity, rate = use.macs / use.bytes, use.macs / use.busy
        yield Dot(region.region, use.operation, intensity, rate, scale.across(intensity), scale.up(rate))


def _ticks(powers: tuple[int, int], place: Callable[[float], float]) -> Iterator[Tick]:
    step = -(-(powers[1] - powers[0]) // 10)
    for power in range(powers[0], powers[1] + 1, step):
        yield Tick(place(2.0**power), f"{2**power:,}" if power >= 0 else f"1/{2**-power:,}")
