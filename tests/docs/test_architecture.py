"""docs/architecture.md says what is so: its paths and names exist, its arrows are those of tests/test_layers.py, its answers hold when tried."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.test_error_pages import CODE
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.test_layers import BELOW
from tests.test_layers import LAYERS as PACKAGES
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode_program
from toolchain.operations.library import builtin_kinds
from toolchain.passes.context import Pass
from toolchain.passes.pipeline import ALL, PASSES, PROPERTIES, read_pipeline
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.summary_text import operations_text
from toolchain.runtime.device import Device
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.tile_table import tile_table
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.errors import Source
from toolchain.spec.load import find_target
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import STAGES, Step

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)
WORDS = sorted({*re.findall(r"`([^`\n]+)`", PROSE)})
FOLDERS = ("toolchain", "tests", "docs", "bench", "targets", "models")
PATHS = [word for word in WORDS if word.split("/")[0] in FOLDERS and "/" in word and not {"NAME", "*"} & {*re.findall(r"[A-Z]{4}|\*", word)}]
NAMES = [word for word in WORDS if re.fullmatch(r"toolchain(\.\w+)+", word)]


def table(title: str) -> list[list[str]]:
    """The cells of the first table with this head, without code marks."""
    _, _, rest = PAGE.partition(f"| {title} |")
    assert rest, title
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.split("|")[1:-1]] for line in lines]


def test_it_names_enough() -> None:
    assert len(PATHS) >= 50
    assert len(NAMES) >= 25


@pytest.mark.parametrize("path", PATHS)
def test_paths_exist(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name: str) -> None:
    parts = name.split(".")
    depth = next(n for n in range(len(parts), 0, -1) if _is_module(parts[:n]))
    found: object = import_module(".".join(parts[:depth]))
    for each in parts[depth:]:
        found = getattr(found, each)


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return (path / "__init__.py").is_file() or path.with_suffix(".py").is_file()


def test_every_package_has_a_row_and_a_place_to_begin() -> None:
    rows = table("package")
    assert sorted(row[0] for row in rows) == PACKAGES
    for name, _, first in rows:
        assert first.startswith(f"toolchain/{name}/") or (name, first) == ("commands", "toolchain/cli.py")


def test_the_arrows_are_those_of_the_law() -> None:
    (block,) = re.findall(r"^```\n( +spec .*?)^```$", PAGE, re.M | re.S)
    head, *rows = block.splitlines()
    order = [row.split()[0] for row in rows]
    assert head.split() == [name[:4] for name in order[:-1]]
    drawn = {name: {other for other, mark in zip(order, row.split()[1:], strict=False) if mark == "x"} for name, row in zip(order, rows, strict=True)}
    assert drawn == BELOW
    (top,) = re.findall(r"(`api`[^.\n]*) and the modules directly below", PAGE)
    assert {*re.findall(r"`(\w+)`", top)} == {*PACKAGES} - {*BELOW}


def test_the_gaps_that_it_points_at_are_gaps() -> None:
    for name, other in (("analysis", "schedule"), ("emulator", "schedule"), ("emulator", "timing"), ("graph", "isa")):
        assert other not in BELOW[name]


FACTORS = " ".join(f"{operand}_factor_{loop}=1" for operand in ("dst", "src", "wgt") for loop in ("out", "in"))


def top_imports(path: Path) -> set[str]:
    """Packages that a module imports as it loads."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_heavy_libraries_load_where_it_says() -> None:
    loaded = {str(path.relative_to(ROOT)): top_imports(path) for path in (ROOT / "toolchain").rglob("*.py")}
    assert [name for name, found in loaded.items() if "onnxruntime" in found] == ["toolchain/graph/session.py"]
    assert not [name for name, found in loaded.items() if found & {"rich", "matplotlib", "torch"}]
    code = "import sys, toolchain.cli; print({'numpy', 'onnx', 'onnxruntime', 'rich', 'doit'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_decoding_is_the_way_back_of_encoding() -> None:
    machine = load_machine("vta")
    program = assemble(machine, Source("p.asm", f"GEMM uop_bgn=1 uop_end=3 iter_out=2 iter_in=5 {FACTORS}\nFINISH\n"))
    again = decode(machine, encode_program(program))
    kinds = [machine.instructions[kind].name for kind in again.kind]
    assert kinds == ["GEMM", "FINISH"]
    gemm = again.columns[int(again.kind[0])]
    assert [int(gemm[name][0]) for name in ("uop_bgn", "uop_end", "iter_out", "iter_in")] == [1, 3, 2, 5]


