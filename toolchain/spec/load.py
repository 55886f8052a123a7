"""From a machine file to a frozen Machine: YAML -> JSON Schema -> parameters (defaults, a configuration, overrides) -> sections -> checks."""

import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from toolchain.spec.context import Context
from toolchain.spec.errors import Source, Span, UserError, fail, nearest
from toolchain.spec.evaluate import FUNCTIONS, constant
from toolchain.spec.expr import parse_expr
from toolchain.spec.files import check_single, is_file, list_files, read_limited, search_path
from toolchain.spec.machine_checks import check
from toolchain.spec.model import Encoding, Machine, Parameter, ProgramRules, Timing
from toolchain.spec.schema import validate
from toolchain.spec.sections import conventions, layouts, storage, synchronisation
from toolchain.spec.sections import instructions as coded
from toolchain.spec.sections.conventions import costs, quantisation, timing
from toolchain.spec.sections.instructions import block, instructions, portable
from toolchain.spec.sections.synchronisation import idle, interlock
from toolchain.spec.yaml_nodes import MAX_BYTES, Findings, Node, parse_yaml


@dataclass(frozen=True)
class _Given:
    """A parameter's value as text, wherever it was written."""

    text: str
    span: Span
    node: Node | None = None

    def locate(self, line: int, column: int) -> Span:
        if self.node:
            return self.node.locate(line, column)
        return Span(self.span.source, line, self.span.column + column)


def resolve_params(root: Node, config: str, overrides: Mapping[str, str]) -> Context:
    """Values of all parameters and derived names.

    Raises UserError E0104 for an unknown configuration or parameter, E0105 out of range, E0106 for a failed check,
    E0145 for a name that means something else already.
    """
    params = dict(root.members("params"))
    _check_names([*root.members("params"), *root.members("derive")])
    choices = {name: tuple(str(c.value) for c in node.entries("choices")) for name, node in params.items() if node.get("choices")}
    given = {**_configured(root, config, params), **_overrides(overrides, params)}
    names: dict[str, int] = {}
    context = Context(root, config, names, choices)
    findings = Findings()
    for name, node in params.items():
        value = given.get(name) or _given(node.value["value"])
        names[name] = findings.attempt(0, lambda name=name, node=node, value=value: _value(context, name, node, value))
    findings.settle()
    for name, node in root.members("derive"):
        names[name] = context.number(node)
    for wanted in root.entries("checks"):
        if not context.number(wanted.value["that"]):
            raise fail("E0106", wanted.text("message"), wanted.value["that"].span)
    return context


def parameter_notes(root: Node, context: Context) -> dict[str, Parameter]:
    """By the name of each parameter, its range or choices, and its description."""
    found: dict[str, Parameter] = {}
    for name, node in root.members("params"):
        low, *high = (context.number(each) for each in node.entries("range")) if node.get("range") else (0,)
        found[name] = Parameter(node.text("doc"), (low, high[0]) if high else None, context.choices.get(name, ()), node.key_span)
    return found


def assumed_params(root: Node) -> dict[str, str]:
    """By the name of each parameter that is marked so, why its value is assumed to be right."""
    marked = {name: node.get("assumed") for name, node in root.members("params")}
    return {
        name: "; ".join(str(each.value) for each in mark.children()) if isinstance(mark.value, list) else str(mark.value)
        for name, mark in marked.items()
        if mark
    }


def _check_names(members: Iterable[tuple[str, Node]]) -> None:
    seen: set[str] = set()
    for name, node in members:
        if name in seen or name in FUNCTIONS or keyword.iskeyword(name):
            raise fail("E0145", f"the name '{name}' is taken", node.where(), "parameters and derived names share one set of names")
        seen.add(name)


def _given(node: Node) -> _Given:
    return _Given(str(node.value), node.span, node)


