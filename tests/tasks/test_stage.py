"""What a stage depends on: all of the machine, whatever its code reads of it.

A stage is run again when code changed that it can reach, so its list of packages names all of them.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from toolchain.spec.errors import Source
from toolchain.spec.fingerprint import notes_hash, section_hashes
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, RegionLimits
from toolchain.spec.model.conventions import Outline
from toolchain.spec.yaml_nodes import parse_yaml
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import STAGES, Stage, Step

NAMES_ALONE = {"name", "config", "summary", "sources", "models", "configs", "settable", "choices", "path", "without"}
"""Of a machine: its names and notes, which folders and messages show, what is in the parameters' values already, and kernels that are left out, which
a step has as a part of its own."""
NOTES = {"assumptions", "parameters", "assumed_params"}


@pytest.mark.parametrize("field", [f.name for f in fields(Machine) if f.name not in NAMES_ALONE])
def test_no_part_of_a_machine_is_left_out_of_its_hashes(field: str) -> None:
    machines = [load_machine(name) for name in ("vta", "dpuv3")]
    tried = 0
    for machine, donor in (machines, reversed(machines)):
        value = getattr(machine, field)
        found = _other(value, getattr(donor, field))
        if value != found:
            tried += 1
            changed = replace(machine, **{field: found})
            assert notes_hash(changed) != notes_hash(machine)
            assert field in NOTES or section_hashes(changed, ordered=True) != section_hashes(machine, ordered=True)
    assert tried


def test_kernels_that_are_left_out_are_a_part(tmp_path: Path) -> None:
    whole, less = (make_plan({"target": "vta", "model": "digits"} | more, tmp_path).steps[0] for more in ({}, {"without": "add_both"}))
    assert {name for name in whole if whole[name].parts() != less[name].parts()} >= {"graph", "schedule", "bundle"}
    assert whole["onnx"].parts() == less["onnx"].parts()


def _other(value: Any, donor: Any) -> Any:
    """A list in another order, a mapping without its first entry, the other truth, an outline where there is none, else what another machine has."""
    match value:
        case tuple():
            entries = cast(tuple[Any, ...], value)
            return entries[::-1] if len(entries) > 1 else donor
        case Mapping():
            return dict(list(cast(Mapping[str, Any], value).items())[1:])
        case bool():
            return not value
        case RegionLimits():
            return replace(value, macs=7)
        case str() if donor == value:
            return f"{value}x"
        case None if donor is None:
            return Outline({"some": "outline"}, parse_yaml(Source("", "a: b")))
        case _:
            return donor


def _steps(root: Path) -> dict[str, Step]:
    return dict(make_plan({"target": "vta", "model": "digits"}, root).steps[0])


def test_every_stage_for_a_machine_depends_on_all_of_it(tmp_path: Path) -> None:
    steps = _steps(tmp_path)
    for step in steps.values():
        sections = {name.removeprefix("section ") for name in step.parts() if name.startswith("section ")}
        assert sections == (set() if step.stage.of_model else {*step.job.target.sections, "kernels"}), step.stage.name
    assert {"operators", "fusion", "timing", "host", "layouts", "quantisation"} <= set(steps["bundle"].job.target.sections) | {"fusion"}


NOT_HASHED = {"tasks", "process"}
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


def used(module: str, function: str) -> set[str]:
    """Modules of ours that a function and whatever it calls in its own module take a name from: a module of actions serves several stages."""
    tree = ast.parse(MODULES[module].read_text())
    local = {name: node for node in tree.body for name in defined(node)}
    found, seen, waiting = set[str](), set[str](), [function]
    while waiting:
        if (name := waiting.pop()) in seen or name not in local:
            continue
        seen.add(name)
        for node in ast.walk(local[name]):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = (f"{node.module}.{alias.name}" for alias in node.names)
                found |= {name if name in MODULES else node.module for name in names}
            elif isinstance(node, ast.Name):
                waiting.append(node.id)
    return found & MODULES.keys()


def defined(node: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ImportFrom | ast.Import):
        yield from (alias.asname or alias.name for alias in node.names)
    else:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def reached(modules: set[str]) -> set[str]:
    """Every module that importing and running some can lead to."""
    found, waiting = set[str](), [*modules]
    while waiting:
        if (each := waiting.pop()) not in found:
            found.add(each)
            waiting += imported(each)
    return found


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_no_package_that_a_stage_reaches_is_left_out(stage: Stage) -> None:
    module, _, function = stage.action.partition(":")
    modules = reached(used(f"toolchain.tasks.actions.{module}", function))
    packages = {module.split(".")[1] for module in modules if "." in module} - NOT_HASHED
    assert {"spec", "graph"} <= packages
    assert packages - {*stage.packages} == set()


def test_an_action_uses_only_its_own_part_of_a_module() -> None:
    assert "toolchain.schedule.backend" not in used("toolchain.tasks.actions.graph", "make_onnx")
    assert "toolchain.schedule.backend" in used("toolchain.tasks.actions.graph", "make_graph")
