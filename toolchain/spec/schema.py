"""Validates a file against its JSON Schema; every error becomes a diagnostic at the place it is about."""

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from toolchain.spec.errors import Diagnostic, Span, UserError, closest, nearest
from toolchain.spec.files import SCHEMA
from toolchain.spec.typed_json import Tree
from toolchain.spec.yaml_nodes import Node, Path, merged

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

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


@dataclass(frozen=True)
class Breach:
    """A value that breaks its schema. path: its place in the file; rule: the keyword of the schema that the value breaks, with its own `wanted`;
    known: the properties that the schema has there; sentence: the schema's own words for its breach."""

    path: Path
    rule: str
    wanted: Tree
    value: Tree
    known: Collection[str]
    sentence: str


def read_schema(path: FilePath = SCHEMA) -> dict[str, Tree]:
    """A JSON Schema, the machine file's where none is named; editors use it too."""
    return json.loads(path.read_text())


def validate(root: Node, schema: FilePath = SCHEMA) -> None:
    """Raises UserError with up to MAX_REPORTED diagnostics: E0108 unknown key, E0109 missing key, E0116 wrong value."""
    plain = root.plain()
    if conforms(schema, plain):
        return
    found = schema_errors(schema, plain)
    diagnostics = [*_missing(root, found), *(d for breach in found for d in _diagnose(root, breach))]
    if diagnostics:
        raise UserError(*merged(UserError(*diagnostics)).diagnostics[:MAX_REPORTED])


def conforms(schema: FilePath, plain: Tree) -> bool:
    """A tenth of the time that `schema_errors` takes, import included: hardly any file is wrong."""
    try:
        return _validator(schema).is_valid(plain)
    except ValueError:  # a value or key that JSON does not have
        return False


@functools.cache
def _validator(schema: FilePath) -> "Draft202012Validator":
    import jsonschema_rs  # 15 ms, so only where a file is validated

    return jsonschema_rs.Draft202012Validator(read_schema(schema))


def schema_errors(schema: FilePath, plain: Tree) -> list[Breach]:
    """The errors of a file that is wrong, in words and places that the quick validator does not have."""
    import jsonschema
    import referencing

    library: Any = jsonschema
    references: Any = referencing
    validator = library.Draft202012Validator(read_schema(schema), registry=references.Registry())
    errors = (library.exceptions.best_match([error]) if _opaque(error) else error for error in validator.iter_errors(plain))
    return [_breach(error) for error in errors]


def _opaque(error: Any) -> bool:
    """Whether an error hides the wrong value: errors of alternatives do, unless the schema holds a sentence for them."""
    return error.validator in ("anyOf", "oneOf") and "x-message" not in error.schema


def _breach(error: Any) -> Breach:
    schema: Mapping[str, Any] = error.schema
    known, sentence = schema.get("properties", {}), schema.get("x-message", "")
    return Breach(tuple(error.absolute_path), error.validator, error.validator_value, error.instance, known, sentence)


def _extras(breach: Breach) -> list[str]:
    return [key for key in breach.value if key not in breach.known] if isinstance(breach.value, dict) else []


def _diagnose(root: Node, breach: Breach) -> Iterator[Diagnostic]:
    node = root.at(breach.path)
    where = f" in {'.'.join(map(str, breach.path))}" if breach.path else ""
    match breach.rule, breach.wanted:
        case "additionalProperties", bool():
            for key in _extras(breach):
                yield Diagnostic("E0108", f"unknown key '{key}'{where}", _key(node, key), nearest(key, breach.known) or _list(breach.known))
        case "required", _:
            return
        case "enum", list(words):
            hint = nearest(str(breach.value), map(str, words))
            yield Diagnostic("E0116", f"{_show(breach.value)} is not one of {', '.join(map(_show, words))}", node.span, hint)
        case "type", wanted:
            yield Diagnostic("E0116", f"this must be {_wanted(wanted)}, not {_kind(breach.value)}", node.span)
        case _:
            yield Diagnostic("E0116", breach.sentence or _plain(breach), _span(node, breach))


def _missing(root: Node, breaches: list[Breach]) -> Iterator[Diagnostic]:
    """One diagnostic for all keys that a mapping lacks; a misspelt one is unknown as well, and told there, with a hint."""
    lacking: dict[Path, dict[str, None]] = {}
    misspelt: set[tuple[Path, str]] = set()
    for breach in breaches:
        if breach.rule == "required" and isinstance(breach.value, dict) and isinstance(breach.wanted, list):
            lacking.setdefault(breach.path, {}).update((str(key), None) for key in breach.wanted if key not in breach.value)
        elif breach.rule == "additionalProperties":
            misspelt |= {(breach.path, closest(key, breach.known)) for key in _extras(breach)}
    for path, keys in lacking.items():
        where = f" in {'.'.join(map(str, path))}" if path else ""
        names = [f"'{key}'" for key in keys if (path, key) not in misspelt]
        if names:
            yield Diagnostic("E0109", f"missing {'key' if len(names) == 1 else 'keys'} {', '.join(names)}{where}", root.at(path).where())


def _key(node: Node, key: str) -> Span:
    member = node.get(key)
    return (member.key_span if member else None) or node.span


def _span(node: Node, breach: Breach) -> Span:
    """The key itself for an error in a property's name."""
    return _key(node, breach.value) if isinstance(node.value, dict) and isinstance(breach.value, str) else node.span


def _plain(breach: Breach) -> str:
    size = breach.wanted
    match breach.rule:
        case "minProperties" | "minItems" | "minLength":
            return "this must not be empty" if size == 1 else f"this must have at least {size} entries"
        case "maxProperties" | "maxItems" | "maxLength":
            return f"this is longer than {size}"
        case "uniqueItems":
            return "an entry is given twice"
        case "dependentRequired":
            return _lone(breach)
        case _:
            return f"{_show(breach.value)} is not allowed here"


def _lone(breach: Breach) -> str:
    """The keys that stand without others which they need."""
    needs: Any = breach.wanted
    value: Any = breach.value
    lone = {key: [f"'{other}'" for other in others if other not in value] for key, others in needs.items() if key in value}
    return "; ".join(f"'{key}' needs {', '.join(others)} beside it" for key, others in lone.items() if others)


def _show(value: Tree) -> str:
    text = f"'{' '.join(value.split())}'" if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wanted(kinds: Tree) -> str:
    return " or ".join(_KINDS[str(kind)] for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _kind(value: Tree) -> str:
    for kind, python in (("object", dict), ("array", list), ("string", str), ("boolean", bool), ("integer", int), ("number", float)):
        if isinstance(value, python):
            return _KINDS[kind]
    return _KINDS["null"]


def _list(known: Iterable[str]) -> str:
    names = sorted(known)
    return f"known: {', '.join(names)}" if len(names) <= 12 else ""
