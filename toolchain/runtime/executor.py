"""Runs a bundle: `load(path).run(inputs)`. Any number of bundles in a process, any number of threads in a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.checks import prepare_program
from toolchain.graph.session import run_session
from toolchain.isa.binary.container import read_container
from toolchain.isa.binary.decode import decode
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, RegionProgram, Step
from toolchain.runtime.device import Device, Image, Loaded
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.host_session import open_segment
from toolchain.runtime.machine import bundle_machine, target_of
from toolchain.runtime.plan_checks import step_names, step_of
from toolchain.runtime.timing import Modelled, Shares, modelled
from toolchain.runtime.transfers import buffer_of, pack, unpack
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program

Array = NDArray[Any]
Tensors = dict[str, Array]


@dataclass(frozen=True)
class Outcome:
    """outputs: by name, samples one behind the other along the first axis. watched: other tensors of the plan that were asked for.

    runs: of each region on the device. cycles: of all of them, by the cycle model. shares: seconds, measured.
    """

    outputs: Mapping[str, Array]
    watched: Mapping[str, Array]
    samples: int
    runs: int
    cycles: float
    shares: Shares


def load(path: Path, machine: Machine | None = None, device: Device | None = None) -> "Executor":
    """A bundle, ready to run on `device`, the emulator if none is given. machine: for one that is not on the search path.

    Raises UserError E0001 and E11xx for the bundle, E1105 where it was made for another machine, E05xx and E06xx for a program that must not run.
    """
    return open_bundle(read_bundle(path), machine, device or EmulatorDevice(), str(path))


def open_bundle(bundle: Bundle, given: Machine | None, device: Device, place: str = "") -> "Executor":
    """As `load`, of a bundle in memory."""
    manifest = bundle.manifest
    machine = bundle_machine(manifest.target, place, given)
    hosts = tuple(open_segment(bundle.members[segment.model], bundle.members, place) for segment in manifest.hosts)
    images = [region_image(bundle, region, machine, place) for region in manifest.regions]
    if manifest.target.timing != target_of(machine).timing:
        manifest = replace(manifest, regions=tuple(replace(r, cycles=cycles_of(i)) for r, i in zip(manifest.regions, images, strict=True)))
    return Executor(manifest, machine, hosts, tuple(device.load(image) for image in images))


def region_image(bundle: Bundle, region: RegionProgram, machine: Machine, place: str = "") -> Image:
    """What a device loads. Raises UserError E032x and E03xx for a program that is damaged or not the machine's."""
    streams = read_container(machine, bundle.members[region.binary], f"{place} {region.binary}")
    constants = {name: bundle.members[member] for name, member in region.constants.items()}
    return Image(region.name, decode(machine, streams, f"{place} {region.binary}"), region.map, constants)


def cycles_of(image: Image) -> float:
    """By the cycle model; for a bundle whose cycles were counted with other timing."""
    ready = prepare_program(image.program, image.map.state(image.program.machine, image.constants))
    return time_program(image.program, ready.footprints, ready.provenance, ready.tokens).cycles


