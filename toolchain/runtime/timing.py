"""What a run took: measured shares for the user's eye, and milliseconds by the machine's declared costs, which never depend on a clock."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from toolchain.runtime.contents import HostSegment, RegionProgram
from toolchain.runtime.transfers import buffer_of, ports_of
from toolchain.spec.model import Host, Machine
from toolchain.timing.host import operators_ms


@dataclass(frozen=True)
class Shares:
    """Seconds, measured: host operators, transfer (packing and copying), launch, execute (on the device, or in its emulator)."""

    host: float = 0.0
    transfer: float = 0.0
    launch: float = 0.0
    execute: float = 0.0

    def __add__(self, other: "Shares") -> "Shares":
        return Shares(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def total(self) -> float:
        return self.host + self.transfer + self.launch + self.execute


@dataclass(frozen=True)
class Modelled:
    """Milliseconds of one run of the whole plan, `samples` samples at once, and the device's cycles. Host, transfer and launch are None where the
    machine's file does not say what they cost."""

    samples: int
    cycles: float
    execute_ms: float
    host_ms: float | None
    transfer_ms: float | None
    launch_ms: float | None

    @property
    def total_ms(self) -> float:
        """Of what is known."""
        return self.execute_ms + sum(part or 0.0 for part in (self.host_ms, self.transfer_ms, self.launch_ms))

    @property
    def sample_ms(self) -> float:
        """Of one sample, as long as there are enough to fill every run."""
        return self.total_ms / self.samples


def modelled(machine: Machine, hosts: Iterable[HostSegment], regions: Iterable[RegionProgram]) -> Modelled:
    """Of the plan for as many samples as fill a run; host segments run once a sample."""
    segments, programs = tuple(hosts), tuple(regions)
    samples = max((region.samples for region in programs), default=1)
    cycles = sum(region.cycles * region.runs(samples) for region in programs)
    execute = cycles / machine.timing.clock_khz if programs else 0.0
    host = machine.host
    if host is None:
        return Modelled(samples, cycles, execute, None, None, None)
    host_ms = samples * sum(segment_ms(segment, host) for segment in segments)
    transfer = sum(_transfer_ms(machine, host, region) * region.runs(samples) for region in programs)
    launches = sum(region.runs(samples) for region in programs)
    return Modelled(samples, cycles, execute, host_ms, transfer, launches * host.launch_us.value / 1e3)


def segment_ms(segment: HostSegment, host: Host) -> float:
    """Of one sample, by the machine's declared costs."""
    return sum(operators_ms(kind, work.macs, work.bytes, host) for kind, work in segment.work.items())


def _transfer_ms(machine: Machine, host: Host, region: RegionProgram) -> float:
    """Rearranging by each layout's rate where one is declared, then copying every buffer."""
    total = 0.0
    for port in ports_of(region):
        size = buffer_of(region.map, port.tensor).bytes
        name = region.map.tensors[port.tensor].layout
        rate = next((layout.gb_per_s for layout in machine.layouts if layout.name == name), None)
        rearranged = size / rate.value / 1e6 if rate else 0.0
        total += rearranged + host.transfer_us.value / 1e3 + size / host.transfer_gb_per_s.value / 1e6
    return total
