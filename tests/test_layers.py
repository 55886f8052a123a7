"""Arrows between packages run one way: what is below never imports what is above, and no two packages import each other."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "toolchain"

BELOW: dict[str, set[str]] = {
    "spec": set(),
    "isa": {"spec"},
    "analysis": {"spec", "isa"},
    "abi": {"spec", "isa", "analysis"},
    "emulator": {"spec", "isa", "analysis"},
    "timing": {"spec", "isa", "analysis"},
    "operations": {"spec"},
    "graph": {"spec", "operations"},
    "models": {"spec", "graph"},
    "accuracy": {"spec", "graph", "models"},
    "passes": {"spec", "operations", "graph"},
    "schedule": {"spec", "isa", "analysis", "abi", "timing", "operations", "graph", "passes"},
    "codegen": {"spec", "isa", "abi", "graph", "schedule"},
    "runtime": {"spec", "isa", "analysis", "abi", "emulator", "timing", "operations", "graph", "passes", "schedule", "codegen"},
}
BELOW["verify"] = BELOW["runtime"] | {"runtime", "models", "accuracy"}
BELOW["report"] = BELOW["verify"] | {"verify"}
"""What each package may import; whatever is not named here (the command line, tasks) stands on top and may import all."""
LAYERS = sorted(path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py"))


def modules(folder: Path) -> dict[str, Path]:
    """Every module below a folder by its dotted name, packages by the name of their folder."""
    found = {path: path.relative_to(folder.parent).with_suffix("").parts for path in sorted(folder.rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in found.items()}


def imports(tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """The modules that a tree imports, also inside functions: `from package import module` counts as the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (name if (name := f"{node.module}.{alias.name}") in known else node.module for alias in node.names)


@cache
def arrows(folder: Path) -> set[tuple[str, str]]:
    """(importer, imported) for every pair of modules of the package in a folder."""
    known = modules(folder)
    pairs = {(name, other) for name, path in known.items() for other in imports(ast.parse(path.read_text()), known)}
    return {(name, other) for name, other in pairs if other in known}


def layer(module: str) -> str:
    """The package right below the top that a module is in, or belongs to by its name."""
    return module.split(".")[1] if "." in module else ""


def room(module: str) -> str:
    """The sub-package of a layer that a module is in; a module that stands loose in its layer is a room of its own."""
    return ".".join(module.split(".")[:3])


def against(pairs: set[tuple[str, str]]) -> list[str]:
    """The arrows that BELOW does not allow."""
    return sorted(f"{a} imports {b}" for a, b in pairs if layer(a) in BELOW and layer(b) not in BELOW[layer(a)] | {layer(a), ""})


def circles(pairs: set[tuple[str, str]]) -> list[str]:
    """The members of every circle, in order."""
    after: dict[str, set[str]] = {}
    for a, b in pairs:
        if a != b:
            after.setdefault(a, set()).add(b)
            after.setdefault(b, set())
    while loose := {a for a, others in after.items() if not others & after.keys()}:
        after = {a: others for a, others in after.items() if a not in loose}
    while loose := after.keys() - {b for others in after.values() for b in others}:
        after = {a: others for a, others in after.items() if a not in loose}
    return sorted(after)


def test_no_arrow_runs_the_wrong_way() -> None:
    assert against(arrows(ROOT / PACKAGE)) == []


def test_modules_form_no_circle() -> None:
    assert circles(arrows(ROOT / PACKAGE)) == []


@pytest.mark.parametrize("name", LAYERS)
def test_sub_packages_and_loose_modules_form_no_circle(name: str) -> None:
    inside = {(room(a), room(b)) for a, b in arrows(ROOT / PACKAGE) if layer(a) == layer(b) == name}
    assert circles(inside) == []


def test_the_check_sees_what_it_should(tmp_path: Path) -> None:
    files = {
        "spec/a.py": "def f():\n    from toolchain.isa import b",
        "isa/b.py": "import toolchain.spec.c",
        "spec/c.py": "from toolchain.spec.a import f",
        "cli.py": "from toolchain.isa.b import x\nimport ast",
    }
    for name, text in files.items():
        (tmp_path / PACKAGE / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / PACKAGE / name).write_text(text)
    found = arrows(tmp_path / PACKAGE)
    assert len(found) == 4
    assert against(found) == ["toolchain.spec.a imports toolchain.isa.b"]
    assert circles(found) == ["toolchain.isa.b", "toolchain.spec.a", "toolchain.spec.c"]
