"""The machine that a bundle was made for."""

import re
from collections.abc import Sequence
from dataclasses import replace

from toolchain.isa.check_machine import load_checked_machine
from toolchain.runtime.contents import Target
from toolchain.spec.errors import UserError, fail
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.model import Machine

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MOST = 3
"""Differences that a message names."""


def target_of(machine: Machine) -> Target:
    """A machine as a bundle records it."""
    return Target(machine.name, machine.config, dict(machine.params), fingerprint(machine), section_hashes(machine)["timing"], machine.host)


Given = Machine | str | Sequence[Machine | str] | None
"""Machines for a bundle, one or one for each of its targets in their order: described, or as names or paths of files; None: from the search path."""


def bundle_machines(targets: Sequence[Target], place: str, given: Given = None) -> dict[str, Machine]:
    """The machine of each target by its name. Raises as `bundle_machine`, and E1105 for another number of machines than the bundle has."""
    found = [given] if isinstance(given, Machine | str) else [*(given or [None] * len(targets))]
    if len(found) != len(targets):
        names = ", ".join(target.name[:80] for target in targets)
        raise fail(
            "E1105", f"the bundle is for {len(targets)} machines ({names}), given are {len(found)}", hint="give them in this order", place=place
        )
    return {target.name: bundle_machine(target, place, machine) for target, machine in zip(targets, found, strict=True)}


def bundle_machine(target: Target, place: str, machine: Machine | str | None = None) -> Machine:
    """The machine of that name and configuration from the search path, or from the file of a path, with the bundle's parameters; or the one given.
    The host's costs are the bundle's.

    Raises UserError E0001 where there is none, E1104 for a name that cannot be one, E1105 where it was made for another architecture.
    """
    found = machine if isinstance(machine, Machine) else _searched(target, place, machine or target.name)
    if fingerprint(found) == target.fingerprint:
        return found if found.host == target.host else replace(found, host=target.host)
    there, here = (f"{name}:{config}" if config else name for name, config in ((target.name, target.config), (found.name, found.config)))
    names = sorted({*target.params, *found.params})
    values = [(name, target.params.get(name, "not"), found.params.get(name, "not")) for name in names]
    different = "; ".join([f"{name} is {a} there, {b} here" for name, a, b in values if a != b][:MOST])
    raise fail(
        "E1105",
        f"the bundle was made for another form of {there[:80]}" if there == here else f"the bundle was made for {there[:80]}, this is {here}",
        hint=different if different and target.name == found.name else "build the model again",
        place=place,
    )


def _searched(target: Target, place: str, given: str) -> Machine:
    """Parameters that differ from the configuration's are overridden; derived ones follow from them."""
    if not NAME.match(target.name):
        raise fail("E1104", f"the bundle's machine has the name {target.name[:80]!a}, which is none", place=place)
    plain = load_checked_machine(given, target.config)
    chosen = {(param, number): choice for (param, choice), number in plain.choices.items()}
    wrong = {name: value for name, value in target.params.items() if name in plain.settable and plain.params[name] != value}
    if not wrong:
        return plain
    try:
        return load_checked_machine(given, target.config, {name: chosen.get((name, value), str(value)) for name, value in wrong.items()})
    except UserError as error:
        message = f"the bundle was made for a {target.name} that cannot be: {error.diagnostics[0].message}"
        raise fail("E1105", message, hint="build the model again", place=place) from None
