"""What the benches of real networks say of rows, and what they share; the benches themselves take minutes to hours."""

import contextlib
import csv
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.builds import left, markdown
from bench.core_use import least_of_batch
from bench.decompositions import decomposition_rows
from bench.least import Least, Work, least, rates, work_of
from tests.bench_script import run_script
from tests.schedule.many_cores import chip
from tests.schedule.regions.test_region import rows_region
from toolchain.models.load import list_models, load_model, load_text
from toolchain.schedule.batch_cut import Division, Subgraph, Uniform
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.copies import Copies
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.spec.load import load_machine

ROOT = Path(__file__).resolve().parents[1]
FIGURES = {"integers": {"share": 0.75, "text": "9 of 12 texts equal"}, "emulator": {"share": 0.75, "text": "9 of 12 texts equal"},
           "equal": {"share": 1.0, "text": "same"}, "tensor": {"share": None, "text": "quantised already"}}  # fmt: skip
REAL = {"model": "magika", "machine": "vta", "pictures": 12, "nodes": 30.0, "macs": 84.7, "regions": 4, "ms": 2.5, "total_ms": 57.0, "exact": True,
        "wrong": "", "figures": FIGURES, "seconds": {}}  # fmt: skip
EXPORT = {"name": "alexnet", "form": "legacy", "machine": "dpuv3", "nodes": 20, "node_percent": 95.0, "macs": 7e8, "mac_percent": 100.0, "regions": 1,
          "ms": 1.0, "total_ms": 2.0, "exact": True, "wrong": "", "seconds": 1.0}  # fmt: skip
FORM = {"model": "digits", "form": "QDQ u8/s8 symmetric per tensor", "file": 24.0, "regions": 3, "loss": 30.0, "stated": 30.0, "equal": False,
        "exact": True, "wrong": "", "refused": False}  # fmt: skip


def table(script: str, row: Mapping[str, object], name: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a bench prints of one row that it knows."""
    (folder / "rows").mkdir()
    (folder / "rows" / name).write_text(json.dumps(row))
    return run_script(script, "--table", "--folder", str(folder), *words)


BENCHES = sorted(path.name for path in (ROOT / "bench").iterdir() if path.is_file() and os.access(path, os.X_OK))


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_tells_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And measures nothing. In this process: what they import is there already."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "bench" / name), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name}")


SMALL_RUNS = {
    "kernel_lines": "", "resnet18_c2": "made", "isa/speed.py": "vta --count 20000",
    "house": "made", "quantiser": "--small", "all": "emulation --small --folder made",
    "mutants": "--targets vta --count 1 --kernels 1 --shapes 3",
    "search": "--model digits --target vta --folder made --effort 0,1",
    "decoder": "--small --target gemmini --tokens 8 --folder made",
    "attention": "--lengths 32 --heads 1 --width 32 --folder made",
    "lengths": "--small --target dpuv3 --folder made",
    "graphturbo": "--model digits --ways 2x1 --batch 4 --effort 0 --folder made",
}  # fmt: skip
"""Arguments with which a bench takes seconds."""
LONGER_RUNS = {
    "c_library": "--model digits --to= --images 2 --runs 1 --folder made",
    "byoc": "digits --folder made", "clib": "--model digits --runs 1", "placement": "digits --target vta --folder made",
    "resnet50_dpuv3": "made digits", "vta_roofline": "made C9", "build": "vta digits", "corners": "--target vta --share 2000",
    "many_cores": "--model digits --folder made",
    "deconvolution": "", "emulator": "", "explore": "--small --folder made",
    "quantiser_forms": "--model digits --target vta --samples 4 --only QDQ --folder made",
}  # fmt: skip
"""Half a minute each on a busy machine: with TILEWRIGHT_SLOW alone."""
RUN_ELSEWHERE = {
    "fuzz": "test_fuzz", "matrix": "test_matrix", "node_tests": "test_node_tests", "streaming": "here",
    "emulate_command": "here, after resnet18_c2", "whole_model": "here, by all",
    "studio_page": "commands/test_studio", "dpuv3_zoo": "here, its table", "real": "here, its table", "torchvision": "here, its table",
}  # fmt: skip
RUN_BY_HAND = {
    "dpuv3_limits": "builds ResNet-50 many times",
    "vta_resnet18": "builds ResNet-18",
    "recurrent": "builds twenty networks",
    "dnnvm": "builds four networks for three machines",
    "timeline_page": "needs Chromium",
}


def test_every_bench_is_run_somewhere() -> None:
    assert {*BENCHES, "isa/speed.py", "timing/sensitivity.py"} == {*SMALL_RUNS, *LONGER_RUNS, *RUN_ELSEWHERE, *RUN_BY_HAND, "timing/sensitivity.py"}


STARTED = ("all", "house", "isa/speed.py", "kernel_lines")
"""Benches that a test starts as their user does: they find the package themselves, as all do that say where it is in the same words. Others run here,
where all that they import is there already."""


def bench(name: str, words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A bench from another folder."""
    if name not in STARTED:
        with contextlib.chdir(folder):
            return run_script(name, *words.split())
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(ROOT / "bench" / name), *words.split()]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", [*SMALL_RUNS, *(LONGER_RUNS if os.environ.get("TILEWRIGHT_SLOW") else ())])
def test_a_bench_runs_to_its_end(name: str, tmp_path: Path) -> None:
    """Exit 1 is a goal that was missed, which a small input may do."""
    if name == "house":  # which reads one package instead of all
        for part in ("toolchain", "tests"):
            shutil.copytree(ROOT / part / "spec", tmp_path / "made" / part / "spec")
    done = bench(name, (SMALL_RUNS | LONGER_RUNS)[name], tmp_path)
    assert done.returncode in ((0,) if name == "all" else (0, 1)), done.stderr  # all fails where a bench that it starts does
    assert done.stdout
    assert "Traceback" not in done.stderr
    if name == "resnet18_c2":  # whose program two others take
        found = bench("timing/sensitivity.py", "vta made/program.bin", tmp_path)
        assert (found.returncode, found.stdout.splitlines()[0].split()) == (0, ["constant", "value", "program", "ms"]), found.stderr
        assert bench("timing/sensitivity.py", "", tmp_path).returncode == 2
        timed = bench("emulate_command", "made 1", tmp_path)
        assert (timed.returncode, [line.split()[0] for line in timed.stdout.splitlines()[:3]]) == (0, ["part", "start", "checks"]), timed.stderr


