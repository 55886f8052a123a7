"""Divided streams: which tensors share divisors, and which calls keep a tensor from having any; what a network computes stays, whole numbers are what
norms multiply by, and integers lose less where a channel is large."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import model, n, save
from tests.passes.residual_networks import CHANNELS, COMPUTES, KINDS, MACHINE, ROWS, F, fused, network, sequences
from tests.passes.test_budget import judge
from toolchain.accuracy.errors import measure_errors
from toolchain.graph.integers.calls import DIVISORS, FLOAT_NAME, factors_of, integer_tensors, run_oracle, run_reference
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.rewrite import constant
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.operations.kind import MOST_FACTOR
from toolchain.operations.library import kinds_of
from toolchain.operations.whole import most_factor
from toolchain.passes.context import Context, Device, Results
from toolchain.passes.equalise import CorrectBias
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.passes.smooth_streams import (
    Stream,
    Streams,
    divided_operands,
    divisors_of,
    is_sum,
    multiplied_axis,
    observe_streams,
    streams_of,
)
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Numerics

NUMERICS = MACHINE.quantisation or Numerics()


def observed(folder: Path, form: str, seed: int = 0, outlier: float = 60.0) -> Streams:
    graph, samples = fused(network(folder, form, seed, outlier)), sequences(4, seed)
    found = observe_streams(graph, samples, 4, calibrate(graph, samples), KINDS, COMPUTES)
    assert found is not None
    return found


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["post", "pre"]), st.sampled_from([0.5, 0.8, 1.0]), st.sampled_from([1.0, 60.0]))
def test_results_stay(tmp_path_factory: pytest.TempPathFactory, seed: int, form: str, power: float, outlier: float) -> None:
    streams = observed(tmp_path_factory.mktemp("s"), form, seed, outlier)
    divided = streams.divided(power)
    for x in sequences(2, seed + 1)["x"]:
        wanted, found = (run_session(open_model(each), {"x": x}) for each in (streams.model, divided.model))
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4)
    assert {value.name for value in divided.model.graph.outputs} == {value.name for value in streams.model.graph.outputs}


@pytest.mark.parametrize("form", ["post", "pre"])
def test_norms_multiply_by_whole_numbers(form: str, tmp_path: Path) -> None:
    streams = observed(tmp_path, form)
    for stream in streams.found:
        divisors = divisors_of(stream, streams.seen, 0.8, KINDS)
        assert len(divisors) == CHANNELS
        assert divisors.min() > 0
        if stream.norms:
            np.testing.assert_array_equal(divisors, np.rint(divisors))
            assert divisors.max() == MOST_FACTOR
    kinds = [kind_of(node) for node in streams.divided(0.8).model.graph]
    assert kinds.count("scaled_layer_norm") == 3
    assert "layer_norm" not in kinds


def test_factors_keep_to_the_limit_of_the_machine(tmp_path: Path) -> None:
    """gemmini's norms of 64 channels multiply by 32 at most."""
    streams = observed(tmp_path, "post")
    kinds = kinds_of(load_machine("gemmini"))
    most = most_factor(kinds["scaled_layer_norm"], {"channels": CHANNELS})
    found = [divisors_of(stream, streams.seen, 0.8, kinds) for stream in streams.found if stream.norms]
    assert found
    assert {divisors.max() for divisors in found} == {most} == {32}


def test_the_power_weighs_ranges_against_weights(tmp_path: Path) -> None:
    streams = observed(tmp_path, "post")
    (stream,) = [each for each in streams.found if each.tensors[0].name == "c"]
    weights = constant(stream.layers[0].inputs[1])
    assert weights is not None
    weights = np.abs(weights).max(0)
    ranges = np.abs(np.concatenate(streams.seen["c"])).max((0, 1))
    by_range, by_weights = divisors_of(stream, streams.seen, 1.0, KINDS), divisors_of(stream, streams.seen, 0.0, KINDS)
    np.testing.assert_allclose(by_range / by_range[0], ranges / ranges[0], rtol=0.1)
    np.testing.assert_allclose(by_weights / by_weights[0], weights[0] / weights, rtol=0.1)


def context(form: str, folder: Path) -> Context:
    graph, samples = fused(network(folder, form)), sequences(12)
    device = Device("m", lambda _: (), computes=COMPUTES)
    table = calibrate(graph, samples)
    return Context(
        "net.onnx", numerics=NUMERICS, table=table, samples=samples, recorded=True, kinds=KINDS, device=device, policy="all", judge=judge(1)
    )


@pytest.mark.parametrize("form", ["post", "pre"])
def test_integers_lose_less(form: str, tmp_path: Path) -> None:
    given, found = context(form, tmp_path), dict[bool, float]()
    graph = fused(network(tmp_path, form))
    for smooth in (False, True):
        integer = run_passes(graph.clone(), [Quantize(smooth=smooth, method="accurate")], given)
        errors = measure_errors(None, graph, integer, sequences(4, 5), NUMERICS.activation)
        found[smooth] = errors.outputs["y"].sqnr
        divided = {value.metadata_props[FLOAT_NAME]: factors_of(value).size for value in integer_tensors(integer)}
        assert divided["s1"] == (CHANNELS if smooth else 1)
        assert {"s0", "s1", "d0", "d1"} <= {row.tensor for row in errors.tensors if row.sqnr > (15 if smooth else 0)}
    assert found[True] > found[False] + 3


