"""A sequence of steps: runs of a bundle between which the runtime keeps the model's states, on the device where one region reads and makes them."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter

from toolchain.runtime.contents import Interface, PlanStep, RegionProgram, step_of
from toolchain.runtime.device import ByteRange, ResidentProgram, Residing
from toolchain.runtime.executor import Executor, Outcome, join_samples, split_samples
from toolchain.runtime.open_region import PackedEngine, RegionEngine
from toolchain.runtime.timing import Shares
from toolchain.runtime.transfers import (
    StatePlace,
    StoredImage,
    StoredResult,
    Value,
    array_of,
    buffer_of,
    check_numbers,
    is_entering,
    is_leaving,
    on_the_host,
    pack,
    state_places,
    unpack,
)
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model import Machine


@dataclass
class ResidentEngine:
    """Runs a region some of whose inputs are results that its last run left in the device's memory. states: by port that reads one, the port that
    makes it. watched: those of the latter that the host reads as well. begun: whether there was a run."""

    machine: Machine
    region: RegionProgram
    program: ResidentProgram
    states: Mapping[str, str]
    watched: Collection[str]
    begun: bool = False

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[dict[str, Value]], Shares]:
        """samples: one. Raises UserError E1104 for a tensor other than the region expects, E07xx where the device fails."""
        start, hidden = perf_counter(), {*self.states.values()}.difference(self.watched)
        given = replace(self.region, inputs=tuple(port for port in self.region.inputs if not (self.begun and port.name in self.states)))
        asked = replace(self.region, outputs=tuple(port for port in self.region.outputs if port.name not in hidden))
        writes = pack(self.machine, given, samples)
        reads = list(dict.fromkeys(buffer_of(self.region.map, port.tensor) for port in asked.outputs))
        packed = perf_counter()
        ran = self.program.step(self._moves() if self.begun else {}, writes, reads)
        self.begun, unpacking = True, perf_counter()
        found = unpack(self.machine, asked, dict(zip(reads, ran.data, strict=True)), 1, kept)
        return found, Shares(0.0, packed - start + ran.transfer + perf_counter() - unpacking, ran.launch, ran.execute)

    def state(self, made: str) -> StoredImage:
        """A state as the last run left it. made: the port's name."""
        port = next(port for port in self.region.outputs if port.name == made)
        (data,) = self.program.read([buffer_of(self.region.map, port.tensor)])
        return StoredImage(StoredResult(self.machine, self.region.map.tensors[port.tensor], data), 0, port.shape)

    def _moves(self) -> dict[ByteRange, ByteRange]:
        tensors = {port.name: port.tensor for port in (*self.region.inputs, *self.region.outputs)}
        return {buffer_of(self.region.map, tensors[taken]): buffer_of(self.region.map, tensors[made]) for taken, made in self.states.items()}


def open_steps(executor: Executor) -> "StepSession":
    """A new sequence, before its first step. Any number of them may run beside each other. Raises UserError E1133 for a model without states."""
    if not executor.manifest.states:
        raise fail("E1133", f"'{executor.manifest.model}' has no states, so it has no steps", hint="run samples, or name states in the model's file")
    places = tuple(_granted(executor, place) for place in state_places(executor.machines, executor.manifest))
    own = {number: _resident(executor, number, places) for number in sorted({place.region for place in places} - {-1})}
    return StepSession(executor, places, own)


def _granted(executor: Executor, place: StatePlace) -> StatePlace:
    """The place that the device grants: on the host where it keeps no tensors."""
    engine = executor.engines[place.region] if place.place == "device" else None
    return place if isinstance(engine, PackedEngine) and isinstance(engine.program, Residing) else on_the_host(place)


def _resident(executor: Executor, number: int, places: Sequence[StatePlace]) -> ResidentEngine:
    engine = executor.engines[number]
    assert isinstance(engine, PackedEngine)
    assert isinstance(engine.program, Residing)
    own = [place for place in places if place.region == number]
    watched = frozenset(place.state.made for place in own if place.watched)
    return ResidentEngine(engine.machine, engine.region, engine.program.resident(), {p.state.taken: p.state.made for p in own}, watched)


