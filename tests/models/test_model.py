"""Tasks: the words of a model's file are the fields of a task, each in a schema that says so."""

import json
from dataclasses import fields

import pytest

from toolchain.models.model import KINDS
from toolchain.spec.files import MODEL_SCHEMA


def _options(found: object, kind: str) -> list[dict[str, object]]:
    """The schemas of a kind's options, wherever they stand."""
    if isinstance(found, list):
        return [each for part in found for each in _options(part, kind)]
    if not isinstance(found, dict):
        return []
    inner = found.get("properties")
    own = [inner[kind]["properties"]] if isinstance(inner, dict) and isinstance(inner.get(kind), dict) and "properties" in inner[kind] else []
    return own + [each for part in found.values() for each in _options(part, kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_takes_exactly_the_fields(kind: str) -> None:
    (options,) = _options(json.loads(MODEL_SCHEMA.read_text())["$defs"]["task"], kind)
    assert set(options) == {field.name for field in fields(KINDS[kind]())}  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_alone_has_defaults_for_everything(kind: str) -> None:
    assert KINDS[kind]() == KINDS[kind](**{field.name: field.default for field in fields(KINDS[kind]())})  # type: ignore[arg-type]
