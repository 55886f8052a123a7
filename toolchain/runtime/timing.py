"""The time of a run: measured shares for the user's eye, and milliseconds by the machine's declared costs, which never depend on a clock."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace

from toolchain.abi.dram_map import Buffer
from toolchain.runtime.contents import HostSegment, Manifest, Port, RegionProgram
from toolchain.runtime.transfers import StatePlace, handed_over, is_entering, is_leaving, ports_of, state_places
from toolchain.spec.model import Host, Machine
from toolchain.timing.cost import copy_ms, work_ms


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
    machine's file does not declare their costs."""

    samples: int
    cycles: float
    execute_ms: float
    host_ms: float | None
    transfer_ms: float | None
    launch_ms: float | None

    @property
    def total_ms(self) -> float:
        """The sum of the times that are known."""
        return self.execute_ms + sum(part or 0.0 for part in (self.host_ms, self.transfer_ms, self.launch_ms))

    @property
    def sample_ms(self) -> float:
        """The time of one sample, as long as there are enough to fill every run."""
        return self.total_ms / self.samples


@dataclass(frozen=True)
class RegionTime:
    """The time of one region in a run of the whole plan, by the machine's declared costs.

    runs: of its program. copies: milliseconds of each tensor at its border by the graph's name, in all runs; sizes: their stored bytes. copies is
    empty and launch_ms None where the machine's file does not declare the host's costs.
    """

    runs: int
    cycles: float
    execute_ms: float
    copies: Mapping[str, float]
    sizes: Mapping[str, int]
    launch_ms: float | None

    @property
    def transfer_ms(self) -> float:
        return sum(self.copies.values())


def region_time(machine: Machine, cycles: float, runs: int, buffers: Mapping[str, Buffer], kept: Collection[str] = (), rooms: int = 1) -> RegionTime:
    """cycles: of one run of the program. buffers: the tensors at its border, by the graph's names. kept: those that are copied as they are stored.
    rooms: how many of each buffer a run has."""
    host, layouts = machine.host, {layout.name: layout for layout in machine.layouts}
    sizes = {name: runs * rooms * stored.bytes for name, stored in buffers.items()}
    rearranged = {name: None if name in kept else layouts.get(stored.layout) for name, stored in buffers.items()}
    copies = {name: runs * rooms * copy_ms(stored.bytes, rearranged[name], host) for name, stored in buffers.items()} if host else {}
    launch = runs * host.launch_us.value / 1e3 if host else None
    return RegionTime(runs, runs * cycles, runs * cycles / machine.timing.clock_khz, copies, sizes, launch)


def region_times(machines: Mapping[str, Machine], manifest: Manifest, count: int = 0) -> dict[str, RegionTime]:
    """The time of each region by its name. machines: by name. count: of samples; 0 for as many as fill a run."""
    samples, handed = count or samples_of(manifest.regions), handed_over(machines, manifest)
    return {r.name: _program_time(machines[r.target], r, samples, handed.whole[r.name] | handed.taken[r.name]) for r in manifest.regions}


def _program_time(machine: Machine, region: RegionProgram, samples: int, kept: Collection[str]) -> RegionTime:
    border = {port.name: region.map.tensors[port.tensor] for port in ports_of(region)}
    rooms = min(-(-samples * region.batch * region.map.rooms // region.images), region.map.rooms)  # those without an image are not copied
    return region_time(machine, region.cycles, region.runs(samples), border, kept, rooms)


def samples_of(regions: Iterable[RegionProgram]) -> int:
    """As many as fill a run."""
    return max((region.samples for region in regions), default=1)


def modelled(machines: Mapping[str, Machine], manifest: Manifest, count: int = 0) -> Modelled:
    """Times the plan; host segments run once a sample. machines: of the regions, by name; the host's costs are those of the first one's file.
    count: of samples, at most as many as fill a run; 0 for these."""
    host, times = next(iter(machines.values())).host, region_times(machines, manifest, count)
    samples = count or samples_of(manifest.regions)
    cycles = sum(time.cycles for time in times.values())
    spent = {name: sum(times[region.name].cycles for region in manifest.regions if region.target == name) for name in machines}
    execute = sum(spent[name] / machine.timing.clock_khz for name, machine in machines.items())
    if host is None:
        return Modelled(samples, cycles, execute, None, None, None)
    host_ms = samples * sum(segment_ms(segment, host) for segment in manifest.hosts)
    transfer, launch = sum(time.transfer_ms for time in times.values()), sum(time.launch_ms or 0.0 for time in times.values())
    return Modelled(samples, cycles, execute, host_ms, transfer, launch)


def modelled_step(machines: Mapping[str, Machine], manifest: Manifest) -> Modelled:
    """As `modelled`, of a step between others: without conversions of states that go round as stored, and without copies of those that stay on the
    device. Others are copied as the plan says."""
    stay = {name for place in state_places(machines, manifest) if place.place == "device" for name in _carried(place)}
    hosts = tuple(segment for segment in manifest.hosts if not is_entering(manifest, segment) and not is_leaving(manifest, segment))
    regions = tuple(replace(region, inputs=_others(region.inputs, stay), outputs=_others(region.outputs, stay)) for region in manifest.regions)
    return modelled(machines, replace(manifest, hosts=hosts, regions=regions))


def _carried(place: StatePlace) -> Collection[str]:
    return {place.state.taken} if place.watched else {place.state.taken, place.state.made}


def _others(ports: tuple[Port, ...], names: Collection[str]) -> tuple[Port, ...]:
    return tuple(port for port in ports if port.name not in names)


def segment_ms(segment: HostSegment, host: Host) -> float:
    """The time of a host segment on one sample, by the machine's declared costs."""
    return work_ms(segment.work, host)