@dataclass
class StepSession:
    """One sequence of steps; threads take turns. places: of each state between two steps."""

    executor: Executor
    places: tuple[StatePlace, ...]
    _own: Mapping[int, ResidentEngine]
    _held: dict[str, Value] = field(default_factory=dict[str, Value])
    _shown: dict[str, Value] = field(default_factory=dict[str, Value])
    _given: Mapping[str, Array] = field(default_factory=dict[str, Array])
    _steps: int = 0
    _failed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def steps(self) -> int:
        """Since the start, or the last `reset`."""
        return self._steps

    @cached_property
    def inputs(self) -> tuple[Interface, ...]:
        """The inputs of a step, states left out."""
        return self.executor.manifest.step_inputs

    @cached_property
    def outputs(self) -> tuple[Interface, ...]:
        """The outputs of a step, states left out."""
        return self.executor.manifest.step_outputs

    @property
    def starts(self) -> dict[str, Array]:
        """By input of the model, every state before the first step."""
        return {**self.executor.starts, **self._given}

    def reset(self, states: Mapping[str, Array] | None = None) -> None:
        """Back to before the first step. states: by input of the model and in its type, those that start otherwise than the bundle says, such as the
        `states` of another sequence, which this one then goes on with.

        Raises UserError E1108 for one of another name, shape or type, E1134 for NaN in one that becomes integers; the session is as before then.
        """
        given, known = dict(states or {}), self.executor.starts
        if strange := next((name for name in given if name not in known), ""):
            raise fail("E1108", f"the model has no state '{strange}'", hint=nearest(strange, known) or f"known: {', '.join(known)}")
        samples = split_samples([entry for entry in self.executor.manifest.inputs if entry.name in given], given)
        if len(samples) != 1:
            raise fail("E1108", f"a state is of one sequence, given are {len(samples)}")
        check_numbers(given, self.executor.integers)
        with self._lock:
            self._given = samples[0]
            self._held, self._shown, self._steps, self._failed = {}, {}, 0, False
            for engine in self._own.values():
                engine.begun = False

    def step(self, inputs: Mapping[str, Array]) -> Outcome:
        """inputs: by name, of one step, states left out; so are the outputs.

        Raises UserError E1108 for inputs of another name, shape or type, E1134 for NaN in one that becomes integers, E1133 for several samples, and
        after a step that failed until `reset`, E0910 where ONNX Runtime stops, E07xx where the device does.
        """
        samples = split_samples(self.inputs, inputs)
        if len(samples) != 1:
            raise fail("E1133", f"a step takes one sample, given are {len(samples)}", hint="open a session for each sequence")
        check_numbers(inputs, self.executor.integers)
        with self._lock:
            self._check()
            self._failed = True
            outcome = self._step(dict(samples[0]))
            self._failed = False
            return outcome

    def run(self, inputs: Mapping[str, Array]) -> list[Outcome]:
        """Steps one after the other. inputs: [steps * first size, ...] by name. Raises as `step`; NaN in any of them before the first step."""
        samples = split_samples(self.inputs, inputs)
        check_numbers(inputs, self.executor.integers)
        return [self.step(one) for one in samples]

    def states(self) -> dict[str, Array]:
        """By input of the model and in its type, every state as the next step will read it. Raises UserError E1133 after a step that failed."""
        with self._lock:
            self._check()
            if not self._steps:
                return self.starts
            sample: dict[str, Value] = {**self._shown, **{place.state.made: self._state(place) for place in self.places}}
            for step in self.executor.manifest.plan:
                if is_leaving(self.executor.manifest, step_of(self.executor.manifest, step)):
                    self.executor.advance(step, [sample])
            return {place.state.input: array_of(sample[place.state.output]) for place in self.places}

    def _check(self) -> None:
        if self._failed:
            raise fail("E1133", "a step failed, so the states are unknown", hint="reset the session")

    def _state(self, place: StatePlace) -> Value:
        return self._own[place.region].state(place.state.made) if place.region >= 0 else self._held[place.state.taken]

    def _step(self, sample: dict[str, Value]) -> Outcome:
        sample |= self._held if self._steps else self.starts
        shares, cycles, runs = Shares(), 0.0, 0
        made = [place.state.made for place in self.places]
        for step, run in self._plan():
            engine: RegionEngine | None = self._own.get(step.index) if step.kind == "region" else None
            shares += self.executor.advance(step, [sample], engine, made)
            if isinstance(run, RegionProgram):
                cycles, runs = cycles + run.cycles * run.runs(1), runs + run.runs(1)
        self._shown = {place.state.output: sample[place.state.output] for place in self.places if place.state.output in sample}
        self._held = {place.state.taken: sample[place.state.made] for place in self.places if place.region < 0}
        self._steps += 1
        return Outcome({entry.name: array_of(sample[entry.name]) for entry in self.outputs}, {}, 1, runs, cycles, shares)

    def _plan(self) -> Iterator[tuple[PlanStep, object]]:
        """Without conversions of states that are kept as they go round."""
        manifest = self.executor.manifest
        for step in manifest.plan:
            run = step_of(manifest, step)
            if not is_leaving(manifest, run) and not (self._steps and is_entering(manifest, run)):
                yield step, run


def joined_steps(steps: Sequence[Outcome]) -> Outcome:
    """All steps as one outcome, outputs one behind the other along the first axis. Raises UserError E1108 where theirs have different shapes."""
    names = [*steps[0].outputs] if steps else []
    outputs = join_samples([dict(each.outputs) for each in steps], names)
    shares = sum((each.shares for each in steps), Shares())
    return Outcome(outputs, {}, len(steps), sum(each.runs for each in steps), sum(each.cycles for each in steps), shares)
