"""The instruction set manual of a machine in Markdown, and the descriptions of operations; formats are drawn as boxes of bits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from toolchain.isa.assembly import Example
from toolchain.operations.kind import OperationKind, Stage
from toolchain.operations.library import Kinds
from toolchain.operations.ways import reachable
from toolchain.spec.expr import Const, Expr
from toolchain.spec.model import ElementType, Field, Instruction, Machine, Memory, Ports, Rule, Transfer
from toolchain.spec.render import parameters, unparse


def bit_diagram(fields: Sequence[Field], total_bits: int, word_bits: int) -> str:
    """One box row per word of `word_bits` bits, with bit numbers inside the word above each cell; holes show as `-`."""
    rows = [_word(fields, word, min(word_bits, total_bits - word * word_bits), word_bits) for word in range(-(-total_bits // word_bits))]
    return "\n".join(rows)


def _word(fields: Sequence[Field], word: int, bits: int, word_bits: int) -> str:
    cells = bit_cells(fields, word * word_bits, bits)
    widths = [max(len(name) + 2, len(_numbers(high, low, 0)) + 2) for name, high, low in cells]
    numbers = " " + " ".join(_numbers(high, low, w) for (_, high, low), w in zip(cells, widths, strict=True))
    rule = "+" + "+".join("-" * w for w in widths) + "+"
    names = "|" + "|".join(name.center(w) for (name, _, _), w in zip(cells, widths, strict=True)) + "|"
    return "\n".join([f"word {word}", numbers.rstrip(), rule, names, rule])


def _numbers(high: int, low: int, width: int) -> str:
    if high == low:
        return str(high).center(width)
    return f"{high}{' ' * max(1, width - len(str(high)) - len(str(low)))}{low}"


def bit_cells(fields: Sequence[Field], start: int, bits: int) -> list[tuple[str, int, int]]:
    """(name, high bit, low bit) inside the word, from the most significant down, holes included."""
    inside = sorted((f for f in fields if start <= f.lsb < start + bits), key=lambda f: -f.lsb)
    cells: list[tuple[str, int, int]] = []
    top = bits - 1
    for field in inside:
        high, low = min(field.lsb + field.bits - start, bits) - 1, field.lsb - start
        if high < top:
            cells.append(("-", top, high + 1))
        cells.append((field.name, high, low))
        top = low - 1
    if top >= 0:
        cells.append(("-", top, 0))
    return cells


TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
NONE: Mapping[str, Example] = MappingProxyType({})


def manual_markdown(machine: Machine, examples: Mapping[str, Example] = NONE) -> str:
    """The manual as Markdown, ending in one line feed. examples: by name of an instruction, from a program."""
    template = _environment(machine).get_template("manual.md.j2")
    own = {m.name for m in machine.memories}
    views = [v for v in machine.views if v.name not in own]
    return template.render(m=machine, parameters=parameters(machine), declared_views=views, examples=examples).rstrip("\n") + "\n"


def _environment(machine: Machine) -> Environment:
    # Markdown, not HTML: what looks like markup in a machine's own text is escaped by the Markdown renderer.
    environment = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    filters: dict[str, Callable[..., str]] = {
        "cell": _cell,
        "code": _code,
        "depths": _depths,
        "diagram": partial(bit_diagram, word_bits=machine.encoding.unit_bytes * 8),
        "element": _element,
        "field_notes": _field_notes,
        "match": _match,
        "meaning": _meaning,
        "notes": _notes,
        "size": partial(_size, machine),
        "transfers": _transfers,
        "type": _type,
        "unit": partial(_unit, machine),
    }
    environment.filters.update(filters)
    return environment


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(expr: Expr) -> str:
    return f"`{_cell(unparse(expr))}`"


def _depths(memory: Memory) -> str:
    runs: list[list[int]] = []
    for depth in memory.depths:
        if runs and runs[-1][1] == depth:
            runs[-1][0] += 1
        else:
            runs.append([1, depth])
    return str(runs[0][1]) if len(runs) == 1 else ", ".join(f"{n} x {depth}" for n, depth in runs)


def _type(element: ElementType) -> str:
    if element.record:
        return "{" + ", ".join(f"{f.name}: {f.type}" for f in element.record) + "}"
    dims = f"[{', '.join(map(str, element.dims))}]" if element.dims else ""
    return f"{element.scalar}{dims}"


def _element(memory: Memory) -> str:
    return f"fields of {' and '.join(memory.latches)}" if memory.latches else _type(memory.element)


def _size(machine: Machine, memory: Memory) -> str:
    return str(len(machine.latched(memory)) * memory.depths[0]) + " fields" if memory.latches else str(memory.bytes)


def _notes(memory: Memory) -> str:
    notes = [
        memory.doc,
        "addresses wrap" if memory.kind == "ring" else "",
        "read by the address phase" if memory.control else "",
        "set by the host" if memory.host else "",
        "a latched value serves one reader" if memory.consumed else "",
        f"results that do not fit {memory.overflow}" if memory.overflow in ("wrap", "saturate") else "",
        "hazards are warnings" if memory.hazard == "warning" else "",
        "lost after a program" if memory.transient else "",
        _ports(memory.ports) if memory.ports else "",
    ]
    return _cell("; ".join(note for note in notes if note))


def _ports(ports: Ports) -> str:
    some = [f"{count} {kind}" for kind, count in (("to read", ports.read), ("to write", ports.write), ("for either", ports.either)) if count]
    return f"ports of each bank: {', '.join(some)}{'; first ' + ', '.join(ports.priority) if ports.priority else ''}"


def _meaning(rule: Rule) -> str:
    if rule.rounding:
        return f"shift right, rounding {rule.rounding.replace('_', ' ')}"
    assert rule.type
    if rule.overflow == "saturate":
        low = rule.type.low if rule.low is None else rule.low
        high = rule.type.high if rule.high is None else rule.high
        return f"saturate to {low}..{high} as {rule.type}"
    return f"{rule.overflow} to {rule.type}"


def _match(instruction: Instruction) -> str:
    named = [f"`{name} = {value}`" for name, value in instruction.match.items()]
    return ", ".join([*named, *(f"any other `{name}`" for name in instruction.others)])


def _field_notes(field: Field) -> str:
    names = ", ".join(f"{name} = {value}" for name, value in field.names.items())
    notes = [
        field.doc,
        names,
        f"stored minus {field.minus}" if field.minus else "",
        "signed" if field.signed else "",
        f"default {field.default}" if field.default is not None else "",
        "**assumed**" if field.assumed else "",
    ]
    return _cell("; ".join(note for note in notes if note))


def _transfers(transfers: Sequence[Transfer]) -> str:
    return ", ".join(f"{t.resource}: {_code(t.bytes)}" for t in transfers)


def _unit(machine: Machine, unit: Expr) -> str:
    if isinstance(unit, Const):
        return f"unit `{machine.units[unit.value].name}`"
    return f"the unit numbered {_code(unit)}, of {', '.join(f'{i} = {u.name}' for i, u in enumerate(machine.units))}"


FORMS = {
    "move": "moves elements; operands and result share a scale",
    "select": "chooses among elements; operands and result share a scale",
    "average": "a mean: a sum by a fraction, requantised",
    "aligned": "a sum of operands, each by a multiplier of its own so that their scales meet, requantised",
    "weighted": "products with known weights, requantised",
    "computed": "products of computed tensors, requantised",
    "table": "a table of 256 stored values",
    "own": "whole numbers of the machine's own arithmetic, requantised",
    "real": "computed in floating point",
    "opaque": "no index expression says it",
}
"""How stored integers take part."""


def operation_lines(kind: OperationKind, kinds: Kinds) -> Iterator[str]:
    """The whole description."""
    yield f"{kind.name}: {kind.doc}"
    yield ""
    for each in (*kind.operands, kind.result):
        axes = ", ".join(f"{index}: {extent}" for index, extent in each.axes.items())
        yield f"  {each.name:8} [{axes}]  {each.role}"
    yield f"  {'':8} {_formula(kind)}"
    yield ""
    yield f"form      {FORMS[kind.form]}"
    if kind.arithmetic:
        yield from (f"  {name:8} {unparse(expr)}, to the nearest" for name, expr in kind.arithmetic.constants.items())
        yield from (f"  {line}" for line in _stages(kind.arithmetic.stages))
        yield f"  step     {unparse(kind.arithmetic.step)}"
    yield f"parallel  {', '.join(kind.result.axes)}"
    yield f"reduced   {', '.join(kind.meaning.over) or 'no axis'}"
    yield f"in place  {', '.join(kind.in_place) or 'over no operand'}"
    yield f"pads      {'zeros before it can become its own padding' if kind.pads and kind.meaning.outside == 'zero' else 'none of its own'}"
    yield f"ways      {', '.join(sorted(reachable(kind, kinds) - {kind.name})) or 'none but itself'}"
    yield f"numbers   {', '.join(kind.numbers)}"
    yield f"arrays    {', '.join(kind.arrays) or 'none'}"


def _formula(kind: OperationKind) -> str:
    meaning = kind.meaning
    if meaning.join:
        return f"y = the tensors of {meaning.join} side by side"
    if meaning.stages:
        return "; ".join(_stages(meaning.stages))
    if meaning.of is None:
        return "y = what no index expression says"
    outside = f", {'zero' if meaning.outside == 'zero' else 'less than all'} outside" if meaning.outside else ""
    start = f" + {kind.bias}[{', '.join(kind.operand[kind.bias].axes)}]" if kind.bias else ""
    return f"y[{', '.join(kind.result.axes)}] = {_reduced(meaning.reduction, meaning.over, meaning.of)}{start}{outside}"


def _stages(stages: Sequence[Stage]) -> list[str]:
    return [f"{each.name}[{', '.join(each.axes)}] = {_reduced(each.reduction, each.over, each.of)}" for each in stages]


def _reduced(reduction: str, over: Mapping[str, str], of: Expr) -> str:
    return f"{reduction} over {', '.join(over)} of {unparse(of)}" if reduction else unparse(of)


def operation_list(kinds: Kinds, made: frozenset[str] | None) -> Iterator[str]:
    """One line an operation. made: those that a machine has kernels for, None without a machine."""
    width = max(map(len, kinds))
    for kind in kinds.values():
        where = "" if made is None else f"{_where(kind, kinds, made):22} "
        yield f"{kind.name:{width}}  {where}{kind.doc.split('. ')[0].rstrip('.')}"


def _where(kind: OperationKind, kinds: Kinds, made: frozenset[str]) -> str:
    if kind.name in made:
        return "kernel"
    others = sorted(reachable(kind, kinds) & made) or _instead(kind, kinds, made)
    return f"as {others[0]}" if others else "in place" if kind.placed or kind.viewed else "in its neighbour" if kind.absorbed else "host"


def _instead(kind: OperationKind, kinds: Kinds, made: frozenset[str]) -> list[str]:
    """Explain an operation that no model holds by itself, such as `depthwise`: its callers and their other ways."""
    if kind.binds:
        return []
    return sorted({name for other in kinds.values() if kind.name in (ways := reachable(other, kinds)) for name in ways & made})
