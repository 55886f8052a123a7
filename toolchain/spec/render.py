"""The elaborated machine as plain data, as YAML and as differences from another one: every number concrete, expressions as text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, cast

import yaml

from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Member, Name, Unary
from toolchain.spec.model import ElementType, Instruction, Machine, Memory, ScalarType, Text, View
from toolchain.spec.typed_json import Tree

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_BINARY = {"|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "//": 11, "%": 11}
_CHOOSE, _OR, _AND, _NOT, _COMPARE, _UNARY, _ATOM = 1, 2, 3, 4, 5, 12, 14
Leaf = Callable[[Expr], str]
"""Text of a node that this module does not know; taken as it is, without brackets."""


def unparse(expr: Expr, leaf: Leaf | None = None) -> str:
    """The shortest bracketing that keeps the tree: `parse_expr(unparse(e)) == e` for every tree the parser can make."""
    return _text(expr, 0, leaf or _unknown)


def _unknown(expr: Expr) -> str:
    raise TypeError(f"no text for {type(expr).__name__}")


def _text(expr: Expr, least: int, leaf: Leaf) -> str:
    level, text = _piece(expr, leaf)
    return f"({text})" if level < least else text


def _piece(expr: Expr, leaf: Leaf) -> tuple[int, str]:
    """Binding strength and text; operands bind at least as strongly as their side needs."""

    def at(e: Expr, least: int) -> str:
        return _text(e, least, leaf)

    match expr:
        case Const(value=value):
            return (_ATOM, str(value)) if value >= 0 else (_UNARY, str(value))
        case Name(id=name):
            return _ATOM, name
        case Member(base=base, name=name):
            return _ATOM, f"{_base(base, leaf)}.{name}"
        case Index(base=base, index=index):
            return _ATOM, f"{_base(base, leaf)}[{', '.join(at(i, 1) for i in index)}]"
        case Unary(op="not", value=value):
            return _NOT, f"not {at(value, _NOT)}"
        case Unary(op=op, value=value):
            return _UNARY, f"{op}{at(value, _UNARY)}"
        case Binary(op=op, left=left, right=right):
            level = _BINARY[op]
            return level, f"{at(left, level)} {op} {at(right, level + 1)}"
        case Compare(op=op, left=left, right=right):
            return _COMPARE, f"{at(left, _COMPARE + 1)} {op} {at(right, _COMPARE + 1)}"
        case Logic(op=op, values=values):
            level = _AND if op == "and" else _OR
            return level, f" {op} ".join(at(v, level + 1) for v in values)
        case Choose(condition=condition, then=then, other=other):
            return _CHOOSE, f"{at(then, _CHOOSE + 1)} if {at(condition, _CHOOSE + 1)} else {at(other, _CHOOSE)}"
        case Call(function=function, args=args):
            return _ATOM, f"{_base(function, leaf)}({', '.join(at(a, 1) for a in args)})"
        case _:
            return _ATOM, leaf(expr)


def _base(expr: Expr, leaf: Leaf) -> str:
    """The operand before a dot or bracket; a number needs its own brackets there."""
    text = _text(expr, _ATOM, leaf)
    return f"({text})" if isinstance(expr, Const) else text


NOTES = frozenset({"doc", "source", "clock_source", "peak_source", "assumed", "known", "stated"})
"""Keys that explain and never change a result."""


def render(machine: Machine, without: frozenset[str] = frozenset()) -> dict[str, Tree]:
    """Sections in the order of a machine file; keys named in `without`, and empty ones, are left out."""
    sections: dict[str, object] = {
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
        "costs": machine.costs,
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


def to_yaml(data: Tree) -> str:
    """Plain data as YAML: short leaves in one line, blocks of text as blocks."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True)


def plain(value: object, without: frozenset[str] = frozenset()) -> Tree:
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
            items = cast(Mapping[str, object], value)
            return {key: plain(item, without) for key, item in items.items() if key not in without}
        case tuple() | list():
            return _sequence(list(cast(Sequence[object], value)), without)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _members(value, without)
        case _:
            return cast(Tree, value)


def _sequence(items: list[object], without: frozenset[str]) -> Tree:
    names: list[str] = [getattr(item, "name", "") for item in items if is_dataclass(item)]
    if items and len(names) == len(items) and all(names) and len(set(names)) == len(names):
        return {name: plain(item, without | {"name"}) for name, item in zip(names, items, strict=True)}
    return [plain(item, without) for item in items]


def _members(value: "DataclassInstance", without: frozenset[str]) -> dict[str, Tree]:
    hidden = {"span", *without}
    if isinstance(value, View) and value.offsets == value.element.row_major:
        hidden.add("offsets")
    found = {f.name: plain(getattr(value, f.name), without) for f in fields(value) if f.name not in hidden}
    if isinstance(value, Memory) and len(value.latches) == 1:
        found["latches"] = value.latches[0]  # as files spell it
    return {name: item for name, item in found.items() if not _empty(item)}


def _empty(value: object) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def element_text(element: ElementType) -> str:
    """`i8[1, 16]`, or `u32{dst: u11, src: u11}` for a record."""
    if element.record:
        inside = ", ".join(f"{f.name}: {f.type}" for f in element.record)
        return f"{element.scalar}{{{inside}}}"
    return f"{element.scalar}[{', '.join(map(str, element.dims))}]" if element.dims else str(element.scalar)


def _instruction(machine: Machine, instruction: Instruction, without: frozenset[str]) -> dict[str, Tree]:
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

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _yaml_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _yaml_text)


NOTHING = "(nothing)"


def values_by_path(machine: Machine, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Every concrete value by its path, `memories.acc.depth`, in the order of the sections; long texts by line. without: keys to leave out."""
    return dict(_leaves(render(machine, without), ""))


def diff(one: Machine, other: Machine) -> tuple[str, ...]:
    """Lines `path: a -> b` for every concrete value that differs."""
    left, right = values_by_path(one), values_by_path(other)
    paths = dict.fromkeys([*left, *right])
    changed = (path for path in paths if left.get(path) != right.get(path))
    return tuple(f"{path}: {left.get(path, NOTHING)} -> {right.get(path, NOTHING)}" for path in changed)


def _leaves(value: Tree, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            yield path, f"[{', '.join(map(str, value))}]"
        else:
            for number, item in enumerate(value):
                yield from _leaves(item, f"{path}[{number}]")
    elif isinstance(value, str) and "\n" in value:
        yield from ((f"{path}:{number}", line) for number, line in enumerate(value.splitlines(), 1))
    else:
        yield path, str(value)
