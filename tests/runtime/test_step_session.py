"""Steps of a session equal the integer network in ONNX Runtime, bit for bit, whatever keeps the states and however sequences are mixed."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.small import bundle
from tests.steps_network import SEEN, built
from toolchain.runtime.device import ByteRange, Bytes, Image, LoadedProgram, Ran
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.open_region import RegionEngine
from toolchain.runtime.process_device import ProcessDevice
from toolchain.runtime.step_session import StepSession, joined_steps, open_steps
from toolchain.runtime.timing import Shares
from toolchain.runtime.transfers import Value
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail


@dataclass(frozen=True)
class Forgetful:
    """A device that keeps no tensors between runs. moved: bytes of each run, to it and back."""

    moved: list[tuple[int, int]]

    def load(self, image: Image) -> LoadedProgram:
        return _Loaded(EmulatorDevice().load(image), self.moved)


@dataclass(frozen=True)
class _Loaded:
    program: LoadedProgram
    moved: list[tuple[int, int]]

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        self.moved.append((sum(where.bytes for where in writes), sum(where.bytes for where in reads)))
        return self.program.run(writes, reads)


def check(session: StepSession, number: int = 0) -> None:
    """A whole sequence, outputs and states."""
    for inputs, wanted in built("vta").oracle(number):
        found = session.step({"x": inputs["x"]}).outputs
        assert [*found] == ["y"]
        assert np.array_equal(found["y"], wanted["y"])
        states = session.states()
        assert np.array_equal(states["h"], wanted["next_h"])
        assert states["count"].tolist() == wanted["next_count"].tolist()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", ["gemmini", "vta", "dpuv3", "stcp920"])
def test_steps_equal_the_integer_network_on_every_machine(target: str) -> None:
    session = built(target).session()
    assert [place.place for place in session.places] == ["device", "host"]
    for inputs, wanted in built(target).oracle():
        assert np.array_equal(session.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
        assert np.array_equal(session.states()["h"], wanted["next_h"])


def test_a_device_that_keeps_no_tensors_leaves_the_same() -> None:
    moved: list[tuple[int, int]] = []
    session = built("vta").session(Forgetful(moved))
    assert [place.place for place in session.places] == ["stored", "host"]
    check(session)
    assert {*moved} == {(16 + 32, 16 + 32)}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=12))
def test_sequences_beside_each_other_do_not_mix(turns: list[tuple[int, int]]) -> None:
    """Each turn is a step of one of two sequences, or (0) its reset."""
    executor = built("vta").executor()
    sessions, places = [open_steps(executor), open_steps(executor)], [0, 0]
    wanted = [built("vta").oracle(number) for number in range(2)]
    for which, action in turns:
        if action == 0 or places[which] == 5:
            sessions[which].reset()
            places[which] = 0
            assert np.array_equal(sessions[which].states()["h"], executor.starts["h"])
            continue
        inputs, outputs = wanted[which][places[which]]
        assert np.array_equal(sessions[which].step({"x": inputs["x"]}).outputs["y"], outputs["y"])
        places[which] += 1
        assert sessions[which].steps == places[which]


def test_runs_without_a_session_between_steps_change_no_state() -> None:
    executor = built("vta").executor()
    session = open_steps(executor)
    for inputs, wanted in built("vta").oracle():
        assert np.array_equal(session.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
        other = executor.run({name: array * 0 for name, array in inputs.items()}).outputs
        assert other["next_count"].tolist() == [1]
        assert not other["next_h"].any()


def test_all_steps_of_an_array_at_once() -> None:
    sequences = built("vta").sequences
    whole = joined_steps(built("vta").session().run({"x": sequences.given["x"][0].reshape(5, 16)}))
    assert (whole.samples, whole.outputs["y"].shape) == (5, (5, 8))
    assert np.array_equal(whole.outputs["y"], np.concatenate([wanted["y"] for _, wanted in built("vta").oracle()]))
    assert whole.cycles == 5 * sum(region.cycles for region in built("vta").bundle.manifest.regions)
    assert joined_steps([]).outputs == {}


def test_a_step_takes_one_sample() -> None:
    with pytest.raises(UserError, match="E1133 a step takes one sample, given are 2; open a session for each sequence"):
        built("vta").session().step({"x": np.zeros((2, 16), np.float32)})


def test_states_are_no_inputs_of_a_step() -> None:
    with pytest.raises(UserError, match="E1108 the model's inputs are x; given are x, count"):
        built("vta").session().step({"x": np.zeros((1, 16), np.float32), "count": np.zeros(1, np.int64)})


def test_a_model_without_states_has_no_steps() -> None:
    with pytest.raises(UserError, match="has no states, so it has no steps"):
        open_steps(open_bundle(bundle(), None, EmulatorDevice()))


def test_a_state_that_the_host_reads_as_well_stays_on_the_device() -> None:
    held = built("vta", SEEN)
    session = held.session()
    assert [(place.place, place.watched, place.moved) for place in session.places] == [("device", True, 32), ("host", False, 0)]
    for inputs, wanted in held.oracle():
        found = session.step({"x": inputs["x"]}).outputs
        assert {name: array.tobytes() for name, array in found.items()} == {name: wanted[name].tobytes() for name in ("y", "seen")}
        assert np.array_equal(session.states()["h"], wanted["next_h"])


@dataclass
class Failing:
    """A region that fails once it is told to."""

    engine: RegionEngine
    fails: bool = False

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[dict[str, Value]], Shares]:
        if self.fails:
            raise fail("E0712", "the device fails")
        return self.engine.run(samples, kept)


def test_after_a_step_that_failed_states_are_unknown_until_a_reset() -> None:
    executor = built("vta").executor(Forgetful([]))
    failing = Failing(executor.engines[0])
    session = open_steps(replace(executor, engines=(failing,)))
    (inputs, wanted), (more, _), *_ = built("vta").oracle()
    session.step({"x": inputs["x"]})
    failing.fails = True
    with pytest.raises(UserError, match="E0712"):
        session.step({"x": more["x"]})
    failing.fails = False
    for again in (session.states, lambda: session.step({"x": more["x"]})):
        with pytest.raises(UserError, match="E1133 a step failed, so the states are unknown; reset the session"):
            again()
    session.reset()
    assert np.array_equal(session.step({"x": inputs["x"]}).outputs["y"], wanted["y"])


def test_a_device_in_another_process_keeps_states_too() -> None:
    session = built("vta").session(ProcessDevice((sys.executable, "-m", "toolchain", "device")))
    assert [place.place for place in session.places] == ["device", "host"]
    check(session)
    session.reset()
    check(session)


@pytest.mark.parametrize("device", [EmulatorDevice(), Forgetful([])])
@pytest.mark.parametrize("after", range(5))
def test_a_sequence_goes_on_elsewhere_with_the_same_bits(after: int, device: EmulatorDevice | Forgetful) -> None:
    """The model's own type holds every stored integer."""
    first, second, oracle = built("vta").session(), built("vta").session(device), built("vta").oracle()
    for inputs, _ in oracle[:after]:
        first.step({"x": inputs["x"]})
    second.reset(first.states())
    assert all(np.array_equal(array, second.states()[name]) for name, array in first.states().items())
    for inputs, wanted in oracle[after:]:
        assert np.array_equal(second.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
    second.reset()
    assert np.array_equal(second.states()["h"], second.executor.starts["h"])


def test_a_part_of_the_states_may_be_given() -> None:
    session = built("vta").session()
    session.reset({"count": np.array([40])})
    session.step({"x": np.zeros((1, 16), np.float32)})
    assert session.states()["count"].tolist() == [41]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"hh": np.zeros((1, 32), np.float32)}, "E1108 the model has no state 'hh'; did you mean 'h'"),
        ({"h": np.zeros((1, 31), np.float32)}, "E1108 the input 'h' is float32"),
        ({"h": np.zeros((1, 32))}, "E1108 the input 'h' is float32"),
        ({"h": np.zeros((2, 32), np.float32)}, "E1108 a state is of one sequence, given are 2"),
        ({"x": np.zeros((1, 16), np.float32)}, "E1108 the model has no state 'x'; known: h, count"),
    ],
)
def test_states_that_no_sequence_can_begin_with(states: dict[str, Array], message: str) -> None:
    session = built("vta").session()
    with pytest.raises(UserError, match=message):
        session.reset(states)
    check(session)