def _configured(root: Node, config: str, params: Mapping[str, Node]) -> dict[str, _Given]:
    """The values of one named configuration; the names in all others are checked too."""
    known = dict(root.members("configs"))
    for item in known.values():
        for name, node in item.items() if item.value else ():
            if name not in params:
                raise fail("E0104", f"unknown parameter '{name}'", node.key_span, nearest(name, params))
    if not config:
        return {}
    if config not in known:
        raise fail("E0104", f"unknown configuration '{config}'", hint=nearest(config, known) or f"known: {', '.join(known) or 'none'}")
    return {name: _given(node) for name, node in (known[config].items() if known[config].value else ())}


def _overrides(overrides: Mapping[str, str], params: Mapping[str, Node]) -> dict[str, _Given]:
    for name in overrides:
        if name not in params:
            raise fail("E0104", f"unknown parameter '{name}'", hint=nearest(name, params) or f"known: {', '.join(params) or 'none'}")
    return {name: _Given(text, Span(Source("parameters", f"{name}={text}"), 1, len(name) + 2)) for name, text in overrides.items()}


def _value(context: Context, name: str, node: Node, given: _Given) -> int:
    choices = context.choices.get(name)
    if choices:
        if given.text not in choices:
            raise fail("E0105", f"{name} is one of {', '.join(choices)}, not '{given.text}'", given.span, nearest(given.text, choices))
        return choices.index(given.text)
    value = constant(parse_expr(given.text, given.locate), context.names, context.choices)
    low, high = (context.number(n) for n in node.entries("range"))
    if not low <= value <= high:
        raise fail("E0105", f"{name} = {value} is outside {low}..{high}", given.span)
    return value


def assumptions(root: Node) -> tuple[str, ...]:
    """`timing.constants.SETUP = 32: one round trip`; the file's own list first."""
    return (*(str(n.value) for n in root.entries("assumptions")), *_below(root))


def _below(node: Node) -> Iterator[str]:
    mark = node.get("assumed")
    if mark is not None and not isinstance(mark.value, dict):
        yield from _sentences(node, mark)
    for entry in node.children():
        yield from _below(entry)


def _sentences(node: Node, mark: Node) -> Iterator[str]:
    place = ".".join(map(str, node.path))
    value = node.get("value")
    subject = f"{place} = {value.value}" if value else place
    if isinstance(mark.value, list):
        yield from (f"{place}: {note.value}" for note in mark.children())
    elif isinstance(mark.value, str):
        yield f"{subject}: {mark.value}"
    elif mark.value:
        reason = node.text("source") or node.text("doc")
        yield f"{subject}: {reason}" if reason else subject


NO_ENCODING = Encoding(1, 1, 1)
NO_PROGRAM = ProgramRules("", False, "raw")
NO_TIMING = Timing(0, "", (), (), ())


def elaborate(root: Node, config: str, overrides: Mapping[str, str]) -> Machine:
    """The machine of a validated file. Raises UserError with the diagnostics of every section that could be read."""
    context = resolve_params(root, config, overrides)
    findings = Findings()
    attempt = findings.attempt
    levels = attempt((), lambda: storage.levels(context))
    types = attempt({}, lambda: storage.types(context))
    formats = attempt({}, lambda: coded.formats(context) if root.get("encoding") else {})
    units = attempt((), lambda: storage.units(context))
    rules = attempt((), lambda: conventions.rules(context))
    clock = attempt(NO_TIMING, lambda: timing(context))
    stored = attempt((), lambda: layouts.layouts(context))
    host = attempt(None, lambda: conventions.host(context))
    numerics = attempt(None, lambda: quantisation(context))
    offloaded = attempt({}, lambda: conventions.operators(context))
    stated = attempt(None, lambda: costs(context))
    functions = attempt(None, lambda: block(root.value["functions"]) if root.get("functions") else None)
    findings.settle()
    memories = attempt((), lambda: storage.memories(context, types))
    findings.settle()
    looks = attempt((), lambda: storage.views(context, types, memories))
    packing = attempt(NO_ENCODING, lambda: coded.encoding(context, formats) if root.get("encoding") else NO_ENCODING)
    known = attempt((), lambda: instructions(context, formats, [u.name for u in units]))
    findings.settle()
    ending = attempt(NO_PROGRAM, lambda: conventions.program(root, levels) if root.get("program") else NO_PROGRAM)
    warnings = attempt((), lambda: portable(context, [i.name for i in known]))
    counters, sync, illegal = attempt(((), (), ()), lambda: synchronisation.sync(context, units, known))
    nops = attempt((), lambda: idle(context, units, known))
    locked = attempt(None, lambda: interlock(context, memories, units, known))
    findings.settle()
    target = root.value["target"]
    machine = Machine(
        name=target.text("name"), config=context.config, summary=target.text("summary"), sources=tuple(n.value for n in target.entries("sources")),
        models=tuple(n.value for n in target.entries("models")), params=context.names, levels=levels, memories=memories, views=looks, units=units,
        encoding=packing, instructions=known, functions=functions, counters=counters, sync=sync, illegal=illegal, rules=rules, timing=clock,
        layouts=stored, program=ending, portable=warnings, host=host, interlock=locked, nops=nops, quantisation=numerics, operators=offloaded,
        costs=stated,
    )  # fmt: skip
    check(found := _with_conventions(machine, context), root)
    return found


