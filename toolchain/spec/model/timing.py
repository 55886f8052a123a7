"""The cost of an instruction: classes, shared resources, constants; never a result."""

from dataclasses import dataclass

from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class Resource:
    """A port or link shared by transfers: `bytes_per_cycle` bytes in `per` cycles.

    policy: fifo | fair | priority (units earlier in `priority` first).
    """

    name: str
    bytes_per_cycle: int
    policy: str
    scope: str = "device"
    priority: tuple[str, ...] = ()
    source: str = ""
    assumed: bool = False
    per: int = 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that an instruction moves through a resource, as an expression."""

    resource: str
    bytes: Expr


@dataclass(frozen=True, slots=True)
class TimingClass:
    """The unit is held for `setup`, then for the longer of `cycles` and its transfers; posts come `latency` later.

    constants: the timing constants that its expressions name.
    """

    name: str
    cycles: Expr
    setup: Expr
    latency: Expr
    transfers: tuple[Transfer, ...]
    source: str = ""
    assumed: bool = False
    constants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimingConstant:
    """A named number of the timing section, and where it comes from."""

    name: str
    value: int
    source: str
    assumed: bool
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """clock_khz: cycles in a millisecond; everything else counts in cycles.

    peak_macs: multiply-accumulates that the whole device could do in a cycle, None where the file does not say.
    """

    clock_khz: int
    clock_source: str
    constants: tuple[TimingConstant, ...]
    resources: tuple[Resource, ...]
    classes: tuple[TimingClass, ...]
    peak_macs: int | None = None
    peak_source: str = ""
