"""The costs of a model on a machine, and how right it is: the last thing that a build or a report says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from toolchain.graph.quantisation.ranges import calibration_kind
from toolchain.graph.regions import GraphRegion, region_calls
from toolchain.graph.work import RECURRENT
from toolchain.passes.templates import templates_for
from toolchain.report.costs import CostTable, cost_rows
from toolchain.report.explain import Cause, Remark, advisor_for, find_causes, helped_remarks, peak_remarks, remarks_of, run_remarks, stream_remarks
from toolchain.report.placement import MACHINE, NodePlaces, place_nodes
from toolchain.report.region_use import MemoryRoom, RegionUse, use_calls, use_graph, use_region
from toolchain.runtime.contents import Manifest
from toolchain.runtime.timing import Modelled, modelled, modelled_step, region_times, samples_of
from toolchain.runtime.transfers import state_places
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.spec.model import Host, Machine, Quantity
from toolchain.spec.reason import Reason
from toolchain.timing.usage import Basis
from toolchain.verify.built import Built, program_of_build

if TYPE_CHECKING:  # a build has neither results
    from toolchain.accuracy.closeness import Closeness, Inference, Stated
    from toolchain.verify.verdict import Verified


@dataclass(frozen=True)
class MachineShare:
    """The part of one machine in a run of the plan. macs: the model's own. peak_macs: as in Summary."""

    machine: str
    regions: int
    cycles: float
    clock_khz: int
    ms: float
    macs: int
    peak_macs: int | None

    @property
    def utilisation(self) -> float | None:
        """Percent of the multiply-accumulates that the machine could have done in its cycles; None where it had none, or its file says no peak."""
        return 100 * self.macs / self.cycles / self.peak_macs if self.peak_macs and self.cycles else None


@dataclass(frozen=True)
class StateTraffic:
    """States of a model, and how many of them stay on the device between steps, as long as the device can keep some. bytes: of all of them; stay: of
    the latter; moved: that a step copies between host and device for the others. step: the time of a step between others."""

    count: int
    resident: int
    bytes: int
    stay: int
    moved: int
    step: Modelled


def state_traffic(machines: Mapping[str, Machine], manifest: Manifest) -> StateTraffic | None:
    """None for a model without states."""
    places = state_places(machines, manifest)
    if not places:
        return None
    stay = [place.bytes for place in places if place.place == "device"]
    moved, whole = sum(place.moved for place in places), sum(place.bytes for place in places)
    return StateTraffic(len(places), len(stay), whole, sum(stay), moved, modelled_step(machines, manifest))


@dataclass(frozen=True)
class Summary:
    """One model on its machines; figures of one machine alone (clock, peak) are of the first, shares of each. images: that a run takes at once,
    which times and bytes are of. time: by the machines' declared costs; costs: the same, region by region and node by node.
    calibration: its kind, see `calibration_kind`. reasons: why nodes are on the host.

    peak_macs: multiply-accumulates that the device could do in a cycle, None where its file does not say. accuracy: share of images with the right
    answer by way (float, integer, emulator), empty where there are no labels or nobody ran them. exact, closeness: results of the verification, None
    before it. allowed: how far results may be from exact ones, empty where not at all.
    stated: the accuracy that the build measured, None where nothing did.
    artefacts: files and folders by their purpose. stand_in: why the model is not the network of its name, empty where it is. states: of a model that
    is a step of a sequence, None for others.
    """

    model: str
    machine: str
    images: int
    clock_khz: int
    peak_macs: int | None
    placement: NodePlaces
    calibration: str
    regions: tuple[RegionUse, ...]
    time: Modelled
    costs: CostTable
    reasons: tuple[Cause, ...]
    constants: tuple[Basis, ...]
    accuracy: Mapping[str, float]
    exact: bool | None
    tensors: int
    closeness: "Closeness | None"
    artefacts: Mapping[str, str]
    stand_in: str = ""
    shares: tuple[MachineShare, ...] = ()
    allowed: str = ""
    remarks: tuple[Remark, ...] = ()
    stated: "Stated | None" = None
    states: StateTraffic | None = None

    @property
    def frames_per_second(self) -> float:
        """The rate of the machine alone, runs one after the other."""
        return self.images * 1000 / self.time.execute_ms if self.time.execute_ms else 0.0

    @property
    def utilisation(self) -> float | None:
        """The model's own multiply-accumulates on the machine, as a share of those possible in its cycles; None where there are several."""
        if self.peak_macs is None or not self.time.cycles or len(self.shares) > 1:
            return None
        return 100 * self.placement.machine_macs * self.images / self.time.cycles / self.peak_macs

    @property
    def memories(self) -> tuple[MemoryRoom, ...]:
        """Bytes of all regions; room of the one that needs most."""
        found: dict[str, list[MemoryRoom]] = {}
        for region in self.regions:
            for memory in region.memories:
                found.setdefault(f"{region.machine} {memory.memory}" if len(self.shares) > 1 else memory.memory, []).append(memory)
        return tuple(
            MemoryRoom(name, p[0].on_chip, max(m.used for m in p), p[0].of, sum(m.read for m in p), sum(m.written for m in p))
            for name, p in found.items()
        )


@dataclass(frozen=True)
class Told:
    """Further facts for a summary. artefacts: files and folders by kind. inferred, verified: results of the tasks of these names, where they ran.
    stand_in: as in the model's file. command: the first machine as commands take it. single: whether the build is for one sample."""

    artefacts: Mapping[str, str]
    inferred: "Inference | None" = None
    verified: "Verified | None" = None
    stand_in: str = ""
    command: str = ""
    stated: "Stated | None" = None
    single: bool = False