def test_both_ways_of_the_integers_agree(tmp_path: Path) -> None:
    integer = run_passes(fused(network(tmp_path, "alone")), [Quantize()], context("alone", tmp_path))
    one = {"x": sequences(1, 9)["x"][0]}
    oracle, reference = run_oracle(integer, one), run_reference(integer, one, NUMERICS, KINDS)
    compared = {node.outputs[0].name for node in integer.graph if kind_of(node) in ("scaled_layer_norm", "linear", "add")}
    assert len(compared) == 8
    for name in compared:
        np.testing.assert_array_equal(reference[name or ""], oracle[name or ""])


def test_biases_of_divided_tensors_are_corrected_by_divided_means(tmp_path: Path) -> None:
    """On the samples of the calibration, whose means these are; a layer stands first, as biases behind operators of the host stay."""
    given, graph, found = context("alone", tmp_path), fused(network(tmp_path, "alone")), list[float]()
    for passes in ([Quantize(method="accurate")], [Quantize(method="accurate"), CorrectBias(samples=12)]):
        integer = run_passes(graph.clone(), passes, given)
        assert any(DIVISORS in value.metadata_props for value in integer_tensors(integer))
        found.append(measure_errors(None, graph, integer, sequences(4, 5), NUMERICS.activation).outputs["y"].sqnr)
    assert found[1] > found[0] - 1


def same(wanted: Results, found: Results) -> float:
    del wanted, found
    return 0.1


def test_a_network_that_gains_nothing_stays(tmp_path: Path) -> None:
    """Where a measurement says that no integers are nearer, all is as without."""
    given, graph = context("post", tmp_path), fused(network(tmp_path, "post"))
    assert given.judge is not None
    flat = replace(given, judge=replace(given.judge, noise=same))
    made = [run_passes(graph.clone(), [Quantize(smooth=smooth)], flat) for smooth in (False, True)]
    first, second = ([(node.op_type, node.name) for node in each.graph] for each in made)
    assert first == second
    assert "scaled_layer_norm" not in {kind for kind, _ in second}


Names = set[str | None]


def names(stream: Stream) -> tuple[Names, Names, Names, Names]:
    makers, layers, norms = ({node.name for node in nodes} for nodes in (stream.makers, stream.layers, stream.norms))
    return {value.name for value in stream.tensors}, makers, layers, norms


def test_a_network_with_norms_behind_its_sums_has_a_stream_for_each(tmp_path: Path) -> None:
    found = [names(stream) for stream in streams_of(fused(network(tmp_path, "post")), KINDS, COMPUTES)]
    assert found == [
        ({"h"}, set(), set(), {"norm0"}),
        ({"a", "d0", "s0"}, {"norm0", "bias0"}, {"bias0"}, {"norm1"}),
        ({"b", "d1", "s1"}, {"norm1", "bias1"}, {"bias1"}, {"norm2"}),
        ({"c"}, {"norm2"}, {"end"}, set()),
    ]


def test_all_sums_of_a_network_with_norms_before_its_layers_are_one_stream(tmp_path: Path) -> None:
    streams = list(streams_of(fused(network(tmp_path, "pre")), KINDS, COMPUTES))
    assert [names(stream) for stream in streams] == [
        ({"h", "d0", "s0", "d1", "s1"}, {"bias0", "bias1"}, set(), {"norm0", "norm1", "norm2"}),
        ({"a"}, {"norm0"}, {"bias0"}, set()),
        ({"b"}, {"norm1"}, {"bias1"}, set()),
        ({"y"}, {"norm2"}, set(), set()),
    ]
    assert {value.name for value in streams[0].ranged} == {"h", "s0", "s1"}
    assert streams[0].channels == CHANNELS


def test_without_norms_that_multiply_only_tensors_between_norms_and_layers_are_streams(tmp_path: Path) -> None:
    plain = COMPUTES - {"scaled_layer_norm"}
    assert [names(stream)[0] for stream in streams_of(fused(network(tmp_path, "post")), KINDS, plain)] == [{"c"}]


CONSTANTS = {"g": [1.0] * CHANNELS, "o": [0.0] * CHANNELS, "w": [[0.1] * CHANNELS] * CHANNELS, "k": [1.0] * CHANNELS}
NORM = n("LayerNormalization", ["s", "g", "o"], ["c"], "norm", epsilon=1e-5)
CLOSED = {
    "an input of the model": [n("LayerNormalization", ["x", "g", "o"], ["y"], "norm", epsilon=1e-5)],
    "a function reads it": [n("Softsign", ["x"], ["s"], "host"), NORM, n("Gelu", ["s"], ["e"], "gelu"), n("Add", ["c", "e"], ["y"], "sum")],
    "a function makes it": [n("Softsign", ["x"], ["h"], "host"), n("Gelu", ["h"], ["s"], "gelu"), NORM, n("Softsign", ["c"], ["y"], "end")],
}


@pytest.mark.parametrize("nodes", CLOSED.values(), ids=CLOSED)
def test_what_cannot_be_divided(nodes: list[onnx.NodeProto], tmp_path: Path) -> None:
    constants = {name: np.array(array, F) for name, array in CONSTANTS.items()}
    graph = fused(save(model(nodes, {"x": [1, ROWS, CHANNELS]}, {"y": None}, constants), tmp_path))
    assert all(names(stream)[0] <= {"c", "y"} for stream in streams_of(graph, KINDS, COMPUTES))


def test_axes_of_channels() -> None:
    assert divided_operands(KINDS["linear"]) == {1: 0, 2: 0}
    assert divided_operands(KINDS["layer_norm"]) == {1: 0, 2: 0}
    assert divided_operands(KINDS["scaled_layer_norm"]) == {1: 0, 2: 0}
    assert multiplied_axis(KINDS["linear"]) == 1
    assert not is_sum(None, KINDS)
