"""The full check of a machine: faults in the file (toolchain/spec), those that only the semantics show, as a unit without a port, and parts
without a description."""

import itertools
from collections.abc import Iterator, Mapping

from toolchain.isa.footprint.loop_nest import missing_steps
from toolchain.isa.footprint.walk import Guard, Occurrence, occurrences
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics, read_semantics
from toolchain.isa.semantics.ranges import analyse
from toolchain.isa.semantics.traverse import partial
from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.expr import Name, walk
from toolchain.spec.load import load_machine
from toolchain.spec.model import Instruction, Machine, Unit
from toolchain.spec.yaml_nodes import Findings, gather

_VERBS = {"read": ("reads", "read"), "write": ("writes", "write"), "fill": ("writes", "write")}


def missing_ports(machine: Machine, semantics: ir.Semantics) -> Iterator[Diagnostic]:
    """E0140 for each memory that the instruction may touch on a unit without a port to it.

    An access counts on a unit unless the fields that choose the unit rule out the branch it stands in.
    """
    instruction = machine.instruction[semantics.instruction]
    others = [u for u in machine.units if u.name in instruction.occupies]
    touched = [o for o in occurrences(machine, semantics) if o.kind in _VERBS and isinstance(o.target, ir.Access)]
    told: set[tuple[str, str, str]] = set()
    for given in _choices(instruction):
        unit = machine.units[partial(instruction.unit, given) or 0]
        for o in touched:
            assert isinstance(o.target, ir.Access)
            memory, (verb, port) = o.target.view.memory, _VERBS[o.kind]
            if _reached(o, given) and not any(_has_port(u, memory, port) for u in (unit, *others)) and (unit.name, memory, verb) not in told:
                told.add((unit.name, memory, verb))
                text = f"{instruction.name} {verb} '{memory}', but unit '{unit.name}' has no {port} port to it"
                yield Diagnostic("E0140", text, o.target.span, f"add it to the unit's {verb}")


def _has_port(unit: Unit, memory: str, port: str) -> bool:
    return memory in (unit.reads if port == "read" else unit.writes)


def _choices(instruction: Instruction) -> Iterator[Mapping[str, int]]:
    """Values of the fields that choose the unit, those left out that a constraint forbids."""
    named = {e.id for e in walk(instruction.unit) if isinstance(e, Name)}
    used = [f for f in instruction.fields if f.name in named]
    for values in itertools.product(*(range(f.low, f.high + 1) for f in used)):
        given = {f.name: value for f, value in zip(used, values, strict=True)}
        if all(partial(rule.that, given) != 0 for rule in instruction.constraints):
            yield given


def _reached(occurrence: Occurrence, given: Mapping[str, int]) -> bool:
    return all(partial(step.condition, given) != 0 for step in occurrence.path if isinstance(step, Guard))


def check_machine(machine: Machine) -> None:
    """Raises UserError with everything found: E02xx where semantics cannot be read or may pass a range, E0140 for ports."""
    try:
        semantics = machine_semantics(machine)
    except UserError:
        gather(lambda instruction: _read(machine, instruction), machine.instructions)
        raise
    findings = Findings()
    for one in semantics.values():
        findings.note(missing_ports(machine, one))
    findings.note(missing_steps(machine))
    findings.settle()


def _read(machine: Machine, instruction: Instruction) -> None:
    analyse(machine, read_semantics(machine, instruction))


def load_checked_machine(name: str, config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    """Loads NAME, NAME:CONFIG or a path and checks all of it. Raises UserError with every diagnostic that was found."""
    machine = load_machine(name, config, overrides)
    check_machine(machine)
    return machine


def require_descriptions(machine: Machine) -> None:
    """Raises UserError E0147 with a diagnostic for each part that has none; a field that instructions share has one."""
    if missing := [Diagnostic("E0147", f"{subject} has no description", span, "add 'doc:'") for subject, span in _undescribed(machine)]:
        raise UserError(*sorted(missing, key=_line))


def _line(found: Diagnostic) -> tuple[int, int]:
    return (found.span.line, found.span.column) if found.span else (0, 0)


def _undescribed(machine: Machine) -> Iterator[tuple[str, Span | None]]:
    yield from ((f"parameter '{name}'", each.span) for name, each in machine.parameters.items() if not each.doc.strip())
    yield from ((f"memory '{each.name}'", each.span) for each in machine.memories if not each.doc.strip())
    shared: dict[tuple[str, Span | None], list[str]] = {}
    for kind in machine.instructions:
        if not kind.doc.strip():
            yield f"instruction '{kind.name}'", kind.span
        for field in kind.fields:
            if not field.doc.strip():
                shared.setdefault((field.name, field.span), []).append(kind.name)
    yield from ((f"field '{name}' of {', '.join(kinds)}", span) for (name, span), kinds in shared.items())
