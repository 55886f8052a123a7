"""The ends of detectors, run in ONNX Runtime, against their definitions in numpy; and the networks that use them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from toolchain.graph.session import open_session, run_session
from toolchain.models.build import model_shape_graph
from toolchain.models.functions import DOMAIN, OPSET, function_protos
from toolchain.models.load import load_model
from toolchain.models.sources import graph_macs, shapes_of

F = np.float32
Array = np.typing.NDArray[Any]
LIBRARY = (Path(__file__).resolve().parents[2] / "models" / "functions" / "detection.txt").read_text()
ANCHORS = {"ssd512_mobilenet": 6132, "ssd300_resnet34": 8732, "faster_rcnn_resnet50": 28500}
"""SSD300's are as many as in its paper; the others are each map's pixels times its anchors."""
GMACS = {"ssd512_mobilenet": 4.19, "ssd300_resnet34": 15.86, "faster_rcnn_resnet50": 292.44}


def call(function: str, operands: Mapping[str, Array], **attributes: Any) -> Array:
    node = helper.make_node(function, list(operands), ["y"], domain=DOMAIN, **attributes)
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape) for name, value in operands.items()]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")])
    graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=function_protos(LIBRARY), ir_version=10)
    return run_session(open_session(model.SerializeToString()), {name: value.astype(F) for name, value in operands.items()})["y"]


def overlaps(boxes: Array) -> Array:
    """IoU of every box with every other, [n, n]."""
    one, other = boxes[:, None], boxes[None]
    width, height = (np.maximum(np.minimum(one[..., k + 2], other[..., k + 2]) - np.maximum(one[..., k], other[..., k]), 0) for k in (0, 1))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return width * height / (area[:, None] + area - width * height)


def thinned(boxes: Array, scores: Array, least: float, overlap: float) -> list[int]:
    """Places of the boxes that no better one overlaps, the best first."""
    kept, shared = list[int](), overlaps(boxes)
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] > least and (shared[place, kept] <= overlap).all():
            kept.append(int(place))
    return kept


def some_boxes(rng: np.random.Generator, count: int) -> Array:
    corners = rng.uniform(0, 80, (count, 2))
    return np.concatenate([corners, corners + rng.uniform(5, 40, (count, 2))], 1).astype(F)


def test_rows_take_a_pixels_numbers_together() -> None:
    picture = np.arange(2 * 3 * 4 * 5).reshape(1, 6, 4, 5)
    found = call("rows", {"x": picture}, numbers=3)
    assert np.array_equal(found, picture.transpose(0, 2, 3, 1).reshape(1, 40, 3))


def test_anchors_stand_around_the_centres_of_cells() -> None:
    found = call("ssd_anchors", {"x": np.zeros((1, 1, 2, 3))}, step=8.0, size=10.0, next_size=40.0, ratios=[4.0])
    sizes = [(10, 10), (20, 20), (20, 5)]
    wanted = [(8 * column + 4, 8 * row + 4, *size) for row in range(2) for column in range(3) for size in sizes]
    np.testing.assert_allclose(found, [wanted], rtol=1e-6)
    found = call("rpn_anchors", {"x": np.zeros((1, 1, 1, 2))}, step=16.0, sizes=[32.0, 64.0], ratios=[1.0, 4.0])
    np.testing.assert_allclose(found[0, 4:], [(24, 8, 32, 32), (24, 8, 16, 64), (24, 8, 64, 64), (24, 8, 32, 128)], rtol=1e-6)


def test_boxes_are_moved_scaled_and_cut() -> None:
    deltas, anchors = np.array([[[1, -1, 0, 5], [0, 0, 99, 0]]]), np.array([[[10, 20, 4, 8], [10, 20, 4, 8]]])
    found = call("boxes", {"d": deltas, "a": anchors}, variances=[0.5, 0.5, 0.2, 0.2])
    tall, wide = 8 * np.e, 4 * np.exp(4.135)
    np.testing.assert_allclose(found, [[[10, 16 - tall / 2, 14, 16 + tall / 2], [10 - wide / 2, 16, 10 + wide / 2, 24]]], rtol=1e-5)
    inside = call("inside", {"b": np.array([[[-3, -2, 90, 70], [1, 2, 3, 4]]]), "x": np.zeros((1, 3, 50, 60))})
    assert inside.tolist() == [[[0, 0, 60, 50], [1, 2, 3, 4]]]


@pytest.mark.parametrize("count", [40, 400])
def test_proposals_are_the_best_that_do_not_overlap(count: int) -> None:
    """The best one fills up what is missing of 300."""
    rng = np.random.default_rng(count)
    boxes, scores = some_boxes(rng, count), rng.permutation(count).astype(F)
    kept = thinned(boxes, scores, -1, 0.7)[:300]
    found = call("proposals", {"s": scores.reshape(1, -1, 1), "b": boxes[None]}, before=6000, overlap=0.7)
    assert np.array_equal(found, boxes[kept + [kept[0]] * (300 - len(kept))])


def test_only_the_best_before_thinning_count() -> None:
    boxes, scores = some_boxes(np.random.default_rng(1), 30), np.arange(30, dtype=F)
    found = call("proposals", {"s": scores.reshape(1, -1, 1), "b": boxes[None]}, before=1, overlap=0.7)
    assert np.array_equal(found, np.repeat(boxes[-1:], 300, 0))


def softmax(x: Array) -> Array:
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


@pytest.mark.parametrize("least", [0.4, 0.999])
def test_detections_of_ssd(least: float) -> None:
    rng = np.random.default_rng(3)
    boxes, scores = some_boxes(rng, 60), rng.normal(0, 3, (60, 4))
    shares = softmax(scores)
    rows = [(kind, shares[place, kind + 1], *boxes[place]) for kind in range(3) for place in thinned(boxes, shares[:, kind + 1], least, 0.5)]
    wanted = np.full((100, 6), -1.0)
    wanted[: len(rows)] = sorted(rows, key=lambda row: -row[1]) or wanted[:0]
    found = call("ssd_detections", {"s": scores[None], "b": boxes[None]}, least=least, overlap=0.5)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5)
    assert bool(rows) == (least < 0.9)


def test_detections_of_faster_rcnn() -> None:
    """A loop over the classes; one of them has no box."""
    rng = np.random.default_rng(4)
    proposals, scores, deltas = some_boxes(rng, 300), rng.normal(0, 3, (300, 21)), rng.normal(0, 1, (300, 80))
    scores[:, 5] = -20
    image = np.zeros((1, 3, 100, 120))
    size = proposals[:, 2:] - proposals[:, :2]
    anchors = np.concatenate([proposals[:, :2] + size / 2, size], 1)
    shares, rows = softmax(scores), list[tuple[float, ...]]()
    for kind in range(20):
        moved = call("boxes", {"d": deltas[None, :, 4 * kind : 4 * kind + 4], "a": anchors[None]}, variances=[0.1, 0.1, 0.2, 0.2])
        boxes = call("inside", {"b": moved, "x": image})[0]
        kept = thinned(boxes, shares[:, kind + 1], 0.3, 0.3)
        rows += [(kind, shares[place, kind + 1], *boxes[place]) for place in kept]
        assert bool(kept) == (kind != 4)
    wanted = sorted(rows, key=lambda row: -row[1])[:100]
    found = call("rcnn_detections", {"s": scores, "d": deltas, "p": proposals, "x": image}, least=0.3, overlap=0.3)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ANCHORS)
def test_networks_have_the_shapes_that_onnx_infers(name: str) -> None:
    bare = model_shape_graph(load_model(name))
    assert bare is not None
    found = shapes_of(bare.declared())
    assert all(found.get(key, shape) == shape for key, shape in bare.shapes.items())
    assert bare.shapes[bare.proto.graph.output[0].name] == (1, 100, 6)
    assert next(shape for key, shape in bare.shapes.items() if key.endswith("anchors"))[1] == ANCHORS[name]
    counted = sum(graph_macs(bare.proto.graph.node, {**bare.shapes, **bare.parameters}).values())
    assert counted == pytest.approx(GMACS[name] * 1e9, rel=0.001)
