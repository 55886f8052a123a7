"""Names and paths that a stranger gives: none may lead out of a folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.spec.files import is_file, is_folder

SUFFIXES = (".yaml", ".yml", ".onnx", ".npz")
"""Of names that the commands take for paths, as they do names with a slash."""
PATHS = ("calibration", "schedule")
"""Variables whose values are paths, whatever they look like."""


@dataclass(frozen=True)
class Confined:
    """root: the folder, absolute and without links."""

    root: Path

    def word(self, text: str) -> str:
        """The text, which is a name, a path below the root, or NAME:CONFIG of these.

        Raises UserError E0002 for one that would be an option, E0010 for a path that leads out of the root, also by links.
        """
        if not text or text.startswith("-") or "\0" in text:
            raise fail("E0002", f"'{text[:80]}' is neither a name nor a path")
        for each in (text, text.partition(":")[0]):
            try:
                inside = (self.root / each).resolve().is_relative_to(self.root)
            except (OSError, RuntimeError):
                inside = False
            if not inside:
                raise fail("E0010", f"'{text[:200]}' is outside the folder that is served", hint="give a name, or a path below that folder")
        return text

    def variables(self, given: Mapping[str, str]) -> list[str]:
        """`NAME=VALUE` words. Raises as `word`, for each part of a value between commas."""
        return [f"{name}={','.join(map(self.word, value.split(',')))}" for name, value in given.items()]

    def absolute(self, given: Mapping[str, str]) -> dict[str, str]:
        """The same variables for a command that runs elsewhere: paths that exist below the root are whole."""
        return {name: ",".join(self._whole(part, name in PATHS) for part in value.split(",")) for name, value in given.items()}

    def _whole(self, text: str, path: bool) -> str:
        base, colon, config = text.partition(":")
        named = path or "/" in base or base.endswith(SUFFIXES)
        found = self.root / base
        return f"{found}{colon}{config}" if named and (is_file(found) or is_folder(found)) else text

    def search_paths(self) -> dict[str, str]:
        """Variables of the environment with which a command elsewhere finds the machines and models below the root."""
        found: dict[str, str] = {}
        for variable, kind in (("TILEWRIGHT_PATH", "targets"), ("TILEWRIGHT_MODELS", "models")):
            given = [part for part in os.environ.get(variable, "").split(os.pathsep) if part]
            found[variable] = os.pathsep.join([*map(os.path.abspath, given), str(self.root / kind)])
        return found
