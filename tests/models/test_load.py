"""Finding and reading model files."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.models.small import HEAD, small
from toolchain.models.build import build_model
from toolchain.models.load import list_models, load_model, load_text
from toolchain.models.model import LOSS, Embedding, Seeded, Stored
from toolchain.spec.errors import UserError
from toolchain.spec.files import search_path


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    about = "model:\n  name: a\n  summary: b\n  sources: [c, d]\n  gops: 1.5\n"
    found = load_text(f"{about}inputs: {{x: [1, 2], y: [1, 2]}}\nseed: 9\ncalibration: {{seeded: 2}}\nlayers: [relu]\n", tmp_path / "a.yaml")
    assert (found.name, found.summary, found.sources, found.gops, found.seed) == ("a", "b", ("c", "d"), 1.5, 9)
    assert found.shapes == {"x": (1, 2), "y": (1, 2)}
    assert found.calibration == Seeded(2)
    assert found.test is None


def test_a_stand_in_says_why(tmp_path: Path) -> None:
    text = "model: {{name: a, summary: b{more}}}\ninputs: {{x: [1, 2]}}\nlayers: [relu]\n"
    found = [load_text(text.format(more=more), tmp_path / "a.yaml").stand_in for more in ("", ", stand_in: its widths are not public")]
    assert found == ["", "its widths are not public"]


def test_an_onnx_file_needs_no_words(tmp_path: Path) -> None:
    path = build_model(small("  - relu\n"), tmp_path)
    found = load_model(str(path))
    assert found.origin == Stored(path)
    assert (found.name, found.shapes, found.calibration) == ("small", {"image": (1, 4, 12, 10)}, Seeded(8))


def test_a_file_beside_an_onnx_file_gives_it_shapes(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "xy")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])), tmp_path / "open.onnx")
    found = load_text("model: {name: a, summary: b}\nonnx: open.onnx\ninputs: {x: [2, 3]}\n", tmp_path / "a.yaml")
    assert found.shapes == {"x": (2, 3)}


def test_a_network_in_layers_has_no_open_dimension(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a.yaml: E0905 'n' is given a size, and the file declares all of them"):
        load_text(f"{HEAD}layers: [relu]\n", tmp_path / "a.yaml", {"n": 2})


def test_a_shape_that_the_file_does_not_have_is_told(tmp_path: Path) -> None:
    build_model(small("  - relu\n"), tmp_path)
    with pytest.raises(UserError, match="E0807 the input 'image' has the shape 1x4x12x10, not 1x4x5x5"):
        load_text("model: {name: a, summary: b}\nonnx: small.onnx\ninputs: {image: [1, 4, 5, 5]}\n", tmp_path / "a.yaml")


def test_folders_named_in_the_environment_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resnet50.yaml").write_text(f"{HEAD}layers: [relu]\n")
    monkeypatch.setenv("TILEWRIGHT_MODELS", str(tmp_path))
    assert search_path("models")[0] == tmp_path
    assert list_models()["resnet50"] == tmp_path / "resnet50.yaml"
    assert load_model("resnet50").name == "small"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet5O", "E0001 unknown model 'resnet5O'; did you mean 'resnet50'?"),
        ("qqqq", "E0001 unknown model 'qqqq'; known: bert_128, "),
        ("no/such.yaml", "E0001 there is no model file 'no/such.yaml'"),
        ("such.onnx", "E0001 there is no model file 'such.onnx'"),
    ],
)
def test_what_is_not_there_is_told(name: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_model(name)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers: [relu]\n", "1:1: E0116 a model has either 'inputs' and 'layers', or 'onnx', or 'light'"),
        ("inputs: {x: [1]}\nlayers: [relu]\nlight: vgg19\n", "1:1: E0116 a model has either"),
        ("onnx: none.onnx\n", "2:7: E0001 there is no file 'none.onnx'"),
        ("onnx: none.onnx\nseed: 3\n", "1:1: E0116 a model has either"),
        ("light: vgg19\ncalibration: {file: a.npz}\n", "3:14: E0116 give 'seeded' with a number of samples, 'file' and 'array', or 'folder'"),
        ("light: vgg19\nlayer: [relu]\n", "3:1: E0108 unknown key 'layer'; did you mean 'layers'?"),
        ("inputs: {x: [1, 0]}\nlayers: [relu]\n", "2:17: E0116 0 is not allowed here"),
    ],
)
def test_mistakes_in_the_file_are_told(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_text(f"model: {{name: a, summary: b}}\n{text}", Path("a.yaml"))
    assert caught.value.diagnostics[0].headline().startswith(f"a.yaml:{message}")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"model: \xff")
    with pytest.raises(UserError, match="E0001 the model file is not UTF-8 text at byte 0x7"):
        load_model(str(tmp_path / "a.yaml"))


def test_a_file_says_what_integers_may_lose(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    text = "model: {name: net, summary: a network}\ninputs: {x: [1, 3, 8, 8]}\nlayers: [relu]\n"
    path.write_text(text)
    assert load_model(str(path)).loss == LOSS
    path.write_text(text + "accuracy: {loss: 0.2}\ntask: {embedding: {mask: x}}\n")
    found = load_model(str(path))
    assert (found.loss, found.task) == (0.2, Embedding(mask="x"))