@pytest.mark.parametrize("name", ["resnet18_c2", "resnet50_dpuv3", "vta_resnet18", "vta_roofline", "timing/sensitivity.py", "isa/speed.py"])
def test_a_bench_looks_for_the_package_beside_itself(name: str) -> None:
    text = (ROOT / "bench" / name).read_text()
    assert 0 < text.index("sys.path.insert(0, str(") < text.index("\nfrom toolchain" if "\nfrom toolchain" in text else "\nimport vta_layers")


def test_a_real_network(tmp_path: Path) -> None:
    done = table("real", REAL, "vta-magika.json", tmp_path, "--model", "magika", "--target", "vta")
    assert done.returncode == 0, done.stderr
    assert [cell.strip() for cell in done.stdout.splitlines()[2].split("|")[1:-1]] == [
        "magika", "vta", "30.0", "84.7", "4", "2.50", "57.00", "yes", "75.0", "75.0", "-", "-", "-",
    ]  # fmt: skip
    assert "- magika on vta, 12 samples: integers: 9 of 12 texts equal; tensor: quantised already" in done.stdout
    assert "1 of 1 exact" in done.stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"exact": False, "wrong": "verify: E1204 it differs"}, "verify: E1204 it differs"),
        ({"figures": FIGURES | {"equal": {"share": 0.0, "text": ""}}}, "0 of 1 exact"),
        ({"figures": {}, "wrong": "build: E0904 open"}, "build: E0904 open"),
    ],
)
def test_a_real_network_that_fails(changes: dict[str, object], told: str, tmp_path: Path) -> None:
    done = table("real", REAL | changes, "vta-magika.json", tmp_path, "--model", "magika", "--target", "vta")
    assert done.returncode == 1
    assert told in done.stdout


@pytest.mark.parametrize(("changes", "code"), [({}, 1), ({"exact": False}, 1), ({"wrong": "build: E0904 open"}, 1)])
def test_an_export(changes: dict[str, object], code: int, tmp_path: Path) -> None:
    done = table("torchvision", EXPORT | changes, "dpuv3-alexnet-legacy.json", tmp_path, "--only", "alexnet")
    assert done.returncode == code  # the other export is missing
    assert f"{int(not changes)} of 2 import, run and are exact on dpuv3" in done.stdout


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"stated": None}, 1), ({"stated": 40.0}, 1), ({"exact": False}, 1), ({"equal": True, "loss": None, "stated": None}, 0)],
)
def test_a_form_of_the_quantiser(changes: dict[str, object], code: int, tmp_path: Path) -> None:
    name = "dpuv3-digits-QDQ-u8-s8-symmetric-per-tensor.json"
    done = table("quantiser_forms", FORM | changes, name, tmp_path, "--model", "digits")
    assert done.returncode == code, done.stdout
    assert f"{1 - code} of 1 without a silent difference" in done.stdout