@dataclass(frozen=True)
class Executor:
    """A loaded bundle."""

    manifest: Manifest
    machine: Machine
    _hosts: Sequence[Any]
    _regions: Sequence[Loaded]

    @property
    def group(self) -> int:
        """Samples that regions take at once."""
        return max((region.samples for region in self.manifest.regions), default=1)

    def modelled(self) -> Modelled:
        """Milliseconds of one group of samples, by the machine's declared costs."""
        steps = [step_of(self.manifest, step) for step in self.manifest.plan]
        return modelled(
            self.machine, [step for step in steps if isinstance(step, HostSegment)], [step for step in steps if isinstance(step, RegionProgram)]
        )

    def run(self, inputs: Mapping[str, Array], watch: Sequence[str] = ()) -> Outcome:
        """inputs: [samples * first size, ...] for each input; watch: further tensors of the plan to answer with.

        Raises UserError E1108 for inputs of another name, shape or type, E0910 where ONNX Runtime stops, E07xx where the device does.
        """
        samples = _samples(self.manifest.inputs, inputs)
        outputs = [entry.name for entry in self.manifest.outputs]
        found: list[Tensors] = []
        cycles, runs, shares = 0.0, 0, Shares()
        for first in range(0, len(samples), self.group):
            group = samples[first : first + self.group]
            for step in self.manifest.plan:
                shares += self._step(step, group)
                run = step_of(self.manifest, step)
                cycles += run.cycles if isinstance(run, RegionProgram) else 0.0
                runs += isinstance(run, RegionProgram)
            found += [{name: sample[name] for name in (*outputs, *watch) if name in sample} for sample in group]
        empty = {entry.name: np.zeros((0, *entry.shape[1:]), entry.dtype) for entry in self.manifest.outputs} if not samples else {}
        return Outcome(empty or _joined(found, outputs), _joined(found, watch), len(samples), runs, cycles, shares)

    def _step(self, step: Step, group: Sequence[Tensors]) -> Shares:
        """Runs a step for a group of samples, which it adds its results to."""
        if step.kind == "host":
            return self._host(step.index, group)
        region, start = self.manifest.regions[step.index], perf_counter()
        writes = pack(self.machine, region, group)
        reads = list(dict.fromkeys(buffer_of(region.map, port.tensor) for port in region.outputs))
        packed = perf_counter()
        ran = self._regions[step.index].run(writes, reads)
        unpacking = perf_counter()
        for sample, made in zip(group, unpack(self.machine, region, dict(zip(reads, ran.data, strict=True)), len(group)), strict=True):
            sample.update(made)
        return Shares(0.0, packed - start + ran.transfer + perf_counter() - unpacking, ran.launch, ran.execute)

    def _host(self, index: int, group: Sequence[Tensors]) -> Shares:
        start = perf_counter()
        inputs, outputs = step_names(self.manifest.hosts[index])
        for sample in group:
            sample.update(run_session(self._hosts[index], {name: sample[name] for name in inputs}, outputs))
        return Shares(host=perf_counter() - start)


def _samples(interfaces: Sequence[Interface], inputs: Mapping[str, Array]) -> list[Tensors]:
    """The inputs of each sample. Raises UserError E1108."""
    names = [entry.name for entry in interfaces]
    if sorted(inputs) != sorted(names):
        raise fail("E1108", f"the model's inputs are {', '.join(names) or 'none'}; given are {', '.join(inputs) or 'none'}")
    counts: dict[str, int] = {}
    for entry in interfaces:
        given, shape = inputs[entry.name], entry.shape
        fits = given.ndim == len(shape) and given.ndim > 0 and given.shape[1:] == shape[1:] and given.shape[0] % shape[0] == 0
        if not fits or str(given.dtype) != entry.dtype:
            wanted = ", ".join(map(str, ("samples" if shape[0] == 1 else f"{shape[0]} * samples", *shape[1:]))) if shape else ""
            message = f"the input '{entry.name}' is {entry.dtype} [{wanted}]; given is {given.dtype} {list(given.shape)}"
            raise fail("E1108", message)
        counts[entry.name] = given.shape[0] // shape[0]
    if len(set(counts.values())) > 1:
        raise fail("E1108", f"the inputs have different numbers of samples: {', '.join(f'{name} {count}' for name, count in counts.items())}")
    count = next(iter(counts.values()), 1)
    return [{e.name: inputs[e.name][k * e.shape[0] : (k + 1) * e.shape[0]] for e in interfaces} for k in range(count)]


def _joined(samples: Sequence[Tensors], names: Sequence[str]) -> Tensors:
    held = [name for name in names if samples and name in samples[0]]
    return {name: np.concatenate([np.atleast_1d(sample[name]) for sample in samples]) for name in held}
