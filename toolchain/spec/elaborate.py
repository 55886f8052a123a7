"""Puts parameters in place and builds the Machine, section by section."""

from collections.abc import Mapping

from toolchain.spec import encoding, storage, synchronisation
from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.model import (
    Constraint,
    Instruction,
    Machine,
    ProgramRules,
    Resource,
    Rule,
    Text,
    Timing,
    TimingClass,
    TimingConstant,
    Transfer,
)
from toolchain.spec.params import resolve_params
from toolchain.spec.types import parse_scalar
from toolchain.spec.yaml_nodes import Node


def elaborate(root: Node, config: str, overrides: Mapping[str, str]) -> Machine:
    context = resolve_params(root, config, overrides)
    target = root.value["target"]
    levels = storage.levels(context)
    types = storage.types(context)
    memories = storage.memories(context, types)
    views = storage.views(context, types, memories)
    units = storage.units(context)
    formats = encoding.formats(context)
    instructions = tuple(_instruction(context, name, node, formats, [u.name for u in units]) for name, node in _members(root, "instructions"))
    counters, rules, illegal = synchronisation.sync(context, units, instructions)
    return Machine(
        name=target.value["name"].value,
        config=context.config,
        summary=target.value["summary"].value,
        sources=tuple(n.value for n in target.value["sources"].value) if target.get("sources") else (),
        params=context.names,
        levels=levels,
        memories=memories,
        views=views,
        units=units,
        encoding=encoding.encoding(context, formats),
        instructions=instructions,
        functions=_text(root.value["functions"]) if root.get("functions") else None,
        counters=counters,
        sync=rules,
        illegal=illegal,
        rules=tuple(_rule(context, name, node) for name, node in _members(root, "numerics")),
        timing=_timing(context),
        layouts=(),
        program=_program(root),
        configs=tuple(name for name, _ in _members(root, "configs")),
        choices={(p, c): i for p, names in context.choices.items() for i, c in enumerate(names)},
    )


def _members(root: Node, section: str) -> list[tuple[str, Node]]:
    node = root.get(section)
    return list(node.items()) if node else []


def _text(node: Node) -> Text:
    return Text(node.value, node.span, node.indent)


def _string(node: Node, key: str, default: str = "") -> str:
    found = node.get(key)
    return str(found.value) if found else default


def _flag(node: Node, key: str) -> bool:
    found = node.get(key)
    return bool(found.value) if found else False


def _instruction(context: Context, name: str, node: Node, formats: Mapping[str, encoding.Format], units: list[str]) -> Instruction:
    wanted = node.value["format"]
    if wanted.value not in formats:
        raise fail("E0107", f"unknown format '{wanted.value}'", wanted.span, context.near(wanted.value, formats))
    layout = formats[wanted.value]
    where = node.get("where")
    return Instruction(
        name=name,
        bytes=layout.bits // 8,
        fields=layout.fields,
        match={key: context.number(value) for key, value in node.value["match"].items()},
        unit=context.expr(node.value["unit"], {u: i for i, u in enumerate(units)}),
        constraints=tuple(Constraint(context.expr(c.value["that"]), c.value["message"].value) for c in where.value) if where else (),
        semantics=_text(node.value["semantics"]),
        timing=node.value["timing"].value,
        in_place=_flag(node, "in_place"),
        doc=_string(node, "doc"),
        span=node.key_span,
    )


def _rule(context: Context, name: str, node: Node) -> Rule:
    kind = node.get("type")
    return Rule(
        name,
        rounding=_string(node, "rounding"),
        type=parse_scalar(kind.value, context.names, kind.locate) if kind else None,
        overflow=_string(node, "overflow"),
        low=context.number(low) if (low := node.get("low")) else None,
        high=context.number(high) if (high := node.get("high")) else None,
        source=_string(node, "source"),
        assumed=_flag(node, "assumed"),
        doc=_string(node, "doc"),
    )


def _timing(context: Context) -> Timing:
    node = context.root.value["timing"]
    constants = tuple(
        TimingConstant(name, context.number(n.value["value"]), _string(n, "source"), _flag(n, "assumed"), _string(n, "doc"))
        for name, n in (node.get("constants").items() if node.get("constants") else ())  # pyright: ignore
    )
    inner = context.with_names({c.name: c.value for c in constants})
    clock = node.value["clock_khz"]
    resources = tuple(
        Resource(
            name, context.number(n.value["bytes_per_cycle"]), _string(n, "policy", "fifo"), _string(n, "scope", "device"),
            source=_string(n, "source"), assumed=_flag(n, "assumed"), per=context.number(per) if (per := n.get("per")) else 1,
        )
        for name, n in (node.get("resources").items() if node.get("resources") else ())  # pyright: ignore
    )  # fmt: skip
    classes = tuple(_class(inner, name, n) for name, n in node.value["classes"].items())
    return Timing(context.number(clock.value["value"]), _string(clock, "source"), constants, resources, classes)


def _class(context: Context, name: str, node: Node) -> TimingClass:
    moves = node.get("transfers")
    return TimingClass(
        name,
        *(context.optional(node.get(key)) for key in ("cycles", "setup", "latency")),
        tuple(Transfer(resource, context.expr(n)) for resource, n in moves.items()) if moves else (),
        _string(node, "source"),
        _flag(node, "assumed"),
    )


def _program(root: Node) -> ProgramRules:
    node = root.value["program"]
    return ProgramRules(node.value["ends"].value, _flag(node, "last"), _string(node, "container", "raw"))
