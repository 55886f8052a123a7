"""The JSON Schema is sound, strict everywhere and documented, and its errors are gathered."""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import edited, small
from toolchain.spec.errors import Source, UserError
from toolchain.spec.files import SCHEMA
from toolchain.spec.load import load_text
from toolchain.spec.schema import conforms, read_schema, schema_errors, validate
from toolchain.spec.yaml_nodes import parse_yaml


def below(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from below(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from below(value)


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(read_schema())


def test_mappings_are_closed_and_sections_described() -> None:
    schema = read_schema()
    assert all("additionalProperties" in part for part in below(schema) if isinstance(part.get("properties"), dict) and "type" in part)
    open_sections = [section for section in schema["properties"].values() if "properties" not in section and "$ref" not in section]
    assert all("description" in section for section in open_sections)


def test_nothing_is_fetched() -> None:
    assert all(part["$ref"].startswith("#/") for part in below(read_schema()) if isinstance(part.get("$ref"), str))


def test_several_errors_in_source_order() -> None:
    text = edited(("type: u8, depth: 1 << 16", "tpye: u8, depth: 1 << 16"), ("    timing: calc\n", ""), ("policy: fifo", "policy: lifo"))
    with pytest.raises(UserError) as caught:
        load_text(text, "small.yaml")
    assert [d.code for d in caught.value.diagnostics] == ["E0108", "E0109", "E0116"]
    lines = [d.span.line for d in caught.value.diagnostics if d.span]
    assert lines == sorted(lines)


def test_misspelt_required_key_is_one_error() -> None:
    with pytest.raises(UserError) as caught:
        small(("    format: setup", "    formt: setup"))
    told = "small.yaml:95:5: E0108 unknown key 'formt' in instructions.SETUP; did you mean 'format'?"
    assert [d.headline() for d in caught.value.diagnostics] == [told]


def test_keys_that_stand_without_those_that_they_need_are_named_once(tmp_path: Path) -> None:
    schema = tmp_path / "keys.schema.json"
    schema.write_text('{"properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "dependentRequired": {"a": ["b", "c"], "d": ["c"], "b": ["a"]}}')
    with pytest.raises(UserError) as caught:
        validate(parse_yaml(Source("keys.yaml", "a: 1\nb: 2\nd: 3\n")), schema)
    assert str(caught.value).splitlines()[0] == "keys.yaml:1:1: E0116 'a' needs 'c' beside it; 'd' needs 'c' beside it"


def test_all_missing_keys_of_a_mapping_are_one_error() -> None:
    with pytest.raises(UserError) as caught:
        load_text("target: {name: x, summary: y}", "x.yaml")
    assert len(caught.value.diagnostics) == 1
    assert "missing keys 'memories', 'units', 'encoding'" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "x", "1", "~"])
def test_not_even_a_mapping(text: str) -> None:
    with pytest.raises(UserError, match="E0116 this must be a mapping"):
        load_text(text, "x.yaml")


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner: dict[Any, Any] = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for key, below_it in inner.items():
        yield (*path, key)
        yield from places(below_it, (*path, key))


PLAIN = parse_yaml(Source("small.yaml", edited())).plain()
VALUES = st.sampled_from([None, True, 0, -1, 1.0, 0.5, 1 << 70, float("inf"), b"x", "", "x", "1x\n", [], [[]], ["x", "x"], {}, {"x": 1}, {1: "x"}])


@settings(max_examples=35)
@given(st.sampled_from(list(places(PLAIN))), VALUES)
def test_quick_validator_passes_only_files_without_errors(path: tuple[str | int, ...], value: Any) -> None:
    plain = copy.deepcopy(PLAIN)
    holder = functools.reduce(lambda inner, key: inner[key], path[:-1], plain)
    holder[path[-1]] = value
    assert not (conforms(SCHEMA, plain) and schema_errors(SCHEMA, plain))
    assert conforms(SCHEMA, PLAIN)
