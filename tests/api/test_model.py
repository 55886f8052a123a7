"""Pictures as inputs: the same numbers as recorded samples, refused where they do not fit.

`toolchain.load`: models that stay on the host, of any type of input, any number of inputs, results of any size.

A model that its first inputs calibrate: floating point until then, afterwards the same build as with these samples given.
"""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import toolchain
from tests.api.test_compile import absolute, model
from tests.steps_network import built, written
from toolchain.api.model import prepare_picture
from toolchain.graph.preparation import Preparation
from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import Interface
from toolchain.spec.errors import UserError

COLOUR = Preparation("nhwc", (0.5, 0.25, 0.0), (0.5, 2.0, 1.0), 1 / 255)
PICTURE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def entry(shape: tuple[int, ...] | None, dtype: str = "float32", preparation: Preparation | None = COLOUR) -> Interface:
    return Interface("image", shape, dtype, preparation=preparation)


def wanted(picture: np.ndarray) -> np.ndarray:
    return ((picture.astype(np.float32) * np.float32(1 / 255) - np.float32(COLOUR.mean)) / np.float32(COLOUR.std)).astype(np.float32)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_channels_go_where_the_input_has_them(layout: str) -> None:
    """A picture has them last, however samples were recorded."""
    held = Preparation(layout, COLOUR.mean, COLOUR.std, COLOUR.scale)
    first, last = (prepare_picture(PICTURE, entry(shape, preparation=held)) for shape in ((1, 3, 6, 8), (1, 6, 8, 3)))
    assert np.array_equal(first[0].transpose(1, 2, 0), wanted(PICTURE))
    assert np.array_equal(last[0], wanted(PICTURE))
    assert first.dtype == np.float32


def test_a_square_of_three_pixels() -> None:
    picture = PICTURE[:3, :3]
    for layout in ("nchw", "nhwc"):
        held = Preparation(layout, COLOUR.mean, COLOUR.std, COLOUR.scale)
        assert np.array_equal(prepare_picture(picture, entry((1, 3, 3, 3), preparation=held))[0].transpose(1, 2, 0), wanted(picture))


def test_bytes_need_no_preparation() -> None:
    found = prepare_picture(PICTURE, entry((1, 6, 8, 3), "uint8", None))
    assert found.dtype == np.uint8
    assert np.array_equal(found[0], PICTURE)


def test_a_grey_picture_needs_no_axis_of_channels() -> None:
    held = Preparation(scale=0.5)
    assert np.array_equal(prepare_picture(PICTURE[:, :, 0], entry((1, 1, 6, 8), preparation=held))[0, 0], PICTURE[:, :, 0] / 2)


def test_it_is_resized_only_if_asked() -> None:
    with pytest.raises(UserError, match=r"E1111 .*\[3, 4, 3\]; given is uint8 \[6, 8, 3\]; .*resize=True"):
        prepare_picture(PICTURE, entry((1, 3, 3, 4)))
    assert prepare_picture(PICTURE, entry((1, 3, 3, 4)), resize=True).shape == (1, 3, 3, 4)


