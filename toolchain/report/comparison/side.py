"""One of the things that are compared, as plain figures and texts by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

LESS, MORE, NEITHER = -1, 1, 0
"""Which way a figure gets better."""
BUILD, MACHINE, SCHEDULE = "build", "machine", "schedule"
"""Kinds of things that can be compared with each other; reports and bundles are builds."""


@dataclass(frozen=True)
class Figure:
    """unit: as it is printed behind the value, `%` for shares in per cent, `yes` for 1 and 0. better: LESS, MORE or NEITHER. judged: whether
    `--fail-above` looks at it."""

    value: float
    unit: str = ""
    better: int = NEITHER
    judged: bool = False


@dataclass(frozen=True)
class Part:
    """An operation on the machine, or a region where no operations are known. computes: its kind. cycles, bytes: of one image; bytes are moved from
    and to DRAM. use: per cent of the peak while its unit is busy. noise: signal to noise of its result in dB. All None where they are not known."""

    name: str
    computes: str
    cycles: float
    bytes: float | None = None
    use: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Side:
    """name: as the user gave it. title: its content in words. machine, schedule: texts by key. figures: by name. parts: in the program's order."""

    name: str
    kind: str
    title: str
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    schedule: Mapping[str, str] = field(default_factory=dict[str, str])
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    parts: tuple[Part, ...] = ()
