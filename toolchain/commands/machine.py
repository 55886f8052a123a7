"""The machine that a command line names."""

import argparse

from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def machine_of(arguments: argparse.Namespace) -> Machine:
    """Loads and checks MACHINE with its --set overrides. Raises UserError E0002 for a --set without '='."""
    from toolchain.isa.check_machine import load_checked_machine  # the semantics language, which a list of machines does not need

    return load_checked_machine(arguments.machine, overrides=pairs(arguments.set, "--set PARAM=VALUE"))


def pairs(texts: list[str], form: str) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; a later one wins."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise fail("E0002", f"'{text}' does not have the form {form}")
        found[name] = value
    return found