@pytest.mark.parametrize("picture", [PICTURE[:, :, :2], PICTURE[:, :, 0], PICTURE[None], PICTURE[:0], np.array("text"), PICTURE.astype(complex)])
def test_what_is_no_such_picture_is_one_line(picture: Any) -> None:
    with pytest.raises(UserError, match="E1111") as caught:
        prepare_picture(picture, entry((1, 3, 6, 8)), resize=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("held", [entry((1, 3, 6, 8), preparation=None), entry((1, 3)), entry(None), entry((2, 3, 6, 8)), entry((1, 3, -1, 8))])
def test_an_input_that_takes_no_picture_is_one_line(held: Interface) -> None:
    with pytest.raises(UserError, match="E1112"):
        prepare_picture(PICTURE, held)


def test_numbers_outside_an_integer_type_become_its_limits() -> None:
    given = np.array([[-0.0, -1, 0.5, 1.5], [255.4, 256, np.inf, -np.inf]], np.float32)
    found = prepare_picture(given, entry((1, 1, 2, 4), "uint8", None))
    assert found.ravel().tolist() == [0, 0, 0, 2, 255, 255, 255, 0]
    given[1, 3] = np.nan
    with pytest.raises(UserError, match=r"E1134 the input 'image' holds NaN at \[1, 3\]"):
        prepare_picture(given, entry((1, 1, 2, 4), "uint8", None))
    assert np.isnan(prepare_picture(given, entry((1, 1, 2, 4)))[0, 0, 1, 3])


FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def run(proto: onnx.ModelProto, folder: Path, **inputs: Any) -> dict[str, Any]:
    return toolchain.load(toolchain.compile(proto, "vta", folder=folder).bundle).run(inputs)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"])
def test_inputs_of_every_number(dtype: str, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model({"x": (kind, [1, 4])}, [helper.make_node("Add", ["x", "x"], ["y"])], {"y": kind})
    found = run(proto, tmp_path, x=np.arange(8, dtype=dtype).reshape(2, 4))["y"]
    assert found.dtype == dtype
    assert found.tolist() == [[0, 2, 4, 6], [8, 10, 12, 14]]


def test_texts_and_truths(tmp_path: Path) -> None:
    nodes = [helper.make_node("Not", ["x"], ["y"]), helper.make_node("Identity", ["s"], ["t"])]
    proto = model({"x": (BOOL, [2]), "s": (STRING, [2])}, nodes, {"y": BOOL, "t": STRING})
    found = run(proto, tmp_path, x=np.array([True, False]), s=np.array(["a", "bc"], object))
    assert found["y"].tolist() == [False, True]
    assert found["t"].tolist() == ["a", "bc"]


def test_several_inputs_one_of_them_a_scalar(tmp_path: Path) -> None:
    proto = model({"x": (FLOAT, [1, 2]), "k": (FLOAT, [])}, [helper.make_node("Mul", ["x", "k"], ["y"])], {"y": FLOAT})
    for scalar in (np.float32(3), np.array(3, np.float32), 3.0):
        assert run(proto, tmp_path, x=np.array([[1, 2]], np.float32), k=scalar)["y"].tolist() == [[3, 6]]


def test_lists_of_numbers_are_arrays_of_the_inputs_type(tmp_path: Path) -> None:
    assert run(absolute(), tmp_path, x=[[-1, 2, -3]])["y"].tolist() == [[1, 2, 3]]


def test_a_result_whose_size_depends_on_the_data(tmp_path: Path) -> None:
    built = toolchain.compile(model({"x": (FLOAT, [1, 4])}, [helper.make_node("NonZero", ["x"], ["y"])], {"y": INT64}), "vta", folder=tmp_path)
    loaded = toolchain.load(built.bundle)
    assert loaded.outputs["y"].shape == (2, -1)
    for numbers in ([0, 1, 0, 2], [0, 0, 0, 0], [1, 1, 1, 1]):
        assert np.array_equal(loaded.run({"x": np.array([numbers], np.float32)})["y"], np.nonzero([numbers]))


def test_what_the_machine_takes_equals_the_integers_of_the_build(tmp_path: Path) -> None:
    built = toolchain.compile("digits", "dpuv3", effort=0, folder=tmp_path)
    outcome = built.load().timed({"image": np.zeros((5, 1, 8, 8), np.float32)})
    assert outcome.runs == 2
    assert outcome.cycles > 0
    assert built.infer().data["exact"]


def test_a_machine_that_is_not_on_the_search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(__file__).resolve().parents[2] / "targets"
    (tmp_path / "mine").mkdir()
    text = (source / "vta.yaml").read_text().replace("  name: vta\n", "  name: mine\n", 1)
    (tmp_path / "mine" / "mine.yaml").write_text(text)
    (tmp_path / "mine" / "mine").symlink_to(source / "vta")
    monkeypatch.chdir(tmp_path)
    built = toolchain.compile("digits", "mine/mine.yaml", params={"LOG_BUS": 4}, effort=0, folder=tmp_path / "build")
    images = np.zeros((1, 1, 8, 8), np.float32)
    assert built.load().executor.machine.params["LOG_BUS"] == 4
    assert toolchain.load(built.bundle, machine="mine/mine.yaml").run({"image": images})["logits"].shape == (1, 10)
    with pytest.raises(toolchain.UserError, match="made for mine, which is not among the machines here"):
        toolchain.load(built.bundle)


@pytest.mark.parametrize(
    "given",
    [{}, {"x": [[1, 2]]}, {"y": [[1, 2, 3]]}, {"x": np.zeros((1, 3))}, {"x": [[1, 2, "a"]]}, {"x": [[1, 2], [3]]}, {"x": [[{}]]}],
)
def test_inputs_that_do_not_fit_are_one_line(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(toolchain.UserError, match="E1108") as caught:
        run(absolute(), tmp_path, **given)
    assert "\n" not in str(caught.value)


def test_an_array_of_objects_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(toolchain.UserError, match=r"E1108 the input 'x' is float32 \[samples, 3\]; given is object \[1, 3\]"):
        run(absolute(), tmp_path, x=np.array([[1, 2, None]], object))


def test_a_bundle_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(toolchain.UserError, match="E0001"):
        toolchain.load(tmp_path / "none.bundle")


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> toolchain.Compiled:
    """digits with a word about its pictures."""
    folder = tmp_path_factory.mktemp("camera")
    (folder / "net.onnx").write_bytes((Path(__file__).resolve().parents[2] / "models" / "digits" / "digits.onnx").read_bytes())
    about = "model: {name: camera, summary: grey}\nonnx: net.onnx\ninputs: {image: {shape: [1, 1, 8, 8], scale: 0.0625, mean: [0.5], std: [2]}}\n"
    (folder / "camera.yaml").write_text(about)
    return toolchain.compile(folder / "camera.yaml", "vta", effort=0, folder=folder / "build")


def test_a_picture_is_prepared_as_the_models_file_says(camera: toolchain.Compiled) -> None:
    loaded = toolchain.load(camera.bundle)
    found = loaded.prepare(np.full((8, 8), 16, np.uint8))
    assert (found.shape, found.dtype) == ((1, 1, 8, 8), np.float32)
    assert (found == 0.25).all()
    assert loaded.run({"image": found})["logits"].shape == (1, 10)
    assert loaded.prepare(np.zeros((20, 30, 1)), "image", resize=True).shape == (1, 1, 8, 8)


def test_a_picture_for_no_input_is_one_line(camera: toolchain.Compiled, tmp_path: Path) -> None:
    with pytest.raises(toolchain.UserError, match=r"E1108 .*did you mean 'image'"):
        camera.load().prepare(np.zeros((8, 8)), "imag")
    two = model({"x": (FLOAT, [1, 1, 2, 2]), "y": (FLOAT, [1, 1, 2, 2])}, [helper.make_node("Add", ["x", "y"], ["z"])], {"z": FLOAT})
    with pytest.raises(toolchain.UserError, match=r"E1108 .*name one of them"):
        toolchain.compile(two, "vta", folder=tmp_path).load().prepare(np.zeros((2, 2)))


def test_an_axis_of_no_elements(tmp_path: Path) -> None:
    proto = model({"x": (FLOAT, [2, None])}, [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)], {"y": FLOAT})
    built = toolchain.compile(proto, "vta", dims={"x.1": 0}, folder=tmp_path)
    assert built.load().run({"x": np.zeros((2, 0), np.float32)})["y"].tolist() == [[0]]
    with pytest.raises(toolchain.UserError, match="E0904"):
        toolchain.compile(absolute("batch"), "vta", dims={"batch": 0}, folder=tmp_path)


def _pictures(count: int) -> "np.typing.NDArray[np.float32]":
    return calibration_samples(load_model("digits"))["image"][:count].astype(np.float32)


def test_the_first_inputs_calibrate_it(tmp_path: Path) -> None:
    used = toolchain.calibrate_in_use("digits", "vta", samples=6, place="all", folder=tmp_path / "use")
    pictures = _pictures(10)
    first = used.run({"image": pictures[:4, 0]})
    assert used.compiled is None
    later = used.run({"image": pictures[4:, 0]})  # more than are needed
    assert used.compiled is not None
    assert used.compiled.calibration == "recorded"
    given = toolchain.compile("digits", "vta", place="all", calibration={"image": pictures[:6]}, folder=tmp_path / "given")
    assert used.compiled.bundle.read_bytes() == given.bundle.read_bytes()
    integers, floats = given.load().run({"image": pictures[:, 0]})["logits"], np.concatenate([first["logits"], later["logits"]])
    assert not np.array_equal(floats, integers)
    assert np.allclose(floats, integers, atol=2)
    assert np.array_equal(used.run({"image": pictures[:, 0]})["logits"], integers)


def test_threads_share_it(tmp_path: Path) -> None:
    """Each gets its own answer, whoever brings the last sample."""
    used = toolchain.calibrate_in_use(absolute(), "vta", samples=8, folder=tmp_path)
    found: dict[int, np.typing.NDArray[np.float32]] = {}

    def work(number: int) -> None:
        found[number] = used.run({"x": np.full((2, 3), -number, np.float32)})["y"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[number], np.full((2, 3), number)) for number in range(6))
    assert used.compiled is not None


def test_samples_that_cannot_be_told_apart(tmp_path: Path) -> None:
    scalar = model({"x": (TensorProto.FLOAT, [])}, [helper.make_node("Abs", ["x"], ["y"])], {"y": TensorProto.FLOAT})
    with pytest.raises(UserError, match="E0808 the input 'x' has no fixed number of rows in a sample"):
        toolchain.calibrate_in_use(scalar, "vta", folder=tmp_path)
    with pytest.raises(UserError, match="E0808 0 samples calibrate nothing"):
        toolchain.calibrate_in_use(absolute(), "vta", samples=0, folder=tmp_path)


def test_steps_of_a_model_with_states(tmp_path: Path) -> None:
    write_bundle(tmp_path / "steps.bundle", built("vta").bundle)
    sequence = toolchain.load(tmp_path / "steps.bundle").steps()
    for inputs, wanted in built("vta").oracle():
        assert np.array_equal(sequence.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
    assert sequence.states()["count"].tolist() == [8]


def test_first_inputs_do_not_calibrate_a_model_with_states(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0816 calibration by the first inputs does not go with states"):
        toolchain.calibrate_in_use(str(written(tmp_path)), "vta", folder=tmp_path)


def test_given_sequences_calibrate_a_model_with_states(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 16)).astype(np.float32)
    assert toolchain.compile(str(written(tmp_path)), "vta", calibration={"x": x}, effort=0, folder=tmp_path / "build").calibration == "recorded"
