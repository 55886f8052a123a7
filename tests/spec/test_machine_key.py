"""Machines are told apart by identity."""

from dataclasses import replace

from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.load import load_machine
from toolchain.spec.machine_key import MachineKey


def test_equal_machines_are_different_keys() -> None:
    machine = load_machine("vta")
    assert MachineKey(machine) == MachineKey(machine)
    assert MachineKey(machine) != MachineKey(replace(machine))
    assert MachineKey(machine) != machine


def test_a_changed_machine_has_a_hash_of_its_own() -> None:
    machine = load_machine("vta")
    assert fingerprint(machine) != fingerprint(replace(machine, name="other"))
