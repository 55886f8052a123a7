"""`tilewright schema`: where the schemas of YAML files are, for editors."""

import argparse
import json
from dataclasses import dataclass

from toolchain.spec.errors import fail, nearest
from toolchain.spec.files import PACKAGE


@dataclass(frozen=True)
class Kind:
    """A kind of YAML file. files: patterns of their paths in a project."""

    name: str
    files: tuple[str, ...]
    what: str

    @property
    def path(self) -> str:
        """The schema's file in this installation."""
        return str(PACKAGE / "schemas" / f"{self.name}.schema.json")


KINDS = (
    Kind("target", ("targets/*.yaml",), "a machine"),
    Kind("kernels", ("targets/*/*.yaml",), "the kernels of a machine"),
    Kind("fusion", ("**/fusion.yaml",), "patterns of nodes that become operations"),
    Kind("groups", ("targets/*/fusion/*.yaml",), "operations of a machine that may share a loop"),
    Kind("pipeline", ("**/pipeline.yaml",), "the order of passes"),
    Kind("operation", ("**/operations/*.yaml",), "an operation"),
    Kind("model", ("models/*.yaml",), "a network"),
    Kind("schedule", ("**/schedule/*.yaml",), "the schedule of a region"),
    Kind("deploy", ("**/deploy.yaml",), "several machines as a system"),
    Kind("explore", ("**/explore.yaml",), "an exploration"),
)


def print_schema(arguments: argparse.Namespace) -> None:
    """Prints all kinds with their schemas, the path of one, or the settings of an editor. Raises UserError E0002 for an unknown kind."""
    if arguments.settings:
        print(settings_text(), end="")
        return
    if arguments.kind:
        found = {kind.name: kind for kind in KINDS}
        if arguments.kind not in found:
            raise fail("E0002", f"there is no schema '{arguments.kind[:40]}'", hint=nearest(arguments.kind, found) or f"known: {', '.join(found)}")
        print(found[arguments.kind].path)
        return
    for kind in KINDS:
        print(f"{kind.name}: {kind.what}, {' '.join(kind.files)}")


def settings_text() -> str:
    """JSON with the key `yaml.schemas`, as Visual Studio Code and other clients of the YAML language server read it."""
    return json.dumps({"yaml.schemas": {kind.path: list(kind.files) for kind in KINDS}}, indent=2) + "\n"
