"""README's table of measurements is what bench/all prints: its rows, commands and days; its figures are not asserted, only how they are read."""

import datetime
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.readme import HEAD, ROWS, Cells, Kept, Row, read_kept, read_zoo, table, write_kept, written
from toolchain.models.load import load_model
from toolchain.models.model import Layered

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BENCH = ROOT / "bench" / "all"
MATRIX = """model   machine  nodes %  MACs %  regions  images      ms  util %  tensors  exact  races  same bytes
digits  vta        100.0   100.0        1       1   0.093    22.4       12    yes      0         yes
digits  dpuv3      100.0   100.0        1       4   0.003    27.0       12    yes      0         yes
reid    dpuv3      100.0   100.0        1       4   1.703    87.0       12    yes      0           -

3 of 82 exact, without races; 79 not built yet
"""
RESNET50 = """program              instructions      ms  frames/s  conv ms  misc ms  load ms  save ms
tilewright                  4,049   7.157     558.9     6.79     1.68     1.39     0.00
vendor, hand-tuned          1,796   7.456     536.5     7.14     1.20     1.50     0.00
vendor, compiled            1,468   8.760     456.6     7.07     1.22     1.50     0.00
"""
LIMITS = """| limit                     | ours ms | instructions | resnet50_hand ms | resnet50_compiled_pipelined ms |
|---------------------------|--------:|-------------:|-----------------:|-------------------------------:|
| no limits                 |   6.948 |        3,300 |            7.164 |                          8.468 |
| MISC_ROWS 4, BANK_PORTS 0 |   6.752 |        3,300 |            7.164 |                          8.468 |
| MISC_ROWS 2, BANK_PORTS 0 |   6.902 |        4,232 |            7.164 |                          8.468 |
"""
ZOO = """14 of 14 public networks, mean of time over bound: 1.142; 1.176 without the chain, 1.052 over our busiest unit; \
over the paper's bound 0.906, the paper itself 1.27.
Slower than the paper's estimate among them: none.
"""
LAYERS = "C2 to C12: 7.67 M cycles; in RTL simulation 7.73 M, -0.8 %; bound 6.62 M\nexact: True\n"
PEAK = "best layer 96.5 % (goal 93, bound 97.3); weighted sum 71.8 % with one context, 86.9 % with two (goal 84, bound 87.6)\n"
PHOTOGRAPHS = "| efficientnet_lite0 | dpuv3 | 100.0 | 100.0 | 1 | 1.69 | 2.25 | yes | 97.2 | 97.2 | 63.9 | 86.1 | - |\n"
SENTENCES = "".join(
    f"| minilm | {name} | 90.0 | {macs} | 9 | 1.00 | 2.00 | yes | 98.0 | 98.0 | 40.0 | 40.0 | 90.0 |\n"
    f"- minilm on {name}, 24 samples: integers: cosine {mean} with the float network's, the worst {worst}; "
    "tensor: cosine 0.3712 with the float network's, the worst 0.1; channel: cosine 0.4101 with the float network's, the worst 0.2; "
    "products: cosine 0.9402 with the float network's, the worst 0.9\n"
    for name, macs, mean, worst in (("dpuv3", 65.7, 0.9861, 0.9602), ("clib", 76.7, 0.9912, 0.972), ("stcp920", 75.3, 0.988, 0.967))
)
PORTS = "1.00 | 19,700 | 0 | ddr_port 36.5 MB, 277,432 cycles; llb_port 52.1 MB, 101,729 cycles | yes |\n"
CORES = "".join(
    f"| 1 | {cores} | {cycles} | 2.575 | 388.4 | 2.997 | 36.6 | {PORTS}"
    for cores, cycles in ((1, "2,577,068"), (2, "1,300,078"), (4, "689,251"), (8, "497,616"), (32, "493,950"))
)
BATCH = "| resnet50_v1_5 | stcp920 | batch  |     32 |            - | 3,016,187 |   10,609 | 8,480 | 389.1 | unit mte |      75 |       33.2 |\n"
IMAGES = [f"| 3 | 1 | 5,389,128 | 16.331 | 183.7 | {rate} | 35.0 | {PORTS}" for rate in ("1.417", "1.712", "3.436")]
C99 = "  clib             19.3   48.6 by its file\n  ONNX Runtime int8         16.0   clib takes\n  ONNX Runtime float32      34.8   clib takes\n"
FUZZ = "dpuv3: 2000 graphs from seed 0 on, 0 wrong; 48 with\nvta: 2000 graphs from seed 0 on, 0 wrong; 48 with\n"
EMULATION = "  together                  131.4 ms   at most 500 ms\n  ONNX Runtime in int8       38.0 ms   the emulator takes\n"
PRINTED: dict[str, tuple[list[str], Cells]] = {
    "matrix": ([MATRIX], ("1 on both, 1 on one: 3 of 3 exact, no race", "")),
    "resnet50": ([RESNET50], ("7.157 ms", "vendor 7.456 by hand, 8.760 compiled, same cycle model")),
    "limits": ([LIMITS], ("6.902, 6.752 ms", "vendor by hand 7.164, 7.164; compiled 8.468, 8.468")),
    "zoo": (
        [ZOO],
        ("1.142 (1.176 by units alone); over the paper's own bound 0.906; none slower than the paper's", "paper: 1.27 over its own bound"),
    ),
    "layers": ([LAYERS], ("7.67 M cycles", "7.73 M in RTL simulation of VTA's own stack")),
    "peak": ([PEAK], ("96.5 %, 86.9 % of 256 MAC a cycle", "paper: 88 % at peak; bounds 97.3 %, 87.6 %")),
    "photographs": (
        [PHOTOGRAPHS],
        ("97.2 %, one power of two for a tensor", "ONNX Runtime's quantiser: 63.9 %, with a scale for each channel 86.1 %"),
    ),
    "sentences": (
        [SENTENCES],
        (
            "0.986, 0.960; 0.991, 0.972; 0.988, 0.967, with 66 to 77 % of the MACs on the machine",
            "ONNX Runtime's quantiser: 0.37 to 0.41; matrix products alone 0.940",
        ),
    ),
    "cores": ([CORES], ("2.58, 1.30, 0.69, 0.50 M cycles, the same results; 32 cores 0.49", "DRAM traffic alone: 0.28 M")),
    "batch": (
        [BATCH.replace("10,609", "5,309").replace("33.2", "21.5"), BATCH],
        (
            "5,309 images/s in f16, 10,609 in int8, 32 at once with an L1 of 1.25 MiB: 21.5 and 33.2 % of what products or DRAM alone allow",
            "GraphTurbo paper, f16: 8,480 images/s",
        ),
    ),
    "images": (IMAGES, ("1.417, 1.712, 3.436 TOP/s", "DNNVM paper: 1.38, 1.41, 2.82")),
    "c99": ([C99], ("19.3 ms", "ONNX Runtime: int8 16.0 ms, float32 34.8 ms")),
    "fuzz": ([FUZZ], ("2,000 of 2,000 exact on DPUv3INT8 and on VTA", "")),
    "emulation": ([EMULATION], ("0.13 s", "ONNX Runtime in int8: 0.04 s")),
}
"""By row: what its commands print, and the cells that this makes."""


