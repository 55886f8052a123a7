"""States in a model's file: read, held against the graph, and the sequences that calibrate them."""

from pathlib import Path

import numpy as np
import pytest

from tests.lengths_network import encoder, samples
from tests.steps_network import HELD, YAML, written
from toolchain.graph.importing.load import load_graph
from toolchain.graph.preparation import LengthAxis
from toolchain.models.load import load_model
from toolchain.models.model import Model, Recorded, State
from toolchain.models.samples import calibrated_by, calibration_samples
from toolchain.models.states import check_states, length_axes, model_sequences, opened, start_files, state_starts
from toolchain.spec.errors import UserError


def open_model(tmp_path: Path, size: int) -> Model:
    return load_model(str(encoder(tmp_path / "m.onnx")), {"sequence": size})


def test_axes_of_a_dimension(tmp_path: Path) -> None:
    assert length_axes(open_model(tmp_path, 4), ["sequence"]) == (LengthAxis("ids", 1, "sequence"), LengthAxis("mask", 1, "sequence"))
    assert length_axes(open_model(tmp_path, 4), ["ids.1"]) == (LengthAxis("ids", 1, "ids.1"),)


def test_a_dimension_that_is_not_open(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0905 no dimension of the inputs is called 'sequense'; did you mean 'sequence'"):
        length_axes(open_model(tmp_path, 4), ["sequense"])
    with pytest.raises(UserError, match=r"E0905 .*every dimension has a number already"):
        length_axes(load_model("bert_128"), ["sequence"])


@pytest.mark.parametrize("size", [4, 12, 16, 20])
def test_recorded_samples_are_cut_or_filled_up(size: int, tmp_path: Path) -> None:
    file = samples(tmp_path / "s.npz", 5, 12)
    found = calibration_samples(calibrated_by(opened(open_model(tmp_path, size), ["sequence"]), file))
    with np.load(file) as arrays:
        for name, array in found.items():
            assert array.shape == (5, 1, size)
            assert np.array_equal(array[..., :12], arrays[name][..., :size])
            assert not array[..., 12:].any()
    if size != 12:
        with pytest.raises(UserError, match="E0808"):
            calibration_samples(calibrated_by(open_model(tmp_path, size), file))


def model(tmp_path: Path, old: str = "", new: str = "") -> Model:
    return load_model(str(written(tmp_path, YAML.replace(old, new) if old else YAML)))


def test_states_of_a_file(tmp_path: Path) -> None:
    found = model(tmp_path)
    assert [(state.input, state.output, state.start, state.array) for state in found.states] == [
        ("h", "next_h", 0.0, "h"),
        ("count", "next_count", 3.0, ""),
    ]
    assert [*found.given] == ["x"]
    assert found.pairs == {"h": "next_h", "count": "next_count"}
    assert start_files(found) == (tmp_path / "start.npz",)
    check_states(found, load_graph(tmp_path / "steps.onnx", {}))


def test_starts_are_arrays_numbers_or_zeros(tmp_path: Path) -> None:
    starts = state_starts(model(tmp_path))
    assert np.array_equal(starts["h"], np.load(tmp_path / "start.npz")["h"])
    assert (starts["count"].dtype, starts["count"].tolist()) == (np.int64, [3])
    plain = state_starts(model(tmp_path, "{output: next_h, start: {file: start.npz, array: h}}", "next_h"))["h"]
    assert (plain.shape, plain.dtype, plain.any()) == ((1, HELD), np.float32, np.False_)


def test_made_up_sequences(tmp_path: Path) -> None:
    found = model_sequences(model(tmp_path))
    assert (found.count, found.steps, [*found.given]) == (3, 5, ["x"])
    assert found.given["x"].shape == (3, 5, 1, 16)
    assert len({array.tobytes() for array in found.given["x"].reshape(15, 16)}) == 15


@pytest.mark.parametrize("shape", [(2, 7, 16), (2, 7, 1, 16)])
def test_recorded_sequences_with_or_without_the_axis_of_the_batch(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "text.npz", x=np.arange(224, dtype=np.float32).reshape(shape))
    found = model_sequences(calibrated_by(model(tmp_path), tmp_path / "text.npz"))
    assert found.given["x"].shape == (2, 7, 1, 16)
    assert found.given["x"].ravel().tolist() == list(range(224))


def test_arrays_of_the_file_are_for_what_is_no_state(tmp_path: Path) -> None:
    found = model(tmp_path, "{seeded: 3, steps: 5}", "{file: text.npz, array: x}")
    assert isinstance(found.calibration, Recorded)
    assert found.calibration.arrays == {"x": "x"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  h:", "  hh:", "steps.yaml:4:3: E0815 the model has no input 'hh'"),
        ("count: {output: next_count", "count: {output: next_h", "steps.yaml:5:19: E0815 the output 'next_h' becomes two inputs"),
        ("place: all", "lengths: {a: [1, 2]}", "steps.yaml:7:1: E0816 'lengths' does not go with 'state'"),
        ("place: all", "test: {file: a.npz, array: x}", "steps.yaml:7:1: E0816 'test' does not go with 'state'"),
        ("{seeded: 3, steps: 5}", "{folder: x}", "steps.yaml:6:23: E0816 a folder of pictures does not go with 'state'"),
        ("{output: next_count, start: 3}", "3", "steps.yaml:5:10: E0116 this must be text or a mapping"),
        ("{output: next_count, start: 3}", "{start: 3}", "steps.yaml:5:3: E0109 missing key 'output' in state.count"),
        ("start: 3", "start: {file: start.npz}", "E0109 missing key 'array' in state.count.start"),
        ("{seeded: 3, steps: 5}", "{file: a.npz, array: x, steps: 5}", "E0116 give 'seeded' with a number of samples"),
    ],
)
def test_mistakes_that_the_file_shows(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        model(tmp_path, old, new)
    assert message in str(raised.value)


def test_steps_are_of_models_with_states(tmp_path: Path) -> None:
    text = YAML.replace(YAML[YAML.index("state:") : YAML.index("calibration:")], "")
    with pytest.raises(UserError, match="E0816 'steps' are of sequences, and this model has no 'state'"):
        load_model(str(written(tmp_path, text)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("output: next_h", "output: next_hh", "steps.yaml:4:15: E0815 the model has no output 'next_hh'; did you mean 'next_h'?"),
        ("output: next_h", "output: y", "steps.yaml:4:15: E0815 the output 'y' is FLOAT of shape 1x8, and the input 'h' FLOAT of shape 1x32"),
    ],
)
def test_outputs_that_are_no_state(tmp_path: Path, old: str, new: str, message: str) -> None:
    found = model(tmp_path, old, new)
    with pytest.raises(UserError) as raised:
        check_states(found, load_graph(tmp_path / "steps.onnx", {}))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("start: 3", "start: 0.5", "steps.yaml:5:19: E0815 'count', int64 of shape 1, cannot start as 0.5"),
        ("array: h}", "array: g}", "E0808 there is no array 'g'"),
        ("file: start.npz", "file: none.npz", "E0001"),
    ],
)
def test_starts_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        state_starts(model(tmp_path, old, new))
    assert message in str(raised.value)


