"""Streams: which tensors share divisors, and which calls keep a tensor from having any."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.graph.onnx_builder import model, n, save
from tests.passes.residual_networks import CHANNELS, COMPUTES, KINDS, ROWS, F, fused, network
from toolchain.passes.streams import Stream, divided_operands, is_sum, multiplied_axis, streams_of

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
