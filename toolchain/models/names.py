"""Find models by name or by path."""

from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.spec.search import check_single, list_files, search_path
from toolchain.spec.suggest import nearest


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
