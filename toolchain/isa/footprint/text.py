"""Footprints in words: ranges of a memory, the comment of an instruction, and the fault of an address."""

from toolchain.isa.footprint.footprints import ALIGN, BANK, BUDGET, INSTANCE, Faults, Footprints, granules
from toolchain.isa.footprint.loop_nest import Nest, machine_nests
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.walk import Guard, free_vars
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels
from toolchain.spec import expr as ex
from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine, Memory

SHOWN_RUNS = 4
SHOWN_FIELDS = 8


def range_text(machine: Machine, number: int, start: int, stop: int, alike: bool = False) -> str:
    """Granules [start, stop) of a memory, in its elements: `fm[3, 10..24]`, with the place where there are several instances."""
    memory = machine.memories[number]
    instance, first = divmod(start, granules(memory))
    last_instance, last = divmod(stop - 1, granules(memory))
    size, unit = memory.granule, memory.element.bytes
    a, b = _address(memory, first * size // unit), _address(memory, ((last + 1) * size - 1) // unit)
    if instance != last_instance or a[0] != b[0]:
        text = f"{_element(memory, *a)} to {_element(memory, *b)}"
    else:
        bank = f"{a[0]}, " if memory.banks > 1 else ""
        text = f"{memory.name}[{bank}{_number(memory, a[1])}]" if a == b else f"{memory.name}[{bank}{_number(memory, a[1])}..{_number(memory, b[1])}]"
    if alike or machine.instances(memory.scope) == 1:
        return text
    return f"{text} of {place_text(machine, memory.scope, instance)}"


def place_text(machine: Machine, scope: str, instance: int) -> str:
    """`cluster 1 core 3`"""
    words: list[str] = []
    for level in reversed(scope_levels(machine, scope)):
        instance, index = divmod(instance, level.count)
        words.insert(0, f"{level.name} {index}")
    return " ".join(words)


def _address(memory: Memory, element: int) -> tuple[int, int]:
    bank = 0
    while bank + 1 < memory.banks and element >= memory.depths[bank]:
        element -= memory.depths[bank]
        bank += 1
    return bank, element


def _element(memory: Memory, bank: int, address: int) -> str:
    return f"{memory.name}[{f'{bank}, ' if memory.banks > 1 else ''}{_number(memory, address)}]"


def _number(memory: Memory, address: int) -> str:
    return f"{address:#x}" if memory.kind == "dram" else str(address)


def controlled(machine: Machine) -> frozenset[tuple[str, str, bool]]:
    """(instruction, memory, write) of every access whose address depends on the contents of a control memory."""
    return frozenset(
        (name, nest.access.view.memory, nest.occurrence.kind == "write")
        for name, nests in machine_nests(machine).items()
        for nest in nests
        if nest.occurrence.kind in ("read", "write") and any(isinstance(e, ir.ControlRead) for part in _parts(nest) for e in ex.walk(part))
    )


def comment(prints: Footprints, index: int, unknown: frozenset[tuple[str, str, bool]] = frozenset()) -> str:
    """The reads and writes of an instruction, for a listing: `reads dram[0x0..0xff]; writes inp[0..15]`.

    unknown: accesses, as `controlled` gives them, of which only the memory is named, because control memories are not known.
    """
    machine, runs = prints.program.machine, prints.runs
    name = machine.instructions[int(prints.program.kind[index])].name
    texts: list[str] = []
    for write, verb in ((False, "reads"), (True, "writes")):
        mine = [r for r in range(int(prints.first[index]), int(prints.first[index + 1])) if bool(runs.write[r]) == write]
        hidden = dict.fromkeys(memory for r in mine if (name, memory := machine.memories[int(runs.memory[r])].name, write) in unknown)
        mine = [r for r in mine if machine.memories[int(runs.memory[r])].name not in hidden]
        shown = [
            range_text(
                machine, int(runs.memory[r]), int(runs.start[r]), int(runs.stop[r]), machine.memories[int(runs.memory[r])].name in prints.alike
            )
            for r in mine[:SHOWN_RUNS]
        ]
        if len(mine) > SHOWN_RUNS:
            shown.append(f"{len(mine) - SHOWN_RUNS} more ranges")
        shown += [f"{memory}[...]" for memory in hidden]
        if shown:
            texts.append(f"{verb} {', '.join(shown)}")
    return "; ".join(texts)


def fault_diagnostic(provenance: Provenance, faults: Faults, row: int) -> Diagnostic:
    """E0603, E0604, E0605 or E0611 for one address that fails, naming the instruction, the memory and the fields behind it."""
    program, index, kind = provenance.program, int(faults.instruction[row]), int(faults.kind[row])
    machine, low, high = program.machine, int(faults.low[row]), int(faults.high[row])
    nest = _nest(machine, int(program.kind[index]), int(faults.access[row]))
    view, memory = nest.access.view, machine.memory[nest.access.view.memory]
    verb = {"read": "reads", "write": "writes"}[nest.occurrence.kind]
    span = f"{low}..{high}" if low != high else f"{low}"
    unit = view.unit or memory.element.bytes
    if kind == BANK:
        code, message = "E0604", f"{verb} bank {span} of '{memory.name}', which has {memory.banks} banks"
    elif kind == INSTANCE:
        code, message = "E0604", f"{verb} '{memory.name}' of {nest.occurrence.at[0][0]} {span}, which does not exist"
    elif kind == ALIGN:
        code, message = "E0605", f"{verb} {view.name}[{span}], byte {low * unit:#x}, which is not on a granule of {memory.granule} bytes"
    elif kind == BUDGET:
        code, message = "E0611", f"{verb} '{view.name}' {low} times, more than the checks follow"
    else:
        depth = min(memory.depths) * memory.element.bytes
        code, message = "E0603", f"{verb} {view.name}[{span}]; '{view.name}' goes from 0 to {(depth - view.element.bytes) // unit}"
    return Diagnostic(code, f"{program.label(index)} {message}", hint=_fields_text(provenance, nest, index))


def _nest(machine: Machine, kind: int, access: int) -> Nest:
    nests = machine_nests(machine)[machine.instructions[kind].name]
    return next(
        n for n in nests if isinstance(n.occurrence.target, ir.Access) and n.access.number == access and n.occurrence.kind in ("read", "write")
    )


def _fields_text(provenance: Provenance, nest: Nest, index: int) -> str:
    """`bank_id=3, bank_addr=8190`: the fields and latched values that the address and its loops use, those that are 0 left out."""
    leaves = dict.fromkeys(
        leaf for part in _parts(nest) for leaf in ex.walk(part) if isinstance(leaf, ir.FieldRef | ir.RegisterRead) and not free_vars(leaf)
    )
    kind, row = int(provenance.program.kind[index]), provenance.program.row[[index]]
    frame = provenance.rows(kind).frame(row)
    texts = [f"{_leaf_text(leaf)}={int(value)}" for leaf in leaves if (value := frame.evaluate(leaf)[0])]
    return ", ".join(texts[:SHOWN_FIELDS])


def _parts(nest: Nest) -> list[Expr]:
    """The address and the bounds of the loops."""
    parts: list[Expr] = [*nest.occurrence.index, *(e for _, e in nest.occurrence.at)]
    for item in nest.path:
        parts += [] if isinstance(item, Guard) else [item.start, item.stop]
    return parts


def _leaf_text(leaf: Expr) -> str:
    if isinstance(leaf, ir.RegisterRead):
        return f"{leaf.register}.{leaf.field_name}" if leaf.field_name else leaf.register
    return leaf.name if isinstance(leaf, ir.FieldRef) else ""
