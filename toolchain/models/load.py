"""From a model's name or file to a frozen Model."""

from collections.abc import Mapping
from pathlib import Path

from toolchain.models.expand import expand
from toolchain.models.model import Layered, Light, Model, Recorded, Seeded, Stored, Test
from toolchain.models.names import find_model, list_models, search_path
from toolchain.models.operators import Shape
from toolchain.spec.errors import Source, fail
from toolchain.spec.files import read_limited
from toolchain.spec.resources import MODEL_SCHEMA
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

CALIBRATION_SAMPLES = 8


def load_model(name_or_path: str, dims: Mapping[str, int] | None = None) -> Model:
    """The model of a name, a .yaml file or an .onnx file; dims: sizes of dimensions that the ONNX file leaves open.

    Raises UserError with every diagnostic that was found.
    """
    path = find_model(name_or_path)
    if path.suffix == ".onnx":
        return _bare(path, dims or {})
    data = read_limited(path, MAX_BYTES, "the model file")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the model file is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
    return load_text(text, path, dims or {})


def load_text(text: str, path: Path, dims: Mapping[str, int] | None = None) -> Model:
    """The model that `text` declares; files that it names are looked for beside `path`."""
    root = parse_yaml(Source(str(path), text))
    validate(root, MODEL_SCHEMA)
    about = root.value["model"]
    gops = about.get("gops")
    origin, inputs = _origin(root, path, dims or {})
    return Model(
        about.text("name"),
        path,
        about.text("summary"),
        tuple(str(node.value) for node in about.entries("sources")),
        float(gops.value) if gops else None,
        origin,
        inputs,
        int(root.value["seed"].value) if root.get("seed") else 0,
        _calibration(root.get("calibration"), path),
        _test(root.get("test"), path),
    )


def _bare(path: Path, dims: Mapping[str, int]) -> Model:
    """An ONNX file without a word about it: made-up calibration data."""
    from toolchain.models.stored import stored_inputs

    return Model(
        path.stem, path, f"the ONNX file {path.name}", (), None, Stored(path), stored_inputs(path, dims), 0, Seeded(CALIBRATION_SAMPLES), None
    )


def _origin(root: Node, path: Path, dims: Mapping[str, int]) -> tuple[Layered | Stored | Light, Mapping[str, Shape]]:
    inputs = {name: tuple(int(size.value) for size in node.value) for name, node in root.members("inputs")}
    if root.get("layers"):
        return Layered(expand(root, inputs)), inputs
    if light := root.get("light"):
        from toolchain.models.light import light_inputs

        origin = Light(str(light.value), light.span)
        return origin, inputs or light_inputs(origin)
    from toolchain.models.stored import stored_inputs

    node = root.value["onnx"]
    file = path.parent / str(node.value)
    if not file.is_file():
        raise fail("E0001", f"there is no file '{file}'", node.span)
    return Stored(file), inputs or stored_inputs(file, dims)


def _calibration(node: Node | None, path: Path) -> Seeded | Recorded:
    if node is None:
        return Seeded(CALIBRATION_SAMPLES)
    seeded = node.get("seeded")
    return Seeded(int(seeded.value)) if seeded else _recorded(node, path)


def _recorded(node: Node, path: Path) -> Recorded:
    scale = node.get("scale")
    return Recorded(path.parent / node.text("file"), node.text("array"), float(scale.value) if scale else 1.0, node.value["file"].span)


def _test(node: Node | None, path: Path) -> Test | None:
    if node is None:
        return None
    accuracy = node.get("accuracy")
    return Test(_recorded(node, path), node.text("labels"), float(accuracy.value) if accuracy else None)


__all__ = ["find_model", "list_models", "load_model", "load_text", "search_path"]
