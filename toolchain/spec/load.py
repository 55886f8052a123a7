"""From a machine file to a frozen Machine: YAML -> JSON Schema -> parameters -> sections -> checks."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from toolchain.spec.elaborate import elaborate
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.files import is_file, read_limited
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.search import check_single, list_files, search_path
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml


def companion(path: Path, name: str, file: str) -> Path | None:
    """A file in the folder of machine `name`, which stands beside the machine's own file at `path` or on the search path."""
    folders = [path.parent, *search_path("targets")]
    return next((found for found in (folder / name / file for folder in folders) if is_file(found)), None)


def list_targets() -> dict[str, Path]:
    """Every machine by name; the first folder on the search path wins."""
    return list_files("targets")


def find_target(name: str) -> Path:
    """The file of a machine, given by name or by path. Raises UserError E0001, and E0006 for a name of two packages."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        if is_file(path):
            return path
        raise fail("E0001", f"there is no machine file '{name}'")
    known = list_targets()
    if name in known:
        check_single("targets", name)
        return known[name]
    raise fail("E0001", f"unknown target '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")


def load_machine(name: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """Loads `name` (or `name:config`). Raises UserError with every diagnostic that was found."""
    base, _, named = name.partition(":")
    return load_file(find_target(base), config or named, overrides)


def load_file(path: Path, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """Loads one file. Raises all of `read_text` and of `load_text`."""
    return load_text(read_text(path), str(path), config, overrides)


def read_text(path: Path) -> str:
    """The text of a machine file. Raises UserError E0001 (cannot be read), E0330 (too large)."""
    data = read_limited(path, MAX_BYTES, "the machine file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the machine file is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None


def load_text(text: str, path: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """The machine that `text` describes; `path` is what messages say. Raises UserError with every diagnostic that was found.

    The same arguments give the same object, which all that is derived from a machine is kept with.
    """
    return _elaborated(text, path, config, tuple((overrides or {}).items()))


@lru_cache(maxsize=128)
def _elaborated(text: str, path: str, config: str, overrides: tuple[tuple[str, str], ...]) -> Machine:
    root = parse_yaml(Source(path, text))
    validate(root)
    return elaborate(root, config, dict(overrides))


__all__ = ["UserError", "companion", "find_target", "list_targets", "load_file", "load_machine", "load_text", "search_path"]