def test_a_start_of_another_shape(tmp_path: Path) -> None:
    found = model(tmp_path)
    np.savez(tmp_path / "start.npz", h=np.zeros((1, HELD + 1), np.float32))
    with pytest.raises(UserError, match="E0815 'h', float32 of shape 1x32, cannot start as float32 of shape 1x33"):
        state_starts(found)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(16), "E0808 'x' is float64.16., no sequences of steps"),
        (np.zeros((2, 0, 16)), "E0808 'x' is float64.2, 0, 16., no sequences of steps"),
        (np.zeros((2, 3, 17)), "E0808 'x' is float64.2, 3, 17., not numbers of shape .'sequences', 'steps', 16."),
        (np.full((2, 3, 16), np.nan), "E0808 'x' holds numbers that are not finite"),
    ],
)
def test_recorded_sequences_that_do_not_fit(tmp_path: Path, x: np.typing.NDArray[np.float64], message: str) -> None:
    np.savez(tmp_path / "text.npz", x=x)
    with pytest.raises(UserError, match=message):
        model_sequences(calibrated_by(model(tmp_path), tmp_path / "text.npz"))


def test_a_state_has_its_place_in_the_file(tmp_path: Path) -> None:
    state = next(iter(model(tmp_path).states))
    assert isinstance(state, State)
    assert state.span is not None
    assert (state.span.line, state.span.column) == (4, 15)
