"""Pages in headless Chromium: the figures that a page's own script leaves at its body, and the columns that the script reads."""

import base64
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=60000", "--dump-dom")


def browser() -> str | None:
    """Its path, None where there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def measured(program: str, page: Path, frames: int, profile: Path) -> dict[str, float]:
    """Draws so many views of every size; times in milliseconds, others are counts. profile: a folder for the browser's own files."""
    words = [program, *FLAGS, f"--user-data-dir={profile}", f"file://{page.resolve()}#measure={frames}"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return {name: float(value) for name, value in re.findall(r'data-(\w+)="([0-9.]+)"', re.findall(r"<body[^>]*>", run.stdout)[0])}


def unpacked(column: dict[str, Any]) -> NDArray[Any]:
    """The numbers of a packed column, as the page's script reads them."""
    numbers = np.frombuffer(base64.b64decode(column["data"]), np.dtype(column["type"]).newbyteorder("<"))
    return unpacked(column["of"])[numbers] if "of" in column else numbers
