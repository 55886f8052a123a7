"""A user's ONNX file before it is imported."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from toolchain.models.model import Input
from toolchain.models.stored import external_files, stored_inputs
from toolchain.spec.errors import UserError


def _model(path: Path, dims: list[int | str | None], location: str = "") -> Path:
    weight = onnx.TensorProto(name="w", dims=[1], data_type=1)
    if location:
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
    else:
        weight.float_data.append(1)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", dims), ("w", [1]))],
        [helper.make_empty_tensor_value_info("y")],
        [weight],
    )
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_inputs_are_what_must_be_fed(tmp_path: Path) -> None:
    assert stored_inputs(_model(tmp_path / "m.onnx", [1, 3, 5])) == {"x": Input((1, 3, 5))}


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        (["batch", 3], r"dimension 0 of the input 'x' \('batch'\); give it one, such as dim=batch:1"),
        ([None, 3], r"dimension 0 of the input 'x' \(unnamed\); give it one, such as dim=x.0:1"),
        ([0, 3], r"dimension 0 of the input 'x' \(unnamed\)"),
        (["n", "n"], r"dimension 0 of the input 'x' \('n'\), dimension 1 of the input 'x' \('n'\)"),
    ],
)
def test_all_sizes_that_are_open_are_told(dims: list[int | str | None], text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"E0904 sizes are open: {text}"):
        stored_inputs(_model(tmp_path / "m.onnx", dims))


@pytest.mark.parametrize(("given", "shape"), [({"n": 4}, (4, 4)), ({"n": 4, "x.1": 5}, (4, 5))])
def test_sizes_are_given_by_name_or_by_axis(given: dict[str, int], shape: tuple[int, ...], tmp_path: Path) -> None:
    assert stored_inputs(_model(tmp_path / "m.onnx", ["n", "n"]), given) == {"x": Input(shape)}


@pytest.mark.parametrize(("kind", "name"), [(10, "float16"), (11, "float64"), (7, "int64"), (2, "uint8"), (9, "bool"), (8, "string")])
def test_inputs_have_any_type(kind: int, name: str, tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", [1, 3])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = kind
    onnx.save(model, path)
    assert stored_inputs(path) == {"x": Input((1, 3), name)}


def test_weights_beside_the_model_are_found(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4))
    assert external_files(_model(tmp_path / "m.onnx", [1], "w.bin")) == [tmp_path / "w.bin"]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/w.bin", "..", "a\\w.bin"])
def test_weights_elsewhere_are_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0807 the weights '.*' are not in the model's own folder"):
        external_files(_model(tmp_path / "m.onnx", [1], location))


def test_missing_weights_and_links_are_refused(tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", [1], "w.bin")
    with pytest.raises(UserError, match=r"E0807 the model's weights 'w\.bin' are missing"):
        external_files(path)
    (tmp_path / "w.bin").symlink_to("/etc/hostname")
    with pytest.raises(UserError, match=r"E0807 the model's weights 'w\.bin' are missing"):
        external_files(path)


@pytest.mark.parametrize(("data", "message"), [(b"", "holds no graph"), (b"\x08\x07", "holds no graph"), (b"not a model", "not an ONNX file")])
def test_what_is_no_model_is_told(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(UserError, match=f"E0807 .*{message}"):
        stored_inputs(tmp_path / "m.onnx")


def test_every_cut_of_a_model_is_told_or_harmless(tmp_path: Path) -> None:
    whole = _model(tmp_path / "m.onnx", [1, 3]).read_bytes()
    codes: set[str] = set()
    for length in range(len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        try:
            stored_inputs(tmp_path / "m.onnx")
        except UserError as error:
            codes |= {found.code for found in error.diagnostics}
    assert codes == {"E0807"}