def test_tables_line_up() -> None:
    assert markdown(("name", "n"), [("long name", "1"), ("b", "22")], (0,)) == [
        "| name      |  n |",
        "|-----------|---:|",
        "| long name |  1 |",
        "| b         | 22 |",
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert left(tmp_path, "summary", "summary.json") is None


def test_streaming(tmp_path: Path) -> None:
    """A network that fits on chip: least and groups move the same activations, and no group is made."""
    done = run_script("streaming", "--model", "digits", "--target", "dpuv3", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert [row[2] for row in rows] == ["DRAM", "apart", "groups", "least"]
    ms = [float(row[3]) for row in rows]
    assert ms[3] <= ms[2] == ms[1] <= ms[0]
    assert [row[8] for row in rows[:3]] == ["0", "0", "0"]


ZOO = {
    "model": "face_landmark", "images": 4, "ms": 0.5, "busy_ms": 0.4, "percent": 80.0, "instructions": 1298, "seconds": 7.7, "cpu": 6.1, "gib": 0.52,
    "wrong": "",
}  # fmt: skip
SMALL = """
model: {name: small, summary: a network to count by hand}
inputs: {image: [1, 3, 8, 8]}
layers:
  - conv: {name: wide, out: 4, kernel: 3, pad: half, norm: true}
  - add: {of: [wide, []]}
  - maxpool: {kernel: 2, stride: 2}
  - maxpool: {kernel: 1, stride: 2}
  - globalpool
  - flatten
  - dense: {out: 10}
"""


def test_work_is_counted_by_hand(tmp_path: Path) -> None:
    macs = 8 * 8 * 4 * 27 + 40
    written = 2 * 8 * 8 * 4 + 4 * 4 * 4 * 4 + 2 * 2 * 4
    assert work_of(load_text(SMALL, tmp_path / "small.yaml")) == Work(macs, written, 4 * 27 + 40, 4 + 10, 3 * 8 * 8 + 10, ((macs - 40, 40),))


def test_rates_come_from_the_machine() -> None:
    whole, half = (rates(load_machine("dpuv3", overrides={"PES": pes}), "misc", "fm", "pm") for pes in ("4", "2"))
    assert (whole.macs, whole.written, whole.moved, whole.clock_khz) == (4 * 16 * 16 * 8, 4 * 2 * 16, 64, 300000)
    assert (2 * half.macs, 2 * half.written, half.moved) == (whole.macs, whole.written, whole.moved)
    assert [whole.sizes[name] for name in ("activations", "weights", "bias")] == [1, 1, 4]
    assert whole.held == 2 << 20


def test_the_bound_is_the_longest_time(tmp_path: Path) -> None:
    found = least(load_text(SMALL, tmp_path / "small.yaml"), rates(load_machine("dpuv3"), "misc", "fm", "pm"), 4)
    assert found.bound == found.misc_ms == pytest.approx(4 * 784 / 128 / 300000)  # two rows of 16 channels a cycle on each of 4 engines
    assert found.moved_ms == pytest.approx((148 + 4 * 14 + 4 * 202) / 64 / 300000)  # 64 bytes a cycle
    assert found.chain_ms == pytest.approx(4 * 8 * 8 * 4 * 27 / 8192 / 300000)
    assert [Least(1.0, 2.0, 0.5, chain).bound for chain in (1.5, 2.5)] == [2.0, 2.5]


def test_weights_that_do_not_fit_are_loaded_behind_the_work_before_them() -> None:
    """VGG-16: 123.6 MB of dense layers, 2 MiB of them on chip when the convolutions are done."""
    machine = load_machine("dpuv3")
    found, macs = least(load_model("vgg16"), rates(machine, "misc", "fm", "pm"), 4), 15_346_630_656
    late = 25088 * 4096 + 4096 * 4096 + 4096 * 1000 - (2 << 20)
    assert found.bound == found.chain_ms == pytest.approx((4 * macs / 8192 + late / 64) / 300000)


def test_the_zoo(tmp_path: Path) -> None:
    done = table("dpuv3_zoo", ZOO, "face_landmark.json", tmp_path, "--write", str(tmp_path / "page.md"))
    assert done.returncode == 1  # all the others are missing
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 28
    assert {row[1] for row in rows} <= set(list_models())
    assert sum("counted" in row[-1] for row in rows) == 14
    (known,) = [row for row in rows if row[2] != "-"]
    assert known[:4] == ["face-landmark", "face_landmark", "0.500", "0.540"]
    assert known[-8:] == ["0.400", "1.250", "-", "80.0", "6", "0.52", "1,298", "stand-in"]
    assert float(known[9]) == pytest.approx(0.5 / max(map(float, known[4:8])), rel=0.01)
    assert "Not built yet: densebox_320_320, " in done.stdout
    assert done.stdout in (tmp_path / "page.md").read_text()


def test_a_time_over_the_bound_of_the_paper(tmp_path: Path) -> None:
    """A network that takes half as long as the paper's has half the paper's ratio."""
    done = table("dpuv3_zoo", ZOO | {"model": "resnet18", "ms": 4.194 / 2}, "resnet18.json", tmp_path)
    (row,) = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| resnet18 ")]
    assert row[13].strip() == f"{1.256 / 2:.3f}"
    assert "over the paper's bound 0.628, the paper itself 1.26." in done.stdout


def test_the_zoo_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table("dpuv3_zoo", ZOO, "face_landmark.json", tmp_path, "--picture", str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_the_zoo_is_listed_as_its_files_say() -> None:
    with (ROOT / "bench" / "dpuv3_zoo.csv").open() as file:
        names = {row["model"] for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    section = (ROOT / "docs" / "models.md").read_text().partition("## The zoo")[2].partition("\n## ")[0]
    listed = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    models = [load_model(name) for name in sorted(names)]
    assert [row[:3] + row[4:] for row in listed] == [[f"`{m.name}`", str(m.gops), m.summary, m.stand_in or "-"] for m in models]


def test_a_network_of_the_zoo_that_fails(tmp_path: Path) -> None:
    done = table("dpuv3_zoo", ZOO | {"wrong": "build: E0904 open"}, "face_landmark.json", tmp_path)
    assert done.returncode == 1
    assert "- face_landmark: build: E0904 open" in done.stdout


@pytest.mark.parametrize(
    ("test", "text", "untested"),
    [
        ("tests/a/b/test_c.py", "", False),
        ("tests/a/b/test_b.py", "from toolchain.a.b.c import f", False),
        ("tests/a/test_b.py", "from toolchain.a.b import c", False),
        ("tests/a/test_b.py", "from toolchain.a.b import other", True),
        ("tests/a/b/test_d.py", "from toolchain.a.b.c import f", True),
        ("tests/test_a.py", "import toolchain.a.b.c", True),
    ],
)
def test_a_module_belongs_to_its_own_test_or_to_that_of_its_package(test: str, text: str, untested: bool, tmp_path: Path) -> None:
    for path, content in (("toolchain/a/b/c.py", "def f(): pass"), ("toolchain/a/b/__init__.py", ""), (test, text)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    done = bench("house", f"{tmp_path} --untested", tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["a/b/c.py"] if untested else [])


def test_ways_to_share_a_batch_stand_beside_the_cut() -> None:
    """A pair without room in one of two regions has no row; two clusters that share an image have half of it each."""
    late, early, wide = Copies(32, 1), Copies(8, 4), Copies(2, 16)
    cut = (Subgraph(range(2), late, 100.0), Subgraph(range(2, 3), early, 50.0))
    first = Division(cut, (Uniform(late, 180.0, 10.0), Uniform(early, 160.0, 40.0), Uniform(wide, 900.0, 160.0)))
    second = Division((Subgraph(range(1), early, 850.0),), (Uniform(early, 850.0, 40.0), Uniform(wide, 900.0, 160.0)))
    assert list(decomposition_rows(load_machine("stcp920"), [first, second], 32)) == [
        ("4 x 8 x 4", "4", "2", "4", "1,010", "1,090", "31,683,168", "0.00"),
        ("16 x 2 x 16", "16", "1/2", "16", "1,800", "2,120", "17,777,778", "0.00"),
        ("by operation", "1, 4", "8, 2", "1, 4", "1,000", "1,090", "32,000,000", "0.00"),
    ]


@pytest.mark.parametrize("ways", [Copies(1, 1, 8), Copies(4, 1, 2), Copies(2, 2)])
def test_the_least_time_of_a_batch_does_not_depend_on_how_its_images_share_runs_and_tensors(ways: Copies) -> None:
    machine, region = chip(2, 2), rows_region(1, 3, 32)
    kernels = load_kernels(machine)
    plain = compile_region(machine, kernels, region, Options(effort=0))
    found = compile_region(machine, kernels, region, Options(effort=0).taking(ways))
    assert least_of_batch(region, [found], 64) == least_of_batch(region, [plain], 64)