def readme_rows() -> list[list[str]]:
    """Cells of README's table."""
    lines = README[README.index(HEAD) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r" \|(?= |$)", line.removeprefix("|"))][:-1] for line in lines]


def row_named(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def test_readme_has_the_rows_that_the_bench_prints() -> None:
    assert [cells[0] for cells in readme_rows()] == [row.title for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_the_command_that_it_runs(row: Row) -> None:
    (named,) = re.findall(r"`(\w+)`\)$", row.title)
    assert {command.split()[0] for command in row.commands} == {named}
    assert (ROOT / "bench" / named).is_file()
    assert {command.split()[0] for command in row.small} <= {named}


def test_readme_says_of_each_row_when_it_was_measured() -> None:
    kept = read_kept(ROOT / "bench" / "all.json")
    assert [cells[-1] for cells in readme_rows()] == [kept[row.name].measured if row.name in kept else "-" for row in ROWS]
    for name, known in kept.items():
        assert datetime.date.fromisoformat(known.day), name


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_figures_are_read_from_what_a_bench_prints(name: str) -> None:
    texts, cells = PRINTED[name]
    assert row_named(name).read(texts) == cells


WRONG: dict[str, Callable[[str], str]] = {
    "matrix": lambda text: text.replace("3 of 82", "2 of 82"),
    "limits": lambda text: text.replace("6.902", "E0520"),
    "zoo": lambda text: text.replace("14 of 14", "13 of 14"),
    "layers": lambda text: text.replace("True", "False"),
    "peak": lambda text: "C2  4  115.6  NO\n" + text,
    "photographs": lambda text: text.replace("yes", "NO"),
    "sentences": lambda text: text.replace("yes", "NO"),
    "cores": lambda text: text.replace("yes", "NO"),
    "images": lambda text: text.replace("yes", "NO"),
    "fuzz": lambda text: text.replace("0 wrong", "1 wrong"),
}
"""By row: an output that says that something is wrong."""


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_no_figure_is_made_up(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        row_named(name).read([""] * len(row_named(name).commands))
    if name in WRONG:
        with pytest.raises(ValueError, match=r"."):
            row_named(name).read([WRONG[name](text) for text in PRINTED[name][0]])


KEPT = Kept("2026-01-02", "a processor", 3.0, "4 ms", "")


def test_the_table_takes_its_place_and_nothing_else_changes(tmp_path: Path) -> None:
    write_kept(tmp_path / "kept.json", {"fuzz": KEPT})
    kept = read_kept(tmp_path / "kept.json")
    page = written(f"before\n\n{HEAD}\n|---|\n| old | - | - | - |\n\nafter\n\nmore\n", kept)
    assert page == "before\n\n" + "\n".join(table(kept)) + "\n\nafter\n\nmore\n"
    assert f"| {row_named('fuzz').title} | 4 ms | | 2026-01-02, a processor |" in page.splitlines()
    with pytest.raises(ValueError, match="there is no table"):
        written("no table", kept)


def bench(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """The names of the script, for this command line."""
    monkeypatch.setattr(sys, "argv", ["all", *words])
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    return runpy.run_path(str(BENCH))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("kernel_lines", "kernel_lines: no figure"),
        ("matrix --machines", "kernel_lines: bench/matrix ends with 2: "),
        ("matrix --table --folder {folder}", "kernel_lines: bench/matrix ends with 1: "),
    ],
)
def test_a_row_that_fails_is_told_and_not_kept(
    command: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(_: object) -> Cells:
        raise ValueError("no figure")

    assert bench(monkeypatch)["measured"](Row("kernel_lines", "", (command,), read), tmp_path) is None
    assert told in capsys.readouterr().err


def test_a_row_is_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("kernel_lines", "", ("kernel_lines",), lambda texts: (texts[0].split()[0], ""))
    kept = bench(monkeypatch)["measured"](row, tmp_path)
    assert datetime.date.fromisoformat(kept.day) >= datetime.date.today() - datetime.timedelta(1)
    assert kept.here
    assert kept.processor


def test_what_is_kept_is_shown_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_kept(tmp_path / "kept.json", {"fuzz": KEPT})
    assert bench(monkeypatch, "--table", "--kept", str(tmp_path / "kept.json"))["main"]() == 0
    assert capsys.readouterr().out.splitlines() == table({"fuzz": KEPT})
    assert bench(monkeypatch, "--list", "--kept", str(tmp_path / "kept.json"))["main"]() == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [row.name for row in ROWS]
    assert [line.split()[1] for line in listed if line.startswith("fuzz")] == ["3"]


def test_the_network_of_convolutions_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(monkeypatch)["prepare"](tmp_path)
    model = load_model(str(tmp_path / "vgg16_convolutions.yaml"))
    assert isinstance(model.origin, Layered)
    layers = model.origin.network.layers
    assert (len(layers), layers[-1].shape) == (13 + 13 + 5, (1, 512, 7, 7))  # each convolution with its Relu; five pools


def test_the_zoo_of_the_readme_is_that_of_its_page() -> None:
    """The page is the bench's output, so the reader fits what the bench prints."""
    here, beside = read_zoo([(ROOT / "docs" / "zoo.md").read_text()])
    assert f"| {here} | {beside} |" in (ROOT / "README.md").read_text()
