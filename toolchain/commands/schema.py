"""`tilewright schema`: where the schemas of YAML files are, for editors."""

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolchain.spec.errors import fail, nearest
from toolchain.spec.files import PACKAGE

if TYPE_CHECKING:
    from toolchain.spec.model import Machine


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

SETS = ("explore", "target")
"""Kinds of files that set a machine's parameters: axes of a study, and named configurations."""


def print_schema(arguments: argparse.Namespace) -> None:
    """Prints all kinds with their schemas, the path of one, one that knows a machine's parameters, or the settings of an editor.

    Raises UserError E0002 for an unknown kind, or one that sets no parameters, and of a machine that is wrong.
    """
    if arguments.settings:
        print(settings_text(), end="")
        return
    if arguments.kind:
        found = {kind.name: kind for kind in KINDS}
        if arguments.kind not in found:
            raise fail("E0002", f"there is no schema '{arguments.kind[:40]}'", hint=nearest(arguments.kind, found) or f"known: {', '.join(found)}")
        print(machine_schema(arguments.kind, arguments.machine) if arguments.machine else found[arguments.kind].path)
        return
    if arguments.machine:
        raise fail("E0002", "--machine needs a kind of file", hint=f"one of {', '.join(SETS)}")
    for kind in KINDS:
        print(f"{kind.name}: {kind.what}, {' '.join(kind.files)}")


def machine_schema(kind: str, name: str) -> str:
    """JSON: the schema of files that set parameters of the machine, each with its meaning and its values."""
    from toolchain.spec.load import load_machine

    if kind not in SETS:
        raise fail("E0002", f"files of the kind '{kind}' set no parameters of a machine", hint=f"those that do: {', '.join(SETS)}")
    schema: dict[str, Any] = json.loads((PACKAGE / "schemas" / f"{kind}.schema.json").read_text())
    place: dict[str, Any] = schema["properties"]["vary"] if kind == "explore" else schema["properties"]["configs"]["additionalProperties"]
    machine = load_machine(name)
    schema["$id"] = f"tilewright:{machine.name}.{kind}.schema.json"
    place["properties"] = {
        each: {**place["additionalProperties"], "description": _words(machine, each)} | (_values(machine, each) if kind == "explore" else {})
        for each in machine.settable
    }
    return json.dumps(schema, indent=1)


def _words(machine: "Machine", name: str) -> str:
    parameter, value = machine.parameters[name], machine.params[name]
    default = parameter.choices[value] if parameter.choices else value
    return f"{parameter.doc}. {parameter.values}; {default} in {machine.label}."


def _values(machine: "Machine", name: str) -> "dict[str, Any]":
    """A list of its values, or LEAST..MOST as for any axis."""
    parameter = machine.parameters[name]
    each: dict[str, Any] = {"enum": list(parameter.choices)}
    if parameter.range:
        each = {"type": "integer", "minimum": parameter.range[0], "maximum": parameter.range[1]}
    return {"then": {"type": "array", "minItems": 1, "uniqueItems": True, "items": each}}


def settings_text() -> str:
    """JSON with the key `yaml.schemas`, as Visual Studio Code and other clients of the YAML language server read it."""
    return json.dumps({"yaml.schemas": {kind.path: list(kind.files) for kind in KINDS}}, indent=2) + "\n"
