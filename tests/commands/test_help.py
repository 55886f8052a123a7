"""What a shell is answered: machines, models, variables and their values.

`tilewright schema`, and that an editor has words for every key of every schema.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from toolchain.cli import main
from toolchain.commands.help import KINDS, SHELLS, complete_machine, complete_variable, without_links
from toolchain.spec.files import PACKAGE
from toolchain.spec.load import load_machine
from toolchain.tasks.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def test_variables_and_their_values() -> None:
    assert complete_variable("") == [f"{name}=" for name in VARIABLES]
    assert complete_variable("ta") == ["target="]
    assert complete_variable("target=dp") == ["target=dpuv3"]
    assert complete_variable("model=digits,resnet101") == ["model=digits,resnet101"]
    assert complete_variable("place=") == ["place=pays", "place=all", "place=least"]
    assert complete_variable("dim=") == complete_variable("nothing=") == []
    assert "vta" in complete_machine("v")


@pytest.mark.parametrize("code", ["E0501", "e0501"])
def test_a_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", code]) == 0
    assert capsys.readouterr().out == without_links((ROOT / "docs" / "errors" / "E0501.md").read_text())


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("see [covers](../schedules.md#covers).", "see covers (docs/schedules.md)."),
        ("as [E0501](E0501.md) says", "as E0501 says"),
        ("`a[0](1)` stays", "`a[0](1)` stays"),
    ],
)
def test_a_terminal_follows_no_links(page: str, told: str) -> None:
    assert without_links(page) == told


def test_an_unknown_code_names_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "E0507"]) == 2
    assert capsys.readouterr().err == "E0002 there is no error 'E0507'; near it are E0504, E0505, E0506\n"
    assert main(["help", "E99999999"]) == 2
    assert "near it are E15" in capsys.readouterr().err


def test_a_command_is_still_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "emulate"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: tilewright emulate")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "tilewright" in script
    assert script.startswith("#compdef") == (shell == "zsh")
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "answer"), [("tilewright veri", "verify "), ("tilewright build target=dpu", "dpuv3 "), ("tilewright target show vt", "vta ")]
)
def test_a_shell_asks(line: str, answer: str, tmp_path: Path) -> None:
    """As argcomplete's script does it: the line in the environment, the answer in a file."""
    out = tmp_path / "answer"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\v", "COMP_TYPE": "9"}
    words = {"_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:", "_ARGCOMPLETE_STDOUT_FILENAME": str(out), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "toolchain.cli"], env=os.environ | asked | words, check=False, capture_output=True)
    assert out.read_text() == answer


SCHEMAS = sorted((PACKAGE / "schemas").glob("*.schema.json"))
CONDITIONS = ("if", "then", "else")
"""Parts of a schema that say when others hold, and state no key."""


def _keys(schema: dict[str, Any], node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Every key that the schema states, and whether it or what it refers to is described."""
    if isinstance(node, list):
        for number, part in enumerate(node):
            yield from _keys(schema, part, (*path, str(number)))
    if not isinstance(node, dict):
        return
    for name, stated in node["properties"].items() if isinstance(node.get("properties"), dict) else ():
        referred = schema.get("$defs", {}).get(str(stated.get("$ref", "")).rpartition("/")[2], {}) if isinstance(stated, dict) else {}
        words = (stated.get("description") or referred.get("description", "")) if isinstance(stated, dict) else ""
        yield "/".join((*path, name)), bool(words.strip())
    for name, part in node.items():
        if name not in CONDITIONS:
            yield from _keys(schema, part, (*path, name))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_every_key_is_described(path: Path) -> None:
    schema = json.loads(path.read_text())
    found = dict(_keys(schema, schema))
    assert [key for key, described in found.items() if not described] == []
    assert found


def test_every_schema_has_a_kind_and_its_files_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(kind.path for kind in KINDS) == [str(path) for path in SCHEMAS]
    assert main(["schema", "--settings"]) == 0
    settings = json.loads(capsys.readouterr().out)["yaml.schemas"]
    for name, example in {
        "target": "targets/vta.yaml", "kernels": "targets/vta/kernels.yaml", "model": "models/digits.yaml",
        "operation": "toolchain/operations/add.yaml", "pipeline": "toolchain/passes/pipeline.yaml",
    }.items():  # fmt: skip
        assert (ROOT / example).is_file()
        patterns = next(files for path, files in settings.items() if Path(path).name == f"{name}.schema.json")
        assert any(fnmatch(example, pattern) for pattern in patterns), example


def test_the_path_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "model"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert json.loads(path.read_text())["$id"] == "tilewright:model.schema.json"
    assert main(["schema", "modle"]) == 2
    assert capsys.readouterr().err == "E0002 there is no schema 'modle'; did you mean 'model'?\n"
    assert main(["schema"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCHEMAS)


def checked(kind: str, machine: str, data: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Messages about data that a schema with a machine's parameters does not take."""
    assert main(["schema", kind, "--machine", machine]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(data)]


def test_a_study_is_held_against_the_parameters_of_its_machine(capsys: pytest.CaptureFixture[str]) -> None:
    def told(**vary: object) -> list[str]:
        return checked("explore", "vta", {"explore": {"machine": "vta"}, "vary": vary}, capsys)

    assert told(LOG_BUS=[3, 4], LOG_BLOCK="3..5", images=[1, 2]) == []
    assert told(LOG_BUS=[3, 99]) == ["99 is greater than the maximum of 6"]
    assert len(told(SHR=["no_such_word"])) == 1


def test_parameters_are_described_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    machine = load_machine("vta")
    for kind in ("explore", "target"):
        assert main(["schema", kind, "--machine", "vta"]) == 0
        properties = json.loads(capsys.readouterr().out)["properties"]
        place = properties["vary"] if kind == "explore" else properties["configs"]["additionalProperties"]
        assert tuple(place["properties"]) == machine.settable
        assert place["properties"]["LOG_BUS"]["description"] == f"{machine.parameters['LOG_BUS'].doc}. 3 to 6; 3 in vta."


@pytest.mark.parametrize("words", [["model", "--machine", "vta"], ["--machine", "vta"], ["explore", "--machine", "no_such"]])
def test_other_kinds_and_machines_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *words]) == (1 if "no_such" in words else 2)
    assert capsys.readouterr().err.startswith("E0001" if "no_such" in words else "E0002")
