"""`tilewright target ...`"""

import argparse
import json
import sys
from pathlib import Path

from toolchain.commands.machine import machine_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import list_targets, load_machine


def list_machines(_: argparse.Namespace) -> int:
    """One line a machine: name, configurations, summary. Files that do not load are named on standard error."""
    known = list_targets()
    status = 0
    for name in known:
        try:
            machine = load_machine(name)
        except UserError as error:
            print(error.diagnostics[0].headline(), file=sys.stderr)
            status = 1
            continue
        configs = f" [{', '.join(machine.configs)}]" if machine.configs else ""
        print(f"{name}{configs}: {machine.summary}")
    return status


def show(arguments: argparse.Namespace) -> None:
    """The elaborated machine, or only its assumptions."""
    from toolchain.spec.render import render, to_yaml

    machine = machine_of(arguments)
    if arguments.assumptions:
        print("\n".join(machine.assumptions) or "nothing is assumed")
    else:
        data = render(machine) | {"parameters": {name: {"values": each.values, "doc": each.doc} for name, each in machine.parameters.items()}}
        print(json.dumps(data, indent=2) + "\n" if arguments.json else to_yaml(data), end="")


def check(arguments: argparse.Namespace) -> None:
    """Errors are raised while loading; what remains is to say that there are none, and what is assumed."""
    from toolchain.schedule.check_conventions import check_conventions
    from toolchain.spec.fingerprint import fingerprint

    machine = machine_of(arguments)
    found = check_conventions(machine)
    print(f"{machine.name}: {len(machine.instructions)} instructions, {len(machine.memories)} memories, {len(machine.units)} units: no errors")
    if found.kernels:
        print(f"{found.kernels} kernels, {found.templates} templates: no errors")
    print(f"architecture fingerprint: {fingerprint(machine)}")
    print(f"assumptions: {len(machine.assumptions)} (tilewright target show {arguments.machine} --assumptions)")


def diff(arguments: argparse.Namespace) -> None:
    """One line a difference."""
    from toolchain.spec.render import diff as differences

    lines = differences(load_machine(arguments.first), load_machine(arguments.second))
    print("\n".join(lines) if lines else "no difference")


def manual(arguments: argparse.Namespace) -> None:
    """The manual to a file or to standard output."""
    from toolchain.report.manual import manual_html, manual_markdown
    from toolchain.spec.files import write_atomic

    machine = machine_of(arguments)
    if not arguments.output:
        print(manual_markdown(machine), end="")
        return
    path = Path(arguments.output)
    text = manual_html(machine) if path.suffix == ".html" else manual_markdown(machine)
    write_atomic(path, text.encode())
