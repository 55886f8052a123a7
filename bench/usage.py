"""The command line of a bench that takes a few words and nothing else; `--help` prints the text at the head of its file."""

import argparse
import sys


def words(text: str | None, flags: tuple[str, ...] = (), **defaults: str) -> list[str]:
    """Each word given, or its default, in order; then the flags that were given. Ends the process for `--help` and for a wrong line."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(name, nargs="?", default=default, help=f"({default})")
    for flag in flags:
        parser.add_argument(flag, action="store_const", const=flag, dest=flag)
    given = vars(parser.parse_args(sys.argv[1:]))
    return [*(given[name] for name in defaults), *(flag for flag in flags if given[flag])]
