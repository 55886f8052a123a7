"""From a model's name or file to a frozen Model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.graph.preparation import Preparation, channels_last
from toolchain.models.expand import expand
from toolchain.models.files import find_model, list_models, named_file, present_file
from toolchain.models.model import KINDS, LOSS, Input, Layered, Light, Model, Pictures, Recorded, Seeded, State, Stored, Task, Test
from toolchain.models.operators import Shape
from toolchain.spec.errors import Source, fail
from toolchain.spec.files import MODEL_SCHEMA, read_limited
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

if TYPE_CHECKING:
    from toolchain.models.functions import FunctionLibrary

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
    if root.get("state") or (root.get("calibration") and root.value["calibration"].get("steps")):
        from toolchain.models.states import check_beside

        check_beside(root)
    about = root.value["model"]
    gops = about.get("gops")
    origin, inputs = _origin(root, path, dims or {})
    states = _states(root, path, inputs)
    given = {name: entry for name, entry in inputs.items() if name not in {state.input for state in states}}
    return Model(
        about.text("name"),
        path,
        about.text("summary"),
        tuple(str(node.value) for node in about.entries("sources")),
        float(gops.value) if gops else None,
        origin,
        inputs,
        int(root.value["seed"].value) if root.get("seed") else 0,
        _calibration(root.get("calibration"), path, given),
        _test(root.get("test"), path, inputs),
        tuple(str(node.value) for node in root.entries("host")),
        {name: node.value for name, node in root.members("quantisation")},
        _task(root.get("task")),
        root.text("place") or "pays",
        about.text("stand_in") or "",
        {name: tuple(str(node.value) for node in patterns.children()) for name, patterns in root.members("targets")},
        float(allowed.value["loss"].value) if (allowed := root.get("accuracy")) else LOSS,
        root.text("beyond") or "error",
        states,
    )


def _states(root: Node, path: Path, inputs: Mapping[str, Input]) -> tuple[State, ...]:
    if root.get("state") is None:
        return ()
    from toolchain.models.states import read_states

    return read_states(root, path, inputs)


def _bare(path: Path, dims: Mapping[str, int]) -> Model:
    """An ONNX file without a word about it: made-up calibration data."""
    from toolchain.models.sources import stored_inputs

    inputs = stored_inputs(path, dims)
    return Model(path.stem, path, f"the ONNX file {path.name}", (), None, Stored(path), inputs, 0, Seeded(CALIBRATION_SAMPLES), None)


def _origin(root: Node, path: Path, dims: Mapping[str, int]) -> tuple[Layered | Stored | Light, Mapping[str, Input]]:
    declared = {name: _input(node) for name, node in root.members("inputs")}
    shapes = {name: entry.shape for name, entry in declared.items()}
    if (name := next(iter(dims), "")) and root.get("onnx") is None:
        raise fail(
            "E0905",
            f"'{name}' is given a size, and the file declares all of them",
            hint="change its `inputs`, or leave the size out",
            place=str(path),
        )
    if root.get("layers"):
        below = {name: entry.below for name, entry in declared.items() if entry.below}
        return Layered(expand(root, shapes, _library(root, path), below)), declared
    if light := root.get("light"):
        from toolchain.models.sources import light_inputs

        origin = Light(str(light.value), light.span)
        return origin, declared or {name: Input(shape) for name, shape in light_inputs(origin).items()}
    from toolchain.models.sources import open_sizes, stored_inputs

    file = present_file(root.value["onnx"], path)
    largest = {name: int(sizes.children()[-1].value) for name, sizes in root.members("lengths")}
    found = stored_inputs(file, largest | open_sizes(file, shapes) | dict(dims), dict(shapes))
    return Stored(file), {
        name: replace(entry, preparation=declared[name].preparation, below=declared[name].below) if name in declared else entry
        for name, entry in found.items()
    }


def _library(root: Node, path: Path) -> "FunctionLibrary | None":
    if (named := root.get("functions")) is None:
        return None
    from toolchain.models.functions import load_library

    return load_library(named, path)


def _input(node: Node) -> Input:
    """A shape, or a shape with how raw numbers become the input."""
    if node.get("shape") is None:
        return Input(tuple(int(size.value) for size in node.children()))
    shape = tuple(int(size.value) for size in node.entries("shape"))
    if below := node.get("below"):
        return Input(shape, "int64", below=int(below.value))
    mean, std = (tuple(float(part.value) for part in node.entries(name)) for name in ("mean", "std"))
    if not any(node.get(name) for name in ("layout", "mean", "std", "scale")):
        return Input(shape)
    scale = node.get("scale")
    _check_channels(node, shape, ("mean", "std"))
    return Input(shape, preparation=Preparation(node.text("layout") or "nchw", mean or (0.0,), std or (1.0,), float(scale.value) if scale else 1.0))


def _check_channels(node: Node, shape: Shape, names: Sequence[str]) -> None:
    """Raises UserError E0807 where a list fits no axis of channels."""
    channels = shape[3] if channels_last(shape) else shape[1] if len(shape) == 4 else 1
    for name in names:
        count = len(node.entries(name))
        if count > 1 and count != channels:
            raise fail("E0807", f"'{name}' has {count} numbers, the input has {channels} channels", node.value[name].span)


def _calibration(node: Node | None, path: Path, inputs: Mapping[str, Input]) -> Seeded | Recorded | Pictures:
    if node is None:
        return Seeded(CALIBRATION_SAMPLES)
    if folder := node.get("folder"):
        return Pictures(path.parent / str(folder.value), folder.span)
    seeded = node.get("seeded")
    steps = node.get("steps")
    return Seeded(int(seeded.value), int(steps.value) if steps else 1) if seeded else _recorded(node, path, inputs)


def _recorded(node: Node, path: Path, inputs: Mapping[str, Input]) -> Recorded:
    """Raises UserError E0808 where inputs and arrays are not the same names."""
    scale, span = node.get("scale"), node.value["file"].span
    arrays = {name: str(part.value) for name, part in node.members("arrays")}
    if not arrays and len(inputs) == 1:
        arrays = {next(iter(inputs)): node.text("array")}
    if arrays.keys() != inputs.keys():
        hint = "arrays: {" + ", ".join(f"{name}: ARRAY" for name in inputs) + "}"
        raise fail("E0808", f"there are {len(inputs)} inputs: {', '.join(inputs)}; every one needs an array of samples", span, hint)
    file = node.value["file"]
    found = present_file(file, path) if isinstance(file.value, dict) else named_file(file, path)
    return Recorded(found, arrays, float(scale.value) if scale else 1.0, span)


def _test(node: Node | None, path: Path, inputs: Mapping[str, Input]) -> Test | None:
    if node is None:
        return None
    accuracy = node.get("accuracy")
    return Test(_recorded(node, path, inputs), node.text("labels"), float(accuracy.value) if accuracy else None)


def _task(node: Node | None) -> Task | None:
    """The schema has checked kind and options."""
    if node is None:
        return None
    if isinstance(node.value, str):
        return KINDS[node.value]()
    ((kind, options),) = node.items()
    return KINDS[kind](**{name: _option(part) for name, part in options.items()})


def _option(node: Node) -> Any:
    """A list is one of whole numbers."""
    return tuple(int(part.value) for part in node.children()) if isinstance(node.value, list) else node.plain()


__all__ = ["find_model", "list_models", "load_model", "load_text"]
