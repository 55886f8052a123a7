"""`tilewright mcp`: commands as tools of a Model Context Protocol server on standard input and output."""

import argparse
import sys
import tempfile
from pathlib import Path

from toolchain.commands.confined import Confined
from toolchain.spec.errors import fail
from toolchain.spec.files import is_folder

LONGEST_SECONDS = 86_400


def serve(arguments: argparse.Namespace) -> None:
    """Serves until standard input ends.

    Raises UserError E0001 where there is no such folder, E0002 for a deadline that is none, E0009 without the package `mcp`.
    """
    folder = Path(arguments.folder)
    if not is_folder(folder):
        raise fail("E0001", "there is no such folder", place=str(folder))
    if not 1 <= arguments.deadline <= LONGEST_SECONDS:
        raise fail("E0002", f"--deadline is {arguments.deadline}, it must be from 1 to {LONGEST_SECONDS} seconds")
    try:
        from toolchain.commands.mcp_tools import Tools, serve_tools
    except ImportError:
        hint = "pip install 'tilewright[mcp]'"
        raise fail("E0009", "the server needs the package 'mcp' of version 2, which is not installed", hint=hint) from None
    with tempfile.TemporaryDirectory(prefix="tilewright-mcp-") as scratch:
        tools = Tools(Confined(folder.resolve()), Path(scratch), arguments.allow_build, arguments.deadline)
        if sys.stdin.isatty():
            print("a client speaks to this server on standard input; end it with Ctrl-D", file=sys.stderr)
        serve_tools(tools)