def _with_conventions(machine: Machine, context: Context) -> Machine:
    """The machine with its sections for the compiler, and the words of its file about parameters and assumptions."""
    root = context.root
    return replace(
        machine, assumptions=assumptions(root), choices={(p, c): i for p, names in context.choices.items() for i, c in enumerate(names)},
        configs=tuple(dict(root.members("configs"))), settable=tuple(dict(root.members("params"))),
        parameters=parameter_notes(root, context), assumed_params=assumed_params(root),
        fusion=conventions.outline(root, "fusion"), pipeline=conventions.outline(root, "pipeline"), path=root.span.source.path,
        codegen=root.text("codegen", "binary"), tool=conventions.tool(root), limits=conventions.limits(context),
        half=conventions.half(context), tolerance=conventions.tolerance(context),
    )  # fmt: skip


def companion(path: Path, name: str, file: str) -> Path | None:
    """A file in the folder of machine `name`, which stands beside the machine's own file at `path` or on the search path."""
    folders = [path.parent, *search_path("targets")]
    return next((found for found in (folder / name / file for folder in folders) if is_file(found)), None)


def list_targets() -> dict[str, Path]:
    """Every machine by name; the first folder on the search path wins."""
    return list_files("targets")


def find_target(name: str) -> Path:
    """The file of a machine, given by name or by path. Raises UserError E0001, and E0006 for a name of two packages."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        if is_file(path):
            return path
        raise fail("E0001", f"there is no machine file '{name}'")
    known = list_targets()
    if name in known:
        check_single("targets", name)
        return known[name]
    raise fail("E0001", f"unknown target '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")


def load_machine(name: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """Loads `name` (or `name:config`). Raises UserError with every diagnostic that was found."""
    base, _, named = name.partition(":")
    return load_file(find_target(base), config or named, overrides)


def load_file(path: Path, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """Loads one file. Raises all of `read_text` and of `load_text`."""
    return load_text(read_text(path), str(path), config, overrides)


def read_text(path: Path) -> str:
    """The text of a machine file. Raises UserError E0001 (cannot be read), E0330 (too large)."""
    data = read_limited(path, MAX_BYTES, "the machine file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the machine file is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None


def load_text(text: str, path: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """The machine that `text` describes; `path` stands in messages. Raises UserError with every diagnostic that was found.

    The same arguments give the same object, with which all results about a machine are kept.
    """
    return _elaborated(text, path, config, tuple((overrides or {}).items()))


@lru_cache(maxsize=128)
def _elaborated(text: str, path: str, config: str, overrides: tuple[tuple[str, str], ...]) -> Machine:
    root = parse_yaml(Source(path, text))
    validate(root)
    return elaborate(root, config, dict(overrides))


__all__ = ["UserError", "companion", "find_target", "list_targets", "load_file", "load_machine", "load_text", "search_path"]