def summarise_model(built: Built, stages: Path, tell: Told) -> Summary:
    """stages: the folder of the graph's stages. Raises UserError E11xx for a bundle that is damaged, E0501 for a program that deadlocks."""
    machine, manifest, verified = built.machine, built.bundle.manifest, tell.verified
    times = region_times(built.machines, manifest)
    uses = [replace(_use(built, call), runs=times[call.op_type].runs) for call in region_calls(built.partitioned)]
    right = dict[str, float | None]() if tell.inferred is None else tell.inferred.right
    placement = place_nodes(built.floating, built.partitioned, stages)
    costs = built_costs(built, placement)
    machines = built.machines
    alone = [region.images for region in manifest.regions] or [images_per_run(machine)]
    images = max(alone) if len(machines) == 1 else samples_of(manifest.regions)
    return Summary(
        manifest.model, " + ".join(each.label for each in machines.values()), images, machine.timing.clock_khz, machine.timing.peak_macs, placement,
        calibration_kind(built.integer), tuple(uses), modelled(machines, manifest), costs,
        find_causes(costs, advisor_for(tell.command or machine.name, templates_for(machine), placement)),
        _constants(machines, uses, manifest),
        {way: share for way, share in right.items() if share is not None}, verified.right if verified else None,
        verified.tensors if verified else 0, verified.closeness if verified else None, tell.artefacts, tell.stand_in,
        tuple(_shares(machines, manifest, placement)), verified.allowed if verified else "",
        remarks_of(_remarks(built, uses, tell.single), tell.command or machine.name),
        tell.stated, state_traffic(machines, manifest),
    )  # fmt: skip


def _remarks(built: Built, uses: Sequence[RegionUse], single: bool) -> Iterator[Reason]:
    if single:
        copies = max((use.copies for use in uses), default=1)
        yield from helped_remarks(copies, modelled(built.machines, built.bundle.manifest, count=1))
    for name, machine in built.machines.items():
        own = [use for use in uses if use.machine == name]
        yield from stream_remarks(machine, max((use.streams for use in own), default=0))
        yield from peak_remarks(machine, own)
    yield from run_remarks(built.partitioned, {use.region: (use.runs if use.copies == 1 else 1, use.images) for use in uses})


def _use(built: Built, call: ir.Node) -> RegionUse:
    """The costs of a region's program, or of its calls."""
    backend = built.backend(call)
    if backend.tiled:
        return use_region(program_of_build(built, call))
    region = backend.read(built.partitioned, call)
    return use_graph(backend, region) if isinstance(region, GraphRegion) else use_calls(backend, region)


def built_costs(built: Built, placement: NodePlaces) -> CostTable:
    """The costs of the bundle's own programs."""
    manifest = built.bundle.manifest
    samples = samples_of(manifest.regions)
    times = region_times(built.machines, manifest)
    return cost_rows(built.machine, built.partitioned, {node.node: node.operator for node in placement.nodes}, times, samples)


def _shares(machines: Mapping[str, Machine], manifest: Manifest, placement: NodePlaces) -> Iterator[MachineShare]:
    samples, of = samples_of(manifest.regions), region_times(machines, manifest)
    for name, machine in machines.items():
        times = [of[region.name] for region in manifest.regions if region.target == name]
        cycles, clock = sum(time.cycles for time in times), machine.timing.clock_khz
        macs = samples * sum(node.macs for node in placement.on(MACHINE) if node.target == name)
        yield MachineShare(machine.label, len(times), cycles, clock, cycles / clock, macs, machine.timing.peak_macs)


def _constants(machines: Mapping[str, Machine], uses: Sequence[RegionUse], manifest: Manifest) -> tuple[Basis, ...]:
    """Everything declared that the times rest on, each once. The host's own speed is the first machine's."""
    found = {basis.name: basis for use in uses for basis in use.constants}
    first = next(iter(machines.values())).host
    rows = _speed(first, manifest) if first else []
    for name, machine in machines.items():
        rows += _link(machine.host, f"{name} " if len(machines) > 1 else "") if machine.host else []
        crossing = {stored.layout for region in manifest.regions if region.target == name for stored in region.map.tensors.values()}
        rows += [_declared(f"layout {each.name} GB/s", each.gb_per_s) for each in machine.layouts if each.name in crossing and each.gb_per_s]
    return tuple((found | {basis.name: basis for basis in rows}).values())


def _speed(host: Host, manifest: Manifest) -> list[Basis]:
    """Rates of recurrent layers and of loops only where the host has some."""
    done = {kind: work for segment in manifest.hosts for kind, work in segment.work.items()}
    rates = {kind: quantity for kind, quantity in host.gmac_per_s.items() if kind in done or kind not in RECURRENT}
    named = {f"host {kind} GMAC/s": quantity for kind, quantity in rates.items()} | {"host GB/s": host.gb_per_s}
    if host.step_us is not None and any(work.steps for work in done.values()):
        named["host step us"] = host.step_us
    return [_declared(name, quantity) for name, quantity in named.items()]


def _link(host: Host, owner: str) -> list[Basis]:
    named = {"launch us": host.launch_us, "transfer us": host.transfer_us, "transfer GB/s": host.transfer_gb_per_s}
    return [_declared(f"{owner}{name}", quantity) for name, quantity in named.items()]


def _declared(name: str, quantity: Quantity) -> Basis:
    return Basis(f"{name} = {quantity.value:g}", None, quantity.source, bool(quantity.assumed))
