"""`tilewright help COMMAND`, the text of `tilewright COMMAND --help`.

`tilewright completion SHELL`, and the answers to the shell: names of machines, models, variables and their values.
"""

import argparse
import os

from toolchain.tasks.variables import CHOICES, VARIABLES

SHELLS = ("bash", "zsh", "fish")
ZSH_HEAD = "#compdef tilewright\n"
"""The first line of a file in which zsh looks for completions."""


def print_script(arguments: argparse.Namespace) -> None:
    """Prints the script that the shell's start-up file evaluates."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["tilewright"], shell=arguments.shell)
    print(script if arguments.shell == "zsh" else script.removeprefix(ZSH_HEAD))  # one script serves zsh and bash, and begins as zsh wants it


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Completes the line that the shell asks about, and ends there; does nothing in any other run."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def complete_machine(prefix: str, **_: object) -> list[str]:
    """Machines on the search path."""
    from toolchain.spec.load import list_targets

    return [name for name in list_targets() if name.startswith(prefix)]


def complete_variable(prefix: str, **_: object) -> list[str]:
    """Names of variables, and values of those whose values have names. Paths are the shell's own business."""
    name, equals, value = prefix.partition("=")
    if not equals:
        return [f"{known}=" for known in VARIABLES if known.startswith(name)]
    head, comma, last = value.rpartition(",")
    return [f"{name}={head}{comma}{known}" for known in _values(name) if known.startswith(last)]


def _values(name: str) -> list[str]:
    if name == "target":
        return complete_machine("")
    if name == "model":
        from toolchain.models.files import list_models

        return list(list_models())
    return list(CHOICES.get(name, ()))


def print_help(arguments: argparse.Namespace) -> None:
    """As `tilewright COMMAND --help`. Ends the program as argparse does: code 2 for an unknown command."""
    arguments.parser.parse_args([*arguments.topic, "--help"])
