"""One core of the many-core machine compiles networks: multipliers for each channel, one rounding, sums of two tensors by factors."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.schedule.convolutions import convolution
from tests.verify.builds import build
from tests.verify.networks import random_model
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.files import read_schedule_file
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.tasks.actions.paths import schedule_file
from toolchain.timing.usage import summarise
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import ModelVerdict, verdict_text

SAMPLE = SampleSize(instructions=6, elements=1, whole=0, seed=0)


def verdict(model: str | Path, folder: Path, machine: str = "stcp920") -> ModelVerdict:
    _, built, samples = build(machine, str(model), folder)
    return verify_model(built, samples, SAMPLE)


@pytest.mark.parametrize("machine", ["stcp920", pytest.param("stcp920:datasheet", marks=pytest.mark.nightly)])
def test_digits_is_exact(machine: str, tmp_path: Path) -> None:
    found = verdict("digits", tmp_path, machine)
    assert found.exact, verdict_text(found)
    assert (found.tensors, len(found.regions)) == (12, 1)
    assert (found.closeness.outputs["logits"].sqnr or 0.0) > 36


@pytest.mark.parametrize("seed", [1, 2, pytest.param(5, marks=pytest.mark.nightly)])
def test_random_networks(seed: int, tmp_path: Path) -> None:
    path = random_model(seed, tmp_path)
    found = verdict(path, tmp_path / "build")
    assert found.exact, verdict_text(found)


def test_products_of_computed_tensors_need_no_instruction_of_their_own(tmp_path: Path) -> None:
    """Squeeze-and-excite, a product and a difference of pictures, enlarged: all in one region."""
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in {"w": (40, 3, 3, 3), "v": (40, 40, 1, 1)}.items()}
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Conv", ["g", "v"], ["gate"]),
        helper.make_node("Mul", ["a", "gate"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Sub", ["c", "a"], ["d"]),
        helper.make_node("Resize", ["d", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 3, 9, 11]), ("y", [1, 40, 18, 22]))]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, "scales": scales}.items()]
    model = helper.make_model(helper.make_graph(nodes, "se", ends[:1], ends[1:], constants), opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "se.onnx"
    onnx.save(model, path)
    found = verdict(path, tmp_path / "build")
    assert found.exact, verdict_text(found)
    assert (len(found.regions), found.tensors) == (1, 8)


@pytest.mark.parametrize(
    ("colours", "strides", "kernel", "found"),
    [
        (3, (2, 2), 7, "square_pairs"),
        (4, (2, 2), 7, "square_pairs"),
        (3, (2, 2), 3, "square_pairs"),
        (5, (2, 2), 7, "conv2d"),
        (3, (1, 1), 7, "conv2d"),
        (3, (1, 2), 7, "strips"),
        (3, (1, 2), 3, "conv2d"),  # saves less than the host pays
        (3, (2, 2), 9, "conv2d"),
        (3, (2, 2), 1, "conv2d"),
    ],
)
def test_first_layers_in_bytes_of_few_colours_have_kernels_of_their_own(colours: int, strides: tuple[int, int], kernel: int, found: str) -> None:
    machine = load_machine("stcp920")
    operation = convolution((1, colours, 56, 48), (32, kernel, kernel), pads=(kernel // 2,) * 4, strides=strides)
    assert choose_kernel(machine, load_kernels(machine), operation, ["x"]).kernel.name == found


@pytest.mark.parametrize(
    ("colours", "stride", "kernel", "found"),
    [
        (3, 2, 7, "squares"),
        (4, 2, 3, "squares"),
        (1, 2, 5, "squares"),
        (5, 2, 7, "conv2d"),
        (3, 1, 7, "conv2d"),
        (3, 2, 9, "conv2d"),
        (3, 2, 1, "conv2d"),
    ],
)
def test_squares_are_for_every_first_layer_of_halves_with_stride_2(colours: int, stride: int, kernel: int, found: str) -> None:
    """No other kernel adds up in their order, nor they in another's."""
    machine = load_machine("stcp920:f16")
    kernels = load_kernels(machine)
    operation = convolution((1, colours, 56, 48), (32, kernel, kernel), pads=(kernel // 2 if kernel > 1 else 0,) * 4, strides=(stride, stride))
    assert choose_kernel(machine, kernels, operation, ["x"]).kernel.name == found
    if found == "squares":
        with pytest.raises(UserError, match="sums of two by two pixels of a first layer have another order"):
            choose_kernel(machine, {name: kernels[name] for name in kernels if name != "squares"}, operation, ["x"])


@pytest.mark.parametrize(("kernel", "taps"), [("strips", 7), ("square_pairs", 8)])
def test_first_layers_take_a_product_for_eight_columns_of_one_row_or_four_of_two(kernel: str, taps: int) -> None:
    machine = load_machine("stcp920")
    operation = convolution((1, 3, 112, 112), (64, 7, 7), pads=(3, 3, 3, 3), strides=(2, 2))
    bound = Bound(operation, {"x": "x", "y": "y"})
    region = Region("first", {"x": Shape(*operation.input("x")), "y": Shape(*operation.output)}, ("x",), ("y",), (bound,), {})
    cycles = dict[str, float]()
    for name in (kernel, "conv2d"):
        compiled = compile_region(machine, {name: load_kernels(machine)[name]}, region)
        cycles[name] = sum(use.busy for use in summarise(compiled.timeline).units if use.name == "mme")
    assert cycles["conv2d"] * (taps / 49 - 0.01) < cycles[kernel] < cycles["conv2d"] * (taps / 49 + 0.025)


def test_a_shortcut_with_a_stride_moves_only_the_pixels_that_it_reads() -> None:
    machine, kernels = load_machine("stcp920"), load_kernels(load_machine("stcp920"))
    operation = convolution((1, 256, 28, 28), (512, 1, 1), strides=(2, 2))
    assert choose_kernel(machine, kernels, operation).kernel.name == "strided"
    bound = Bound(operation, {"x": "x", "y": "y"})
    region = Region("shortcut", {"x": Shape(*operation.input("x")), "y": Shape(*operation.output)}, ("x",), ("y",), (bound,), {})
    cycles = dict[str, float]()
    for name in ("strided", "conv2d"):
        compiled = compile_region(machine, {name: kernels[name]}, region)
        cycles[name] = sum(use.busy for use in summarise(compiled.timeline).units if use.name == "mte")
    assert cycles["strided"] < 0.6 * cycles["conv2d"]


def sum_of_convolutions(folder: Path, first: bool = True) -> Path:
    """first: the sum's first operand is the one that is made last."""
    rng = np.random.default_rng(5)
    shapes = {"v": (64, 3, 3, 3), "w": (128, 64, 1, 1), "u": (128, 64, 1, 1)}
    weights = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["b"]),
        helper.make_node("Conv", ["a", "u"], ["c"]),
        helper.make_node("Add", ["c", "b"] if first else ["b", "c"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 3, 40, 40]), ("y", [1, 128, 40, 40]))]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    path = folder / "sum.onnx"
    graph = helper.make_graph(nodes, "sum", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("first", [True, False])
def test_a_sum_is_made_where_a_convolution_left_its_operand(first: bool, tmp_path: Path) -> None:
    """With tensors in the cluster's memory as with those in DRAM: the other operand comes from where it stands."""
    found = verdict(sum_of_convolutions(tmp_path, first), tmp_path / "build")
    assert found.exact, verdict_text(found)
    (schedule,) = (tmp_path / "build").rglob("schedule/region0.yaml")
    assert f"kernel: add_onto_{'x' if first else 'z'}" in schedule.read_text()


def test_cores_that_share_an_image_share_the_tiles_of_such_a_sum(tmp_path: Path) -> None:
    """Two images on two cores each: a core adds to the tile of the last convolution that it made itself, which is looked at piece by piece."""
    job, built, samples = build("stcp920", str(sum_of_convolutions(tmp_path)), tmp_path / "build", images="2", streams="2", effort="0")
    found = verify_model(built, {name: array[:2] for name, array in samples.items()}, SAMPLE)
    assert found.exact, verdict_text(found)
    assert found.tensors == 5
    (group,) = (group for group in read_schedule_file(schedule_file(job, "region0")).groups if len(group.operations) > 1)
    assert group.tiles
    assert [share.stream for share in group.streams] == [0, 1]
