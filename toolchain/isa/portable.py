"""Portable checks of a machine: what other implementations of it do otherwise. They only warn."""

from collections.abc import Iterator

import numpy as np

from toolchain.isa.checks import evaluate_fields, reads_registers
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Constraint


def portability(program: Program) -> tuple[Diagnostic, ...]:
    """A warning E0412 for each portable check that instructions fail, with the first of them; in the order of the machine file."""
    found: dict[str, list[Ints]] = {}
    rules: dict[str, Constraint] = {}
    for name, rule in program.machine.portable:
        rules[rule.name] = rule
        found.setdefault(rule.name, []).append(_failing(program, name, rule))
    return tuple(_warnings(program, rules, {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}))


def _failing(program: Program, name: str, rule: Constraint) -> Ints:
    """Indices of the instructions of one kind that fail; a check that reads registers is left to who knows them."""
    kind = next(k for k, i in enumerate(program.machine.instructions) if i.name == name)
    rows = np.flatnonzero(program.kind == kind)
    if not len(rows) or reads_registers(rule.that):
        return np.zeros(0, np.int64)
    return rows[evaluate_fields(program, kind, rows, rule.that) == 0]


def _warnings(program: Program, rules: dict[str, Constraint], failing: dict[str, Ints]) -> Iterator[Diagnostic]:
    for name, rows in failing.items():
        if len(rows):
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            text = f"{program.label(int(rows[0]))}{more}: {rules[name].message}"
            yield Diagnostic("E0412", text, hint=f"portable check '{name}'", severity="warning")
