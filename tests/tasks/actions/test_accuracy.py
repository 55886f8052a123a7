"""Accuracy of a build, which no machine's engine is needed for."""

import subprocess
import sys

BUILD = """
import sys
from toolchain.tasks.actions import accuracy, graph, program, report
print([name for name in sys.modules if name.startswith(("toolchain.emulator", "toolchain.runtime.executor"))])
"""


def test_a_build_imports_no_engine() -> None:
    done = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
