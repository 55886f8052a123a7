"""The full check of a machine: what toolchain/spec finds in the file, and what only the semantics can tell."""

from collections.abc import Mapping

from toolchain.isa.footprint.pipeline import missing_steps
from toolchain.isa.footprint.ports import missing_ports
from toolchain.isa.semantics.machine import machine_semantics, read_semantics
from toolchain.isa.semantics.ranges import analyse
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Instruction, Machine
from toolchain.spec.yaml_nodes import Findings, gather


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
