"""`tilewright help COMMAND`: what `tilewright COMMAND --help` says."""

import argparse


def print_help(arguments: argparse.Namespace) -> None:
    """Ends the program as argparse does: code 2 for a command that there is not."""
    from toolchain.cli import parser

    parser().parse_args([*arguments.topic, "--help"])
