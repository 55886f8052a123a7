"""The same code in a process whose sets and dictionaries have another order."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def another_seed() -> str:
    """A hash seed that is not this process's own."""
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def printed_elsewhere(code: str, *words: str, **environment: str) -> str:
    """What the code prints under another hash seed. words: its arguments."""
    own = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": another_seed()} | environment
    return subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True, check=True).stdout
