"""Validates a file against its JSON Schema; every error becomes a diagnostic at the place it is about."""

import functools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolchain.spec.errors import Diagnostic, Span, UserError, closest, nearest
from toolchain.spec.files import SCHEMA
from toolchain.spec.yaml_nodes import Node, merged

MAX_REPORTED = 20
_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}


def read_schema(path: Path = SCHEMA) -> Any:
    """A JSON Schema, the machine file's where none is named; editors use it too."""
    return json.loads(path.read_text())


def validate(root: Node, schema: Path = SCHEMA) -> None:
    """Raises UserError with up to MAX_REPORTED diagnostics: E0108 unknown key, E0109 missing key, E0116 wrong value."""
    plain = root.plain()
    if conforms(schema, plain):
        return
    found = schema_errors(schema, plain)
    diagnostics = [*_missing(root, found), *(d for error in found for d in _diagnose(root, error))]
    if diagnostics:
        raise UserError(*merged(UserError(*diagnostics)).diagnostics[:MAX_REPORTED])


def conforms(schema: Path, plain: Any) -> bool:
    """A tenth of the time that `schema_errors` takes, import included: hardly any file is wrong."""
    try:
        return _validator(schema).is_valid(plain)
    except ValueError:  # a value or key that JSON does not have
        return False


@functools.cache
def _validator(schema: Path) -> Any:
    import jsonschema_rs  # 15 ms, so only where a file is validated

    return jsonschema_rs.Draft202012Validator(read_schema(schema))


def schema_errors(schema: Path, plain: Any) -> list[Any]:
    """The errors of a file that is wrong, in words and places that the quick validator does not have."""
    import jsonschema
    import referencing

    library: Any = jsonschema
    references: Any = referencing
    validator = library.Draft202012Validator(read_schema(schema), registry=references.Registry())
    return [library.exceptions.best_match([error]) if _opaque(error) else error for error in validator.iter_errors(plain)]


def _opaque(error: Any) -> bool:
    """Errors of alternatives say nothing themselves, unless the schema holds a sentence for them."""
    return error.validator in ("anyOf", "oneOf") and "x-message" not in error.schema


def _extras(error: Any) -> list[str]:
    return [key for key in error.instance if key not in error.schema.get("properties", {})]


def _diagnose(root: Node, error: Any) -> Iterator[Diagnostic]:
    path = tuple(error.absolute_path)
    node = root.at(path)
    where = f" in {'.'.join(map(str, path))}" if path else ""
    match error.validator:
        case "additionalProperties" if isinstance(error.schema["additionalProperties"], bool):
            known = error.schema.get("properties", {})
            for key in _extras(error):
                yield Diagnostic("E0108", f"unknown key '{key}'{where}", _key(node, key), nearest(key, known) or _list(known))
        case "required":
            return
        case "enum":
            hint = nearest(str(error.instance), map(str, error.validator_value))
            yield Diagnostic("E0116", f"{_show(error.instance)} is not one of {', '.join(map(_show, error.validator_value))}", node.span, hint)
        case "type":
            yield Diagnostic("E0116", f"this must be {_wanted(error.validator_value)}, not {_kind(error.instance)}", node.span)
        case _:
            sentence = error.schema.get("x-message") or _plain(error)
            yield Diagnostic("E0116", sentence, _span(node, error))


def _missing(root: Node, errors: list[Any]) -> Iterator[Diagnostic]:
    """One diagnostic for all keys that a mapping lacks; a misspelt one is unknown as well, and told there, with a hint."""
    lacking: dict[tuple[str | int, ...], dict[str, None]] = {}
    misspelt: set[tuple[tuple[str | int, ...], str]] = set()
    for error in errors:
        path = tuple(error.absolute_path)
        if error.validator == "required":
            lacking.setdefault(path, {}).update((key, None) for key in error.validator_value if key not in error.instance)
        elif error.validator == "additionalProperties":
            misspelt |= {(path, closest(key, error.schema.get("properties", {}))) for key in _extras(error)}
    for path, keys in lacking.items():
        where = f" in {'.'.join(map(str, path))}" if path else ""
        names = [f"'{key}'" for key in keys if (path, key) not in misspelt]
        if names:
            yield Diagnostic("E0109", f"missing {'key' if len(names) == 1 else 'keys'} {', '.join(names)}{where}", root.at(path).where())


def _key(node: Node, key: str) -> Span:
    member = node.get(key)
    return (member.key_span if member else None) or node.span


def _span(node: Node, error: Any) -> Span:
    """The key itself for an error in a property's name."""
    return _key(node, error.instance) if isinstance(node.value, dict) and isinstance(error.instance, str) else node.span


def _plain(error: Any) -> str:
    size = error.validator_value
    match error.validator:
        case "minProperties" | "minItems" | "minLength":
            return "this must not be empty" if size == 1 else f"this must have at least {size} entries"
        case "maxProperties" | "maxItems" | "maxLength":
            return f"this is longer than {size}"
        case "uniqueItems":
            return "an entry is given twice"
        case _:
            return f"{_show(error.instance)} is not allowed here"


def _show(value: Any) -> str:
    text = f"'{' '.join(value.split())}'" if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wanted(kinds: str | list[str]) -> str:
    return " or ".join(_KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _kind(value: Any) -> str:
    for kind, python in (("object", dict), ("array", list), ("string", str), ("boolean", bool), ("integer", int), ("number", float)):
        if isinstance(value, python):
            return _KINDS[kind]
    return _KINDS["null"]


def _list(known: Iterable[str]) -> str:
    names = sorted(known)
    return f"known: {', '.join(names)}" if len(names) <= 12 else ""
