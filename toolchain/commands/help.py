"""`tilewright help COMMAND`, the text of `tilewright COMMAND --help`; `tilewright help E0501`, the page of an error.

`tilewright completion SHELL`, and the answers to the shell: names of machines, models, variables and their values.
"""

import argparse
import os
import re
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.tasks.variables import CHOICES, VARIABLES

SHELLS = ("bash", "zsh", "fish")
_CODE = re.compile(r"[Ee][0-9]{1,8}")
_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)?([\w-]+)\.md(?:#[\w-]*)?\)")
NEAR = 3
"""Known codes that are named for an unknown one."""
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


def error_page(code: str) -> str:
    """The page of an error's code, as Markdown. Raises UserError E0002 for a code that there is not."""
    from toolchain.spec.files import is_file

    folder = _error_pages()
    path = folder / f"{code}.md"
    if not is_file(path):
        known = sorted((page.stem for page in folder.glob("E*.md")), key=lambda each: (abs(int(each[1:]) - int(code[1:])), each))
        raise fail("E0002", f"there is no error '{code}'", hint=f"near it are {', '.join(sorted(known[:NEAR]))}")
    return path.read_text()


def without_links(page: str) -> str:
    """The page for a terminal, which follows no links: one to another page names it, one to an error is its text alone."""
    return _LINK.sub(lambda link: link[1] if _CODE.fullmatch(link[2]) else f"{link[1]} (docs/{link[2]}.md)", page)


def _error_pages() -> Path:
    """In a checkout or installed."""
    from toolchain.spec.files import PACKAGE, is_folder

    return next(folder for folder in (PACKAGE.parent / "docs" / "errors", PACKAGE / "_data" / "errors") if is_folder(folder))


def print_help(arguments: argparse.Namespace) -> None:
    """As `tilewright COMMAND --help`, or the page of an error's code.

    Ends the program as argparse does: code 2 for an unknown command. Raises UserError E0002 for an unknown code.
    """
    if len(arguments.topic) == 1 and _CODE.fullmatch(arguments.topic[0]):
        print(without_links(error_page(arguments.topic[0].upper())), end="")
        return
    arguments.parser.parse_args([*arguments.topic, "--help"])
