"""Collections are rare meanwhile, and as before afterwards.

A build reads no arithmetic of open sizes unless a model has such.
"""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

from toolchain.process import RARELY, circles_collected, rare_collections


def test_thresholds_come_back() -> None:
    own, before = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*before)
    try:
        with rare_collections():
            assert gc.get_threshold() == RARELY
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*own)


class Circle:
    def __init__(self) -> None:
        self.itself = self


INSIDE = """
import gc, weakref
from tests.test_process import Circle
from toolchain.process import circles_collected

before = weakref.ref(Circle())
with circles_collected():
    inside = weakref.ref(Circle())
    assert inside() is not None
print(before() is not None, inside(), gc.get_freeze_count())
"""


def test_only_circles_that_are_made_inside_are_collected() -> None:
    """In a process of its own, as the tests' has frozen objects."""
    root = Path(__file__).resolve().parents[1]
    assert subprocess.run([sys.executable, "-c", INSIDE], cwd=root, check=True, capture_output=True, text=True).stdout.split() == [
        "True",
        "None",
        "0",
    ]


def test_what_somebody_else_froze_stays_frozen() -> None:
    gc.freeze()  # and nobody thaws it: what a worker holds would be looked through
    with circles_collected():
        inside = weakref.ref(Circle())
    assert inside() is None
    assert gc.get_freeze_count() > 0


LOADED = "import sys; from toolchain.process import rare_modules_deferred\nwith rare_modules_deferred():\n    import onnx_ir as ir\n"
TOLD = "print('sympy.core' in sys.modules, len(sys.meta_path))"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", f"{LOADED}{code}"], check=True, capture_output=True, text=True).stdout


def test_it_is_not_read_until_it_is_used() -> None:
    first, answer, then = run(f"{TOLD}\nprint(ir.SymbolicDim('n') + 1)\n{TOLD}").splitlines()
    assert (first.split()[0], answer, then.split()[0]) == ("False", "n + 1", "True")
    assert first.split()[1] == run(f"import sys\n{TOLD}").split()[1]


def test_a_module_that_is_there_stays() -> None:
    code = "import sys, sympy; from toolchain.process import rare_modules_deferred\nwith rare_modules_deferred():\n    import sympy as same\n"
    told = subprocess.run([sys.executable, "-c", f"{code}print(same is sympy, same.Integer(2) + 1)"], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["True", "3"]


def test_the_stage_graph_does_without() -> None:
    assert run(f"with rare_modules_deferred():\n    import toolchain.tasks.actions.graph\n{TOLD}").split()[0] == "False"
