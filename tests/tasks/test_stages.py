"""A stage is run again when code changed that it can reach, so its list of packages names all of them."""

import ast
from functools import cache
from pathlib import Path

import pytest

from toolchain.tasks.stage import Stage
from toolchain.tasks.stages import STAGES

NO_RESULT = {"tasks", "interrupts"}
"""They decide when a stage runs or stops, not what it leaves."""
ROOT = Path(__file__).resolve().parents[2]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in (ROOT / "toolchain").rglob("*.py")}


@cache
def imported(module: str) -> set[str]:
    """Modules of ours that a module imports anywhere, but for its types alone."""
    tree, found = ast.parse(MODULES[module].read_text()), set[str]()
    typing = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in MODULES else node.module for name in names}
    return found & MODULES.keys()


def reached(module: str) -> set[str]:
    """Every module that importing and running one can lead to."""
    found, waiting = set[str](), [module]
    while waiting:
        if (each := waiting.pop()) not in found:
            found.add(each)
            waiting += imported(each)
    return found


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_no_package_that_a_stage_reaches_is_left_out(stage: Stage) -> None:
    modules = reached(f"toolchain.tasks.actions.{stage.action.partition(':')[0]}")
    packages = {module.split(".")[1] for module in modules if "." in module} - NO_RESULT
    assert {"spec", "graph"} <= packages
    assert packages - {*stage.packages} == set()