def test_tile_sizes_come_from_the_table_by_rank() -> None:
    machine = load_machine("vta")
    kernel = load_kernel(machine, "conv2d")
    problem = state_problem(machine, kernel, convolution((1, 32, 14, 14), (32, 3, 3), pads=(1, 1, 1, 1)))
    ranked = rank_tilings(problem, 2, 4)
    legal = tile_table(problem).sizes
    listed = set(zip(*(legal[name].tolist() for name in legal), strict=True))
    assert {tuple(tiling.sizes[name] for name in legal) for tiling in ranked} <= listed
    assert TileChoice(2, 1).best(problem) == ranked[0]


def test_codes_belong_to_the_package_that_raises_most_of_them() -> None:
    used: dict[str, Counter[str]] = {}
    for path in sorted((ROOT / "toolchain").rglob("*.py")):
        for code in CODE.findall(path.read_text()):
            used.setdefault(code[:3], Counter())[path.relative_to(ROOT / "toolchain").parts[0]] += 1
    assert {row[0]: row[2] for row in table("codes")} == {code: counts.most_common(1)[0][0] for code, counts in used.items()}


def test_a_pass_is_known_by_its_class_and_runs_by_its_name() -> None:
    assert all(issubclass(kind, Pass) for kind in ALL)
    path = ROOT / "toolchain" / "passes" / "pipeline.yaml"
    assert {step.name for step in read_pipeline(Source(str(path), path.read_text())).passes} <= PASSES.keys()
    assert {name for kind in ALL for name in (*kind.requires, *kind.ensures)} <= PROPERTIES.keys()


def test_every_file_of_an_operation_is_read() -> None:
    assert {*builtin_kinds()} == {path.stem for path in (ROOT / "toolchain" / "operations").glob("*.yaml")}


def test_the_columns_of_operations_are_made_where_it_says() -> None:
    use = OperationUse("conv1", "conv2d", 3, 7.0, "gemm", 5.0, 11, 13)
    region = RegionUse("region0", "toy", 1, 3, 7.0, 5.0, "gemm", (use,), (), (), 1, 4)
    assert operations_text([region]).splitlines()[-1].split() == ["region0", "conv1", "conv2d", "3", "7", "gemm", "5", "11", "55.0", "13"]


def test_the_emulator_is_a_device() -> None:
    device: Device = EmulatorDevice()
    assert callable(device.load)


EDITS = {
    "cycles": ("GEMM_LATENCY: {value: 4", "GEMM_LATENCY: {value: 5"),
    "any other": ("conv2d: {value: 0.59", "conv2d: {value: 0.6"),
    "one in a source": ("coherent 64-bit port at 100 MHz", "coherent 64-bit port at 101 MHz"),
}


def steps(folder: Path, text: str) -> dict[str, Step]:
    (folder / "vta.yaml").write_text(text)
    return dict(make_plan({"target": str(folder / "vta.yaml"), "model": "digits"}, folder / "build").steps[0])


def run_again(before: dict[str, dict[str, str]], after: dict[str, Step]) -> Iterator[str]:
    """Stages with other inputs, and those behind them."""
    found: set[str] = set()
    for name, step in after.items():
        if step.parts() != before[name] or found & {*step.stage.after}:
            found.add(name)
            yield name


@pytest.mark.parametrize("row", table("the number"), ids=lambda row: row[0][:12])
def test_one_number_of_a_target_file(row: list[str], tmp_path: Path) -> None:
    text = find_target("vta").read_text()
    (old, new), *more = (edit for start, edit in EDITS.items() if row[0].startswith(start))
    assert (more, text.count(old)) == ([], 1)
    before = {name: step.parts() for name, step in steps(tmp_path, text).items()}
    ran = [*run_again(before, steps(tmp_path, text.replace(old, new)))]
    assert ran == row[1].split(", ")
    assert sorted([*ran, *row[2].split(", ")]) == sorted(stage.name for stage in STAGES)
