"""Find models by name or by path."""

import os
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.spec.resources import PACKAGE
from toolchain.spec.suggest import nearest


def search_path() -> list[Path]:
    """Folders that hold models: $TILEWRIGHT_MODELS, ./models, the checkout's own, the installed package's."""
    extra = [Path(p) for p in os.environ.get("TILEWRIGHT_MODELS", "").split(os.pathsep) if p]
    own = [Path("models"), PACKAGE.parent / "models", PACKAGE / "_data" / "models"]
    return [folder for folder in dict.fromkeys([*extra, *own]) if folder.is_dir()]


def list_models() -> dict[str, Path]:
    """Every model by name; the first folder on the search path wins."""
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def find_model(name: str) -> Path:
    """The file of a model, given by path or by name; FOLDER/NAME is one in a folder beside the others. Raises UserError E0001."""
    if "/" in name or name.endswith((".yaml", ".yml", ".onnx")):
        path = Path(name)
        if path.is_file():
            return path
        for folder in search_path():
            if (nested := folder / f"{name}.yaml").is_file():
                return nested
        raise fail("E0001", f"there is no model file '{name}'")
    known = list_models()
    if name in known:
        return known[name]
    raise fail("E0001", f"unknown model '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
