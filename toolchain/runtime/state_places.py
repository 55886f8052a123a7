"""Places of states between steps: the memory of the device, the host in the stored form of the device, or plain arrays; bytes that a step moves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from toolchain.runtime.contents import HostSegment, Manifest, Port, RegionProgram, State, step_names, step_of
from toolchain.runtime.transfers import passes
from toolchain.spec.model import Machine

Place = Literal["device", "stored", "host"]


@dataclass(frozen=True)
class StatePlace:
    """One state between two steps. device: it stays in the memory of the device, since one region reads and makes it. stored: the host keeps its
    bytes as the device stores them, and copies them. host: the host keeps an array.

    region: the number of the region that has it, of a state on the device. bytes: of its buffer there, or of the array.
    moved: bytes that cross the border between host and device for it in each step. watched: whether a step reads it on the host as well.
    """

    state: State
    place: Place
    bytes: int
    moved: int
    region: int = -1
    watched: bool = False


def state_places(machines: Mapping[str, Machine], manifest: Manifest) -> tuple[StatePlace, ...]:
    """The best place of each state that the plan allows. machines: by name."""
    return tuple(_place(machines, manifest, state) for state in manifest.states)


def on_the_host(place: StatePlace) -> StatePlace:
    """A state that could stay on the device, for a device that keeps none."""
    return replace(place, place="stored", moved=2 * place.bytes, region=-1) if place.place == "device" else place


def _place(machines: Mapping[str, Machine], manifest: Manifest, state: State) -> StatePlace:
    readers = [(number, region, port) for number, region in enumerate(manifest.regions) for port in region.inputs if port.name == state.taken]
    makers = [(number, region, port) for number, region in enumerate(manifest.regions) for port in region.outputs if port.name == state.made]
    buffers = [region.map.tensors[port.tensor].bytes for _, region, port in (*readers, *makers)]
    watched = _is_read(manifest, state)
    if makers and readers and all(_kept(machines, makers[0][1:], reader[1:]) for reader in readers):
        (maker, region, _), alone = makers[0], len(readers) == 1 and not _on_host(manifest, state.taken)
        if alone and readers[0][0] == maker and machines[region.target].codegen == "binary":
            return StatePlace(state, "device", buffers[0], buffers[0] * watched, maker, watched)
        return StatePlace(state, "stored", buffers[0], sum(buffers), watched=watched)
    entry = next(each for each in manifest.inputs if each.name == state.input)
    return StatePlace(state, "host", math.prod(entry.shape or ()) * np.dtype(entry.dtype).itemsize, sum(buffers), watched=watched)


def _kept(machines: Mapping[str, Machine], made: tuple[RegionProgram, Port], read: tuple[RegionProgram, Port]) -> bool:
    return passes(machines[read[0].target], *made, *read)


def _is_read(manifest: Manifest, state: State) -> bool:
    """Whether a step reads the new state within the step that makes it, other than to convert it for the model's caller."""
    maker = next((number for number, region in enumerate(manifest.regions) for port in region.outputs if port.name == state.made), -1)
    readers = [step_of(manifest, step) for step in manifest.plan if not is_leaving(manifest, step_of(manifest, step))]
    return any(state.made in step_names(run)[0] for run in readers if maker < 0 or run is not manifest.regions[maker])


def _on_host(manifest: Manifest, tensor: str) -> bool:
    return any(tensor in segment.inputs for segment in manifest.hosts)


def is_entering(manifest: Manifest, run: HostSegment | RegionProgram) -> bool:
    """Whether a step only converts states from the model's own type to that in which they go round."""
    return isinstance(run, HostSegment) and _within(run.outputs, [state.taken for state in manifest.states if state.taken != state.input])


def is_leaving(manifest: Manifest, run: HostSegment | RegionProgram) -> bool:
    """Whether a step only converts states back."""
    return isinstance(run, HostSegment) and _within(run.outputs, [state.output for state in manifest.states if state.made != state.output])


def _within(names: Sequence[str], others: Sequence[str]) -> bool:
    return bool(names) and {*names} <= {*others}
