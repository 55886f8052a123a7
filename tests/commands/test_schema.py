"""`tilewright schema`, and that an editor has words for every key of every schema."""

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from toolchain.cli import main
from toolchain.commands.schema import KINDS
from toolchain.spec.files import PACKAGE

ROOT = PACKAGE.parent
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
    assert main(["schema", "modle"]) == 1
    assert capsys.readouterr().err == "E0002 there is no schema 'modle'; did you mean 'model'?\n"
    assert main(["schema"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCHEMAS)
