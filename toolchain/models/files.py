"""Models by name or by path, and the files that a model's own file names.

Those lie beside it, in an installed package, or in the user's cache, where a script beside it writes them.
"""

from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import platformdirs

from toolchain.spec.errors import fail, nearest
from toolchain.spec.files import check_single, list_files, search_path
from toolchain.spec.yaml_nodes import Node


def list_models() -> dict[str, Path]:
    """Every model by name; the first folder on the search path wins."""
    return list_files("models")


def find_model(name: str) -> Path:
    """The file of a model, given by path or by name; FOLDER/NAME is one in a folder beside the others.

    Raises UserError E0001, and E0006 for a name of two packages.
    """
    if name.endswith(".tflite"):
        hint = "convert it: python -m tf2onnx.convert --tflite FILE --output MODEL.onnx"
        raise fail("E0001", f"'{name}' is a TensorFlow Lite model, which is not read; models are ONNX files", hint=hint)
    if "/" in name or name.endswith((".yaml", ".yml", ".onnx")):
        path = Path(name)
        if path.is_file():
            return path
        for folder in search_path("models"):
            if (nested := folder / f"{name}.yaml").is_file():
                return nested
        raise fail("E0001", f"there is no model file '{name}'")
    known = list_models()
    if name in known:
        check_single("models", name)
        return known[name]
    raise fail("E0001", f"unknown model '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")


def cache_folder() -> Path:
    """Folder of the files that scripts export and prepare for models."""
    return Path(platformdirs.user_cache_dir("tilewright")) / "models"


def named_file(node: Node, path: Path) -> Path:
    """The file that a text, `{package, file}` or `{cache, script}` in the model file `path` names; it need not be there.

    Raises UserError E0001 for a package that is not installed, E0116 for a place outside of package or cache.
    """
    if node.get("package") is not None:
        return _package(node.value["package"]) / _inside(node.value["file"])
    if node.get("cache") is not None:
        return cache_folder() / _inside(node.value["cache"])
    return path.parent / str(node.value)


def present_file(node: Node, path: Path) -> Path:
    """`named_file`. Raises UserError E0001 where it is not there, with the command that makes it."""
    file = named_file(node, path)
    if not file.is_file():
        script = node.text("script")
        hint = f"python {path.parent / script} {path.stem}" if script else ""
        raise fail("E0001", f"there is no file '{file}'", node.span, hint)
    return file


def _package(node: Node) -> Path:
    name = str(node.value)
    spec = find_spec(name) if name.isidentifier() else None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise fail("E0001", f"the package '{name}' is not installed", node.span, f"pip install {name.replace('_', '-')}")
    return Path(folders[0])


def _inside(node: Node) -> str:
    name = str(node.value)
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise fail("E0116", f"'{name}' leaves its folder", node.span)
    return name
