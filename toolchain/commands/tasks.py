"""`tilewright build`, `infer`, `verify`, `report`, `explain`: doit's tasks from any folder, without a dodo.py; `clean` and `info` of them."""

import argparse
import sys
from collections.abc import Sequence

from toolchain.spec.errors import fail
from toolchain.tasks.plan import make_plan


def run(arguments: argparse.Namespace) -> int:
    """The exit code: 0 done, 1 when a stage found errors.

    Raises UserError E0002 for a third word that is not NAME=VALUE, E1202 for two values of one name, and all of make_plan.
    """
    from toolchain.tasks.doit_tasks import run_task

    return run_task(arguments.command, make_plan(given(arguments)))


def clean(arguments: argparse.Namespace) -> None:
    """Removes all that the tasks made. Raises as `run`, and E0005."""
    from toolchain.tasks.folders import clean_plan

    verb = "would remove" if arguments.dry_run else "removed"
    for path in clean_plan(make_plan(given(arguments)), arguments.dry_run):
        print(f"{verb} {path}", file=sys.stderr)


def info(arguments: argparse.Namespace) -> None:
    """Prints the dependencies of each stage, and whether it is up to date. Raises as `run`."""
    from toolchain.tasks.plan import info_text

    print(info_text(make_plan(given(arguments))))


def given(arguments: argparse.Namespace) -> dict[str, str]:
    """The variables of a command line. Raises as `given_of`."""
    return given_of(arguments.variables)


PLACES = ("target", "model")
"""The variables that words without a name stand for, in this order."""


def given_of(words: Sequence[str]) -> dict[str, str]:
    """The values of MACHINE MODEL NAME=VALUE words. Raises UserError E0002 and E1202."""
    found: dict[str, str] = {}
    bare = [word for word in words if "=" not in word]
    if wrong := [word for word in words if word.startswith("=")] + [word for word in bare if word.endswith(".bundle")] + bare[len(PLACES) :]:
        text = wrong[0][:80]
        hint = f"a bundle from elsewhere: tilewright bundle show {text}" if text.endswith(".bundle") else "MACHINE MODEL NAME=VALUE ..."
        raise fail("E0002", f"'{text}' is neither a variable nor a machine nor a model", hint=hint)
    for text in (*(f"{name}={word}" for name, word in zip(PLACES, bare, strict=False)), *(word for word in words if "=" in word)):
        name, _, value = text.partition("=")
        if found.setdefault(name, value) != value:
            raise fail("E1202", f"'{name}' is {found[name]} and {value}", hint="a variable stands once")
    return found
