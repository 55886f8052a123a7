"""The tool about itself: `tilewright help COMMAND` and `help E0501`, completions of a shell, and `tilewright schema`, schemas for editors."""

import argparse
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.spec.errors import fail, nearest
from toolchain.spec.files import PACKAGE
from toolchain.tasks.variables import CHOICES, VARIABLES

if TYPE_CHECKING:
    from toolchain.spec.model import Machine

SHELLS = ("bash", "zsh", "fish")
_CODE = re.compile(r"[Ee][0-9]{1,8}")
_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)?([\w-]+)\.md(?:#[\w-]*)?\)")
NEAR = 3
"""Known codes that are named for an unknown one."""
ZSH_HEAD = "#compdef tilewright\n"
"""The first line of a file in which zsh looks for completions."""


def print_script(arguments: argparse.Namespace) -> None:
    """Prints the script that the shell's start-up file evaluates."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["tilewright"], shell=arguments.shell)
    print(script if arguments.shell == "zsh" else script.removeprefix(ZSH_HEAD))  # one script serves zsh and bash, and begins as zsh wants it


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Completes the line that the shell asks about, and ends there; does nothing in any other run."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def complete_machine(prefix: str, **_: object) -> list[str]:
    """Machines on the search path."""
    from toolchain.spec.load import list_targets

    return [name for name in list_targets() if name.startswith(prefix)]


def complete_variable(prefix: str, **_: object) -> list[str]:
    """Names of variables, and values of those whose values have names. Paths are the shell's own business."""
    name, equals, value = prefix.partition("=")
    if not equals:
        return [f"{known}=" for known in VARIABLES if known.startswith(name)]
    head, comma, last = value.rpartition(",")
    return [f"{name}={head}{comma}{known}" for known in _values_of(name) if known.startswith(last)]


def _values_of(name: str) -> list[str]:
    if name == "target":
        return complete_machine("")
    if name == "model":
        from toolchain.models.files import list_models

        return list(list_models())
    return list(CHOICES.get(name, ()))


def error_page(code: str) -> str:
    """The page of an error's code, as Markdown. Raises UserError E0002 for a code that there is not."""
    from toolchain.spec.files import is_file

    folder = _error_pages()
    path = folder / f"{code}.md"
    if not is_file(path):
        known = sorted((page.stem for page in folder.glob("E*.md")), key=lambda each: (abs(int(each[1:]) - int(code[1:])), each))
        raise fail("E0002", f"there is no error '{code}'", hint=f"near it are {', '.join(sorted(known[:NEAR]))}")
    return path.read_text()


def without_links(page: str) -> str:
    """The page for a terminal, which follows no links: one to another page names it, one to an error is its text alone."""
    return _LINK.sub(lambda link: link[1] if _CODE.fullmatch(link[2]) else f"{link[1]} (docs/{link[2]}.md)", page)


def _error_pages() -> Path:
    """In a checkout or installed."""
    from toolchain.spec.files import PACKAGE, is_folder

    return next(folder for folder in (PACKAGE.parent / "docs" / "errors", PACKAGE / "_data" / "errors") if is_folder(folder))


def print_help(arguments: argparse.Namespace) -> None:
    """As `tilewright COMMAND --help`, or the page of an error's code.

    Ends the program as argparse does: code 2 for an unknown command. Raises UserError E0002 for an unknown code.
    """
    if len(arguments.topic) == 1 and _CODE.fullmatch(arguments.topic[0]):
        print(without_links(error_page(arguments.topic[0].upper())), end="")
        return
    arguments.parser.parse_args([*arguments.topic, "--help"])


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
        each: {**place["additionalProperties"], "description": _words(machine, each)} | (_axis_values(machine, each) if kind == "explore" else {})
        for each in machine.settable
    }
    return json.dumps(schema, indent=1)


def _words(machine: "Machine", name: str) -> str:
    parameter, value = machine.parameters[name], machine.params[name]
    default = parameter.choices[value] if parameter.choices else value
    return f"{parameter.doc}. {parameter.values}; {default} in {machine.label}."


def _axis_values(machine: "Machine", name: str) -> "dict[str, Any]":
    """A list of its values, or LEAST..MOST as for any axis."""
    parameter = machine.parameters[name]
    each: dict[str, Any] = {"enum": list(parameter.choices)}
    if parameter.range:
        each = {"type": "integer", "minimum": parameter.range[0], "maximum": parameter.range[1]}
    return {"then": {"type": "array", "minItems": 1, "uniqueItems": True, "items": each}}


def settings_text() -> str:
    """JSON with the key `yaml.schemas`, as Visual Studio Code and other clients of the YAML language server read it."""
    return json.dumps({"yaml.schemas": {kind.path: list(kind.files) for kind in KINDS}}, indent=2) + "\n"
