"""docs/machine-description.md names every key of the language, and its examples are legal."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from toolchain.spec.errors import Source
from toolchain.spec.schema import read_schema
from toolchain.spec.yaml_nodes import parse_yaml

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "machine-description.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)


def keys(schema: Any) -> set[str]:
    """Every key that some mapping of the language may have."""
    if isinstance(schema, list):
        return {key for part in schema for key in keys(part)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own.union(*(keys(part) for part in schema.values())) if schema else own


@pytest.mark.parametrize("key", sorted(keys(read_schema())))
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`[^`]*\b{key}\b[^`]*`|^\s*(- )?(\{{ ?)?.*\b{key}:", PAGE, re.M), key


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split(":")[0])
def test_every_example_is_legal(text: str) -> None:
    schema = {key: value for key, value in read_schema().items() if key not in ("required", "if", "then", "else")}
    jsonschema.Draft202012Validator(schema).validate(parse_yaml(Source("example.yaml", text)).plain())


def test_there_is_an_example_of_every_large_section() -> None:
    shown = {text.split(":")[0] for text in EXAMPLES}
    assert {"params", "types", "topology", "views", "instructions", "sync", "timing", "layouts"} <= shown
