"""Every network that models/ declares: its operations against published figures, and its shapes against ONNX's inference."""

import csv
import math
from pathlib import Path

import pytest

from tests.models.test_detectors import ANCHORS
from toolchain.models.build import model_shape_graph
from toolchain.models.load import list_models, load_model
from toolchain.models.model import Layered, Light, Stored
from toolchain.models.sources import graph_macs, shapes_of

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50 (caffe, stride in 1x1)",
    "resnet50_v1_slim": "ResNet-50 v1 (tf-slim, stride in last unit 3x3)",
    "resnet50_v1_5": "ResNet-50 v1.5 / v1b",
    "resnet101": "ResNet-101 v1 (tf-slim)",
    "resnet152": "ResNet-152 v1 (tf-slim)",
    "vgg16": "VGG-16",
    "vgg19": "VGG-19",
    "inception_v1": "GoogLeNet / Inception v1 (caffe)",
    "inception_v3": "Inception v3",
    "mobilenet_v2": "MobileNetV2 1.0",
    "squeezenet": "SqueezeNet v1.1",
    "densenet121": "DenseNet-121",
    "darknet53": "DarkNet-53",
    "yolov3": "YOLOv3 (VOC, 75 outputs)",
    "tiny_yolov3": "Tiny YOLOv3",
    "inception_v1_slim": "Inception v1 (tf-slim)",
    "inception_v4": "Inception v4",
    "densebox_320_320": "DenseBox 320x320",
    "densebox_640_360": "DenseBox 640x360",
    "face_landmark": "face-landmark",
    "openpose_pruned": "OpenPose pruned 0.3",
    "plate_detect": "plate-detect",
    "plate_num": "plate-num (plate recognition)",
    "reid": "ReID",
    "sp_net": "SP-net",
    "vpgnet_pruned": "VPGNet pruned 0.99",
    "yolov3_adas_pruned": "YOLOv3 ADAS pruned 0.9",
    "bert_128": "BERT base seq 128",
    "bert_256": "BERT base seq 256",
    "bert_384": "BERT base seq 384",
    "bert_512": "BERT base seq 512",
    "dlrm": "DLRM",
    "vit_b_16": "Vision Transformer",
    "distilgpt2": "DistilGPT2 seq 128",
    "conformer": "Conformer",
}
FROM_SHAPES = {"densenet121": 5.7, "darknet53": 18.6, "squeezenet": 0.78}
"""Where the table has no published figure, or (SqueezeNet, 0.76) one that its own count from public shapes does not meet."""
FROM_SHAPES |= {
    "bert_128": 22.35,
    "bert_256": 45.9,
    "bert_384": 70.67,
    "bert_512": 96.64,
    "vit_b_16": 35.1,
    "distilgpt2": 21.05,
    "dlrm": 0.0049,
    "conformer": 10.39,
}
"""The table counts each pair of DLRM's features once (0.0048); the product of all has it twice, and with itself."""
CONVOLUTIONS = {"inception_v1_slim": 57, "inception_v4": 149}
"""Without dense layers."""
PARAMETERS = {"resnet50_v1_5": 25_557_032, "vgg16": 138_357_544, "mobilenet_v2": 3_504_872, "squeezenet": 1_235_496, "densenet121": 7_978_856}
"""As torchvision counts them: statistics of batch norms are none."""
PARAMETERS |= {"vit_b_16": 86_567_656, "bert_512": 108_893_186, "conformer": 16 * 1_522_944 + 257 * 31 + 321 * 256}
"""As torchvision counts them, Hugging Face of BertForQuestionAnswering, and of torchaudio's Conformer(256, 4, 1024, 16, 31) between two products."""


def _table() -> dict[str, dict[str, str]]:
    with (ROOT / "tests" / "data" / "networks.csv").open() as file:
        return {row["network"]: row for row in csv.DictReader(file)}


def test_every_declared_network_is_compared() -> None:
    assert {*PUBLISHED, *ANCHORS} == {name for name in list_models() if isinstance(load_model(name).origin, Layered)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_operations_agree_with_the_published_count(name: str) -> None:
    model, row = load_model(name), _table()[PUBLISHED[name]]
    bare = model_shape_graph(model)
    assert bare is not None
    counted = 2e-9 * sum(graph_macs(bare.proto.graph.node, {**bare.shapes, **bare.parameters}).values())
    published = row["gops_published(2xMAC)"]
    assert counted == pytest.approx(FROM_SHAPES.get(name) or float(published), rel=0.01)
    assert str(model.gops) == (published or str(FROM_SHAPES[name]))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_stand_in_says_so(name: str) -> None:
    """The table says which definitions are public; a network that it calls `nearly` public may be either."""
    model, public = load_model(name), _table()[PUBLISHED[name]]["re-creatable_with_random_weights"].split()[0]
    assert public == "nearly" or bool(model.stand_in) == (public != "yes")


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_as_many_as_published(name: str) -> None:
    bare = model_shape_graph(load_model(name))
    assert bare is not None
    assert sum(node.op_type == "Conv" for node in bare.proto.graph.node) == CONVOLUTIONS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_shapes_agree_with_onnx(name: str) -> None:
    bare = model_shape_graph(load_model(name))
    assert bare is not None
    model = bare.declared()
    del model.graph.value_info[: len(model.graph.value_info) - len(bare.parameters)]
    found = shapes_of(model)
    assert {key: found.get(key) for key in bare.shapes} == bare.shapes


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_agree_with_public_counts(name: str) -> None:
    bare = model_shape_graph(load_model(name))
    assert bare is not None
    assert sum(math.prod(shape) for key, shape in bare.parameters.items() if not key.endswith((".mean", ".variance"))) == PARAMETERS[name]


def test_names_are_those_of_the_files_and_the_issues_models_are_there() -> None:
    known = {name: load_model(name) for name in list_models()}
    assert all(model.name == name for name, model in known.items())
    assert isinstance(known["digits"].origin, Stored)
    assert sum(isinstance(model.origin, Light) for model in known.values()) == 9


def test_layer_names_are_stable() -> None:
    """Calibration tables and reports refer to them."""
    origin = load_model("resnet50").origin
    assert isinstance(origin, Layered)
    assert [layer.name for layer in origin.network.layers][5:14] == [
        "stage/bottleneck.0/conv.norm",
        "stage/bottleneck.0/conv.relu",
        "stage/bottleneck.0/conv2",
        "stage/bottleneck.0/conv2.norm",
        "stage/bottleneck.0/conv2.relu",
        "stage/bottleneck.0/conv3",
        "stage/bottleneck.0/conv3.norm",
        "stage/bottleneck.0/conv4",
        "stage/bottleneck.0/conv4.norm",
    ]
