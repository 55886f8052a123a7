"""The elaborated machine as plain data and as YAML: every number concrete, expressions as text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, cast

import yaml

from toolchain.spec.expr import Choose, Const, Expr, Name
from toolchain.spec.model import ElementType, Instruction, Machine, ScalarType, Text, View
from toolchain.spec.unparse import unparse

NOTES = frozenset({"doc", "source", "clock_source", "peak_source", "assumed", "known", "stated"})
"""Keys that explain and never change a result."""


def render(machine: Machine, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Sections in the order of a machine file; keys named in `without`, and empty ones, are left out."""
    sections: dict[str, Any] = {
        "target": {"name": machine.name, "config": machine.config, "summary": machine.summary, "sources": machine.sources}
        | ({"models": machine.models} if machine.models else {}),
        "codegen": machine.codegen if machine.codegen != "binary" else None,
        "tool": machine.tool,
        "half": int(machine.half) or None,
        "tolerance": machine.tolerance,
        "regions": {name: value for name, value in asdict(machine.limits).items() if value is not None},
        "params": parameters(machine),
        "topology": machine.levels,
        "memories": machine.memories,
        "views": machine.views,
        "units": machine.units,
        "encoding": machine.encoding,
        "instructions": {i.name: _instruction(machine, i, without) for i in machine.instructions},
        "functions": machine.functions,
        "numerics": machine.rules,
        "sync": {"counters": machine.counters, "rules": machine.sync, "illegal": machine.illegal}
        | ({"nops": machine.nops} if machine.nops else {})
        | ({"interlock": machine.interlock} if machine.interlock else {}),
        "timing": machine.timing,
        "layouts": machine.layouts,
        "program": machine.program,
        "host": machine.host,
        "quantisation": machine.quantisation,
        "operators": machine.operators,
        "fusion": machine.fusion.data if machine.fusion else None,
        "pipeline": machine.pipeline.data if machine.pipeline else None,
        "portable": [{"instruction": name, "check": rule.name, "that": rule.that, "message": rule.message} for name, rule in machine.portable],
        "assumptions": machine.assumptions,
    }
    return {name: data for name, section in sections.items() if not _empty(data := plain(section, without))}


def parameters(machine: Machine) -> dict[str, int | str]:
    """Every parameter's value; a choice by its name."""
    labels = {(param, number): choice for (param, choice), number in machine.choices.items()}
    return {name: labels.get((name, value), value) for name, value in machine.params.items()}


def to_yaml(data: Any) -> str:
    """Plain data as YAML: short leaves in one line, blocks of text as blocks."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True)


def plain(value: Any, without: frozenset[str] = frozenset()) -> Any:
    """Data of dict, list, text and numbers alone; tuples of named things become mappings by name."""
    match value:
        case Expr():
            return value.value if isinstance(value, Const) else unparse(value)
        case ScalarType():
            return str(value)
        case ElementType():
            return element_text(value)
        case Text():
            return value.text
        case Mapping():
            items = cast(Mapping[str, Any], value)
            return {key: plain(item, without) for key, item in items.items() if key not in without}
        case tuple() | list():
            return _sequence(list(cast(Sequence[Any], value)), without)
        case _ if is_dataclass(value):
            return _members(value, without)
        case _:
            return value


def _sequence(items: list[Any], without: frozenset[str]) -> Any:
    names = [getattr(item, "name", None) for item in items if is_dataclass(item)]
    if items and len(names) == len(items) and all(names) and len(set(names)) == len(names):
        return {name: plain(item, without | {"name"}) for name, item in zip(names, items, strict=True)}
    return [plain(item, without) for item in items]


def _members(value: Any, without: frozenset[str]) -> dict[str, Any]:
    hidden = {"span", *without}
    if isinstance(value, View) and value.offsets == value.element.row_major:
        hidden.add("offsets")
    found = {f.name: plain(getattr(value, f.name), without) for f in fields(value) if f.name not in hidden}
    return {name: item for name, item in found.items() if not _empty(item)}


def _empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def element_text(element: ElementType) -> str:
    """`i8[1, 16]`, or `u32{dst: u11, src: u11}` for a record."""
    if element.record:
        inside = ", ".join(f"{f.name}: {f.type}" for f in element.record)
        return f"{element.scalar}{{{inside}}}"
    return f"{element.scalar}[{', '.join(map(str, element.dims))}]" if element.dims else str(element.scalar)


def _instruction(machine: Machine, instruction: Instruction, without: frozenset[str]) -> dict[str, Any]:
    found = _members(instruction, without | {"name"})
    return {**found, "unit": unparse(_routes(machine, instruction.unit))}


def _routes(machine: Machine, expr: Expr) -> Expr:
    """Routing with the units' names in place of their numbers."""
    match expr:
        case Const(value=number):
            return Name(machine.units[number].name)
        case Choose(condition=condition, then=then, other=other):
            return Choose(condition, _routes(machine, then), _routes(machine, other))
        case _:
            return expr


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a literal block, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
