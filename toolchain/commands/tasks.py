"""`tilewright build`, `infer`, `verify`, `report` and `explain`: doit's tasks from any folder, without a file named dodo.py."""

import argparse

from toolchain.spec.errors import fail
from toolchain.tasks.plan import make_plan


def run(arguments: argparse.Namespace) -> int:
    """The exit code: 0 done, 1 when a stage found errors.

    Raises UserError E0002 for what is not NAME=VALUE, E1202 for two values of one name, and all of make_plan.
    """
    from toolchain.tasks.embedded import run_task

    given: dict[str, str] = {}
    for text in arguments.variables:
        name, equals, value = text.partition("=")
        if not equals:
            raise fail("E0002", f"'{text}' does not have the form NAME=VALUE", hint="for example target=NAME")
        if given.setdefault(name, value) != value:
            raise fail("E1202", f"'{name}' is {given[name]} and {value}", hint="a variable stands once")
    return run_task(arguments.command, make_plan(given))
