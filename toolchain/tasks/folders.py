"""Names of build folders: readable, the same for the same command, and different for all that a user would compare.

`MACHINE/MODEL` in the plain case. Behind `@` stands a choice of the command line: where a file is from, and options of the build.
"""

import hashlib
import os
import re
from pathlib import Path

LONGEST = 80
"""Characters of a path in a name; the end of a longer one, and a hash of all of it."""


def folder_name(text: str) -> str:
    """A text of the user's as the name of one visible folder."""
    return re.sub(r"[^\w.+@~-]", "_", text).lstrip(".") or "_"


def path_name(path: Path) -> str:
    """A path in a name: from the current folder, `~` for each `/`; empty for the current folder itself."""
    shown = os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path.absolute())
    text = "" if shown == "." else re.sub(r"[^\w.+~-]", "_", shown.replace(os.sep, "~"))
    return text if len(text) <= LONGEST else f"{hashlib.sha256(text.encode()).hexdigest()[:8]}{text[-LONGEST:]}"


def from_elsewhere(name: str, path: Path) -> str:
    """`@FOLDER` for a file that does not lie in the current folder, `@FILE` for one whose name is not that of what it describes."""
    where = path_name(path.parent if path.stem == name else path)
    return f"@{where}" if where else ""


def chosen(name: str, value: str) -> str:
    """`@NAME-VALUE` for an option that was given; files without their suffix."""
    return f"@{name}-{value}" if value else ""
