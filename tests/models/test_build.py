"""Files in a folder: complete, equal between builds, made once, made again when anything in them is not what it should be.

Networks come alive: every layer of the built model, run by ONNX Runtime on a picture that made no weight, has a deviation near 1.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

from tests.hash_seed import printed_elsewhere
from tests.models.small import small
from toolchain.models.build import ALIGNMENT, build_model, write_parameters
from toolchain.models.load import load_model
from toolchain.models.model import Model
from toolchain.models.samples import seeded_samples
from toolchain.spec.errors import UserError

LEAST, MOST = 0.5, 8.0
"""Bounds of the deviation of every convolution's and dense layer's result; measured: 0.70 to 7.1 over all networks, 152 layers deep."""
DEAD, OPEN = 0.2, 0.95
"""Bounds of the share of positive results of every activation."""
MULTIPLYING = ("Conv", "Gemm")
ACTIVATIONS = ("Relu", "LeakyRelu", "Clip")


def inside(model: Model, folder: Path) -> dict[str, tuple[str, np.ndarray]]:
    """Operator and values of every result of a multiplication or activation, for a picture of another seed."""
    path = build_model(model, folder)
    graph = onnx.load(path, load_external_data=False)
    kinds = {node.output[0]: node.op_type for node in graph.graph.node if node.op_type in (*MULTIPLYING, *ACTIVATIONS)}
    del graph.graph.output[:]
    graph.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in kinds)
    onnx.save(graph, path.with_name("probe.onnx"))
    session = onnxruntime.InferenceSession(str(path.with_name("probe.onnx")))
    feed = {name: seeded_samples(name, shape, 1, "test") for name, shape in model.shapes.items()}
    return {name: (kinds[name], value) for name, value in zip(kinds, session.run(list(kinds), feed), strict=True)}


def check(found: dict[str, tuple[str, np.ndarray]]) -> None:
    """Deviations and shares within bounds, layer by layer."""
    for name, (kind, value) in found.items():
        if kind in MULTIPLYING:
            assert LEAST < value.std() < MOST, (name, value.std())
        else:
            assert DEAD < (value > 0).mean() < OPEN, (name, (value > 0).mean())


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "name", ["resnet18", "squeezenet", "mobilenet_v2", "densenet121", "inception_v1", "tiny_yolov3", "light_shufflenet", "light_inception_v2"]
)
def test_no_layer_dies_or_grows(name: str, tmp_path: Path) -> None:
    check(inside(load_model(name), tmp_path))


@pytest.mark.nightly
def test_nor_does_one_152_layers_deep(tmp_path: Path) -> None:
    found = inside(load_model("resnet152"), tmp_path)
    assert sum(kind in MULTIPLYING for kind, _ in found.values()) == 156
    check(found)


def test_without_batch_norms_biases_do_their_work(tmp_path: Path) -> None:
    found = inside(small("  - conv: {repeat: 60, out: 24, kernel: 3, pad: half, act: relu}\n"), tmp_path)
    assert len(found) == 120
    check(found)


def test_two_pictures_give_different_results(tmp_path: Path) -> None:
    model = load_model("squeezenet")
    session = onnxruntime.InferenceSession(str(build_model(model, tmp_path)))
    one, other = (session.run(None, {"image": picture[None]})[0] for picture in seeded_samples("image", model.shapes["image"], 2, "test"))
    assert np.abs(one - other).max() > 1e-4


def test_weights_are_multiples_of_one_eight_bit_scale(tmp_path: Path) -> None:
    build_model(small("  - conv: {out: 8, kernel: 3}\n"), tmp_path)
    model = onnx.load(tmp_path / "small.onnx")
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    weights = values["conv.weight"].astype(np.float64)
    step = np.min(np.diff(np.unique(np.abs(weights))))
    assert (np.abs(weights / step - np.rint(weights / step)) < 1e-9).all()
    assert np.abs(weights / step).max() <= 510
    mantissa, _ = np.frexp(step)
    assert mantissa * 256 == int(mantissa * 256)
    assert len(np.unique(weights)) > 100


def test_sums_that_24_bits_do_not_hold_are_refused(tmp_path: Path) -> None:
    model = small("- upsample: {factor: 24}\n- flatten\n- dense: {out: 1}\n")
    with pytest.raises(UserError, match=r"E0811 'dense.weight' has sums of 276480 products; made-up weights have at most 262144"):
        build_model(model, tmp_path)


ROOT = Path(__file__).resolve().parents[2]
LAYERS = "  - conv: {out: 8, kernel: 3, norm: true, act: relu}\n  - globalpool\n  - flatten\n  - dense: {out: 3}\n"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_build_is_a_model_its_weights_named_by_content_and_a_stamp(tmp_path: Path) -> None:
    assert build_model(small(LAYERS), tmp_path / "new" / "folder") == tmp_path / "new" / "folder" / "small.onnx"
    found = files(tmp_path / "new" / "folder")
    assert [name.split("-")[0] for name in found] == ["small.onnx", "small.stamp.json", "weights"]


def test_onnx_onnx_ir_and_onnx_runtime_read_the_same_weights(tmp_path: Path) -> None:
    path = build_model(small(LAYERS), tmp_path)
    by_onnx = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    by_ir = {value.name: value.const_value.numpy() for value in onnx_ir.load(path).graph.initializers.values() if value.const_value}
    assert by_onnx.keys() == by_ir.keys()
    assert all((by_onnx[name] == by_ir[name]).all() for name in by_onnx)
    onnx.checker.check_model(path, full_check=True)
    assert onnxruntime.InferenceSession(str(path)).run(None, {"image": np.ones((1, 4, 12, 10), np.float32)})[0].shape == (1, 3)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", ["mobilenet_v2", "light_shufflenet", "digits"])
def test_builds_are_equal_whatever_the_hash_seed_and_number_of_threads(name: str, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from toolchain.models.build import build_model; from toolchain.models.load import load_model\n"
    threads = "2" if os.cpu_count() == 1 else "1"  # here it is as many as there are processors
    printed_elsewhere(f"{code}build_model(load_model('{name}'), Path(sys.argv[1]))", str(tmp_path / "1"), OPENBLAS_NUM_THREADS=threads)
    build_model(load_model(name), tmp_path / "2")
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_weights_are_what_they_were(tmp_path: Path) -> None:
    """Calibration tables and reports were made with these; a change of the generator is a change of every model."""
    build_model(load_model("squeezenet"), tmp_path)
    (weights,) = tmp_path.glob("weights-*.bin")
    assert weights.name == "weights-9478111d95a979b3.bin"


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = build_model(small(LAYERS), tmp_path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert build_model(small(LAYERS), tmp_path) == path
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("damage", ["shorten", "remove", "stamp"])
def test_what_is_damaged_is_made_again(damage: str, tmp_path: Path) -> None:
    build_model(small(LAYERS), tmp_path)
    good = files(tmp_path)
    (weights,) = tmp_path.glob("weights-*.bin")
    if damage == "shorten":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "remove":
        weights.unlink()
    else:
        (tmp_path / "small.stamp.json").write_text('{"key": [')
    build_model(small(LAYERS), tmp_path)
    assert files(tmp_path) == good


@pytest.mark.parametrize(("text", "more"), [(LAYERS.replace("out: 8", "out: 9"), ""), (LAYERS, "seed: 5\n")])
def test_another_layer_or_seed_gives_other_weights(text: str, more: str, tmp_path: Path) -> None:
    build_model(small(LAYERS), tmp_path)
    build_model(small(text, more), tmp_path)
    assert len(list(tmp_path.glob("weights-*.bin"))) == 2


def test_a_comment_changes_nothing(tmp_path: Path) -> None:
    build_model(small(LAYERS), tmp_path)
    stamp = (tmp_path / "small.stamp.json").read_bytes()
    build_model(small("  # why\n" + LAYERS), tmp_path)
    assert (tmp_path / "small.stamp.json").read_bytes() == stamp


def test_a_stored_model_is_copied_with_its_weights(tmp_path: Path) -> None:
    source = build_model(small(LAYERS), tmp_path / "source")
    copied = build_model(load_model(str(source)), tmp_path / "copy")
    assert onnx.load(copied) == onnx.load(source)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="E0005 cannot make the folder"):
        build_model(small(LAYERS), tmp_path / "file" / "below")


def test_nothing_is_left_of_a_build_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match="E0005 cannot write the file: No space left on device"):
        build_model(small(LAYERS), tmp_path)
    assert list(tmp_path.iterdir()) == []


VALUES = [("a", np.arange(5, dtype=np.float32)), ("b", np.ones((2, 3), np.float32)), ("c", np.float32([[7]]))]


def test_values_stand_at_aligned_places_under_the_name_of_their_content(tmp_path: Path) -> None:
    path, tensors = write_parameters(tmp_path, iter(VALUES))
    data = path.read_bytes()
    assert path.name == f"weights-{hashlib.sha256(data).hexdigest()[:16]}.bin"
    for tensor, (name, values) in zip(tensors, VALUES, strict=True):
        entry = {item.key: item.value for item in tensor.external_data}
        start = int(entry["offset"])
        assert (tensor.name, tuple(tensor.dims), entry["location"]) == (name, values.shape, path.name)
        assert start % ALIGNMENT == 0
        assert data[start : start + int(entry["length"])] == values.astype("<f4").tobytes()


def test_nothing_stays_of_parameters_that_end_in_an_error(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, np.ndarray]]:
        yield VALUES[0]
        raise KeyError("b")

    with pytest.raises(KeyError):
        write_parameters(tmp_path, failing())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0005 cannot write the file"):
        write_parameters(tmp_path / "none", iter(VALUES))
