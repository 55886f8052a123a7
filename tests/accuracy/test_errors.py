"""Errors of tensors and outputs, against ONNX Runtime on both networks and numpy in between."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import Array, imported, normal
from tests.graph.onnx_builder import model
from tests.verify.builds import build
from toolchain.accuracy.errors import LEAST_ELEMENTS, MOST_PARTS, Energy, error_table, error_text, measure_errors, part_axis
from toolchain.graph.integers.calls import FLOAT_NAME, SCALE, integer_tensors
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize


def of(*pairs: tuple[object, object]) -> Energy:
    found = Energy()
    for wanted, other in pairs:
        found.add(np.asarray(wanted, np.float32), np.asarray(other, np.float32))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.floats(1e-6, 1e3))
def test_signal_to_noise_of_all_samples_together(seed: int, samples: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    wanted, noise = rng.normal(size=(samples, 2, 7)), rng.normal(size=(samples, 2, 7)) * spread
    one, other = wanted.astype(np.float32), (wanted + noise).astype(np.float32)
    found, difference = of(*zip(one, other, strict=True)), other.astype(np.float64) - one
    assert found.sqnr == pytest.approx(10 * np.log10((one.astype(np.float64) ** 2).sum() / (difference**2).sum()), rel=1e-6)
    assert found.elements == wanted.size
    assert found.lost == sum(int((np.abs(d) > w.astype(np.float64).std()).sum()) for w, d in zip(one, difference, strict=True))


@pytest.mark.parametrize(
    ("wanted", "found", "sqnr", "lost"),
    [
        ([1, 2], [1, 2], math.inf, 0),
        ([0, 0], [0, 0], math.inf, 0),
        ([1, math.nan], [1, math.nan], math.inf, 0),
        ([1, math.inf], [1, math.inf], math.inf, 0),
        ([1, math.inf], [1, -math.inf], -3000, 1),
        ([1, 2], [1, math.nan], -3000, 1),
        ([1, math.nan], [1, 2], -3000, 1),
        ([0, 0], [0, 1], -3000, 1),
        ([0, 0], [0, math.inf], -6000, 1),
    ],
)
def test_what_is_not_finite(wanted: list[float], found: list[float], sqnr: float, lost: int) -> None:
    result = of((wanted, found))
    assert result.sqnr == sqnr if math.isinf(sqnr) else result.sqnr <= sqnr + 20
    assert result.lost == lost


def test_nothing_seen_has_lost_nothing() -> None:
    assert Energy().lost_share == 0
    assert of(([1, 2], [9, 9])).lost_share == 1


@given(st.lists(st.integers(1, 300), min_size=0, max_size=4).map(tuple))
def test_parts_are_few_and_large_enough(shape: tuple[int, ...]) -> None:
    axis = part_axis(shape)
    if axis:
        assert 1 < shape[axis] <= MOST_PARTS
        assert math.prod(shape[1:]) // shape[axis] >= LEAST_ELEMENTS
        others = [k for k in range(1, len(shape)) if 1 < shape[k] < shape[axis]]
        assert all(math.prod(shape[1:]) // shape[k] < LEAST_ELEMENTS for k in others)


def test_a_detector_s_numbers_are_its_parts() -> None:
    assert [part_axis(shape) for shape in ((1, 84, 8400), (1, 25200, 85), (1, 1000), (1, 3, 20, 20, 6), ())] == [1, 2, 0, 1, 0]


STORED = Numerics().activation

n = helper.make_node
NODES = [n("Conv", ["x", "w"], ["a"], "conv"), n("Relu", ["a"], ["b"], "relu"), n("Conv", ["b", "v"], ["y"], "last")]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[ir.Model, ir.Model, dict[str, Array]]:
    folder = tmp_path_factory.mktemp("errors")
    constants = {"w": normal(0, 8, 3, 1, 1), "v": normal(1, 40, 8, 1, 1)}
    reference, samples = imported(folder, NODES, constants=constants), {"x": normal(2, 5, 1, 3, 4, 4)}
    context = Context("net.onnx", numerics=Numerics(), table=calibrate(reference, samples))
    return reference, run_passes(imported(folder, NODES, constants=constants), [Fuse(), Quantize()], context), samples


def decibels(wanted: Array, found: Array) -> float:
    return float(10 * np.log10((wanted.astype(np.float64) ** 2).sum() / ((wanted.astype(np.float64) - found) ** 2).sum()))


def test_every_stored_tensor_and_every_output(networks: tuple[ir.Model, ir.Model, dict[str, Array]]) -> None:
    reference, integer, samples = networks
    values = {value.metadata_props[FLOAT_NAME]: value for value in integer_tensors(integer)}
    errors = measure_errors(None, reference, integer, samples, STORED)
    floats = [run_session(open_model(reference, [next(iter(reference.graph)).outputs[0]]), {"x": x}) for x in samples["x"]]
    stored = [run_session(open_model(integer, integer_tensors(integer)), {"x": x}) for x in samples["x"]]
    assert {row.tensor for row in errors.tensors} == set(values) == {"x", "b", "y"}
    assert [row.sqnr for row in errors.tensors] == sorted(row.sqnr for row in errors.tensors)
    for row in errors.tensors:
        name, scale = values[row.tensor].name or "", float.fromhex(values[row.tensor].metadata_props[SCALE])
        found = np.stack([each[name] for each in stored])
        wanted = samples["x"] if row.tensor == "x" else np.stack([each["y"] if row.tensor == "y" else np.maximum(each["a"], 0) for each in floats])
        assert row.scale == scale
        assert row.sqnr == pytest.approx(decibels(wanted, found * scale), abs=1e-6)
        assert row.clipped == pytest.approx(((found == 127) | (found == -128)).mean())
    whole = np.stack([each["y"] for each in floats]), np.stack([each["y"] for each in stored])
    output = errors.outputs["y"]
    assert output.sqnr == pytest.approx(decibels(*whole), abs=1e-6)
    assert (output.axis, len(output.parts)) == (2, 4)
    for part in output.parts:
        assert part.sqnr == pytest.approx(decibels(*(each[:, :, :, part.index] for each in whole)), abs=1e-6)
    assert [part.sqnr for part in output.parts] == sorted(part.sqnr for part in output.parts)


def test_outputs_are_held_against_what_is_given(networks: tuple[ir.Model, ir.Model, dict[str, Array]]) -> None:
    """The tensors still against the reference."""
    reference, integer, samples = networks
    session = open_model(reference)
    errors = measure_errors(lambda one: {"y": run_session(session, one)["y"] + 100}, reference, integer, samples, STORED)
    assert errors.tensors == measure_errors(None, reference, integer, samples, STORED).tensors
    assert errors.outputs["y"].sqnr < 1
    assert {part.lost for part in errors.outputs["y"].parts} == {1.0}


def test_an_output_of_another_shape_is_noise_without_end(networks: tuple[ir.Model, ir.Model, dict[str, Array]]) -> None:
    reference, integer, samples = networks
    errors = measure_errors(lambda _: {"y": np.zeros((1, 2), np.float32)}, reference, integer, samples, STORED)
    assert errors.outputs["y"].sqnr < -2000
    assert errors.outputs["y"].axis == 0


def test_limits_of_the_machine_say_what_is_clipped(networks: tuple[ir.Model, ir.Model, dict[str, Array]]) -> None:
    reference, integer, samples = networks
    plain, narrow = (measure_errors(None, reference, integer, samples, Range(-high, high)).tensors for high in (127, 10))
    assert all(one.clipped <= other.clipped for one, other in zip(plain, narrow, strict=True))
    assert max(row.clipped for row in narrow) > 0.3


def test_the_table_as_text(networks: tuple[ir.Model, ir.Model, dict[str, Array]]) -> None:
    rows = error_table(*networks, STORED)
    text = error_text(rows).splitlines()
    assert text[0].split() == ["tensor", "operation", "SQNR", "[dB]", "scale", "clipped", "[%]"]
    assert [line.split()[0] for line in text[1:]] == [row.tensor for row in rows]
    assert len({len(line) for line in text}) == 1


def test_halves_that_the_host_hands_over_hold_no_more_than_the_greatest(tmp_path: Path) -> None:
    """As a mask's least number, which is far below any score in both networks: no noise."""
    least = np.array([np.finfo(np.float32).min, 1.0, -2.0, 1024.0], np.float32)
    onnx.save(model([n("Sigmoid", ["x"], ["y"], "share")], {"x": (1, 1, 4)}, {"y": None}), tmp_path / "share.onnx")
    np.savez(tmp_path / "share.npz", x=least.reshape(1, 1, 1, 4))
    text = "model: {name: share, summary: a function}\nonnx: share.onnx\ncalibration: {file: share.npz, array: x}\nplace: all\n"
    (tmp_path / "share.yaml").write_text(text)
    _, built, samples = build("stcp920:f16", str(tmp_path / "share.yaml"), tmp_path / "build", effort="0")
    verdict = verify_model(built, samples, SampleSize(instructions=1, elements=1, whole=0, seed=1))
    assert verdict.exact
    assert {row.tensor: row.sqnr for row in verdict.errors}["x"] == math.inf
