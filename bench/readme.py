"""The rows of README's table of measurements: the commands of each, its figures as read from what they print, and the figures that are kept."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Cells = tuple[str, str]
"""The figure here, and the one beside it."""
HEAD = "| | here | beside it | measured |"
CORES_LINE = re.compile(
    r"^\| (\d+) \| (\d+) \| ([\d,]+) \| ([\d.]+) \| ([\d,.]+) \| ([\d.]+) \| .*ddr_port [\d.,]+ MB, ([\d,]+) cycles.*\| yes \|$", re.M
)


@dataclass(frozen=True)
class Row:
    """title: README's first cell. commands: words after `bench/`, `{folder}` being a folder for what they make. read: cells from the commands'
    outputs; raises ValueError where a figure is not there, or says that something is wrong. small: the commands on a small input, none where there
    is none. stops_at_1: whether exit 1 means a wrong result, not only a goal that was missed or rows that were left out.
    """

    name: str
    title: str
    commands: tuple[str, ...]
    read: Callable[[Sequence[str]], Cells]
    small: tuple[str, ...] = ()
    stops_at_1: bool = True


@dataclass(frozen=True)
class Kept:
    """A row as it was measured. day: ISO date. processor: empty where it was not noted. seconds: of its commands, 0 where that was not noted."""

    day: str
    processor: str
    seconds: float
    here: str
    beside: str

    @property
    def measured(self) -> str:
        return ", ".join(filter(None, (self.day, self.processor)))


def found(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of the first place that fits. Raises ValueError where there is none."""
    match = re.search(pattern, text, re.M)
    if match is None:
        raise ValueError(f"nothing printed fits {pattern}")
    return match.groups()


def read_matrix(texts: Sequence[str]) -> Cells:
    rows = [line.split()[:2] for line in texts[0].splitlines() if len(line.split()) == 12 and line.split()[2] != "nodes"]
    (good,) = found(r"^(\d+) of \d+ exact, without races", texts[0])
    machines = [sum(model == other for other, _ in rows) for model in {model for model, _ in rows}]
    if not rows or int(good) < len(rows):
        raise ValueError(f"{good} of {len(rows)} are exact")
    return f"{machines.count(2)} on both, {machines.count(1)} on one: {good} of {len(rows)} exact, no race", ""


def read_resnet50(texts: Sequence[str]) -> Cells:
    ours, hand, compiled = (found(rf"^{name} +[\d,]+ +([\d.]+)", texts[0])[0] for name in ("tilewright", "vendor, hand-tuned", "vendor, compiled"))
    return f"{ours} ms", f"vendor {hand} by hand, {compiled} compiled, same cycle model"


def read_limits(texts: Sequence[str]) -> Cells:
    freed = [found(rf"^\| MISC_ROWS {rows}, BANK_PORTS 0 +\| +([\d.]+) \| +[\d,]+ \| +([\d.]+) \| +([\d.]+) \|", texts[0]) for rows in (2, 4)]
    ours, hand, compiled = (", ".join(column) for column in zip(*freed, strict=True))
    return f"{ours} ms", f"vendor by hand {hand}; compiled {compiled}"


def read_zoo(texts: Sequence[str]) -> Cells:
    good, count, ours, units, tiles, theirs = found(
        r"^(\d+) of (\d+) public networks, mean of time over bound: ([\d.]+); ([\d.]+) without the chain, .*"
        r"over the paper's bound ([\d.]+), the paper itself ([\d.]+)\.$",
        texts[0],
    )
    (slower,) = found(r"^Slower than the paper's estimate among them: (.*)\.$", texts[0])
    if good != count:
        raise ValueError(f"{good} of {count} networks were built")
    slow = "none" if slower == "none" else len(slower.split("), "))
    return (
        f"{ours} ({units} by units alone); over the paper's own bound {tiles}; {slow} slower than the paper's",
        f"paper: {theirs} over its own bound",
    )


def read_layers(texts: Sequence[str]) -> Cells:
    ours, theirs = found(r"^C2 to C12: ([\d.]+ M) cycles; in RTL simulation ([\d.]+ M),", texts[0])
    found(r"^exact: True", texts[0])
    return f"{ours} cycles", f"{theirs} in RTL simulation of VTA's own stack"


def read_peak(texts: Sequence[str]) -> Cells:
    best, bound, weighted, whole = found(
        r"^best layer ([\d.]+) % \(goal \d+, bound ([\d.]+)\).* ([\d.]+) % with two \(goal \d+, bound ([\d.]+)\)$", texts[0]
    )
    if re.search(r"\bNO\b", texts[0]):
        raise ValueError("a layer differs from the direct convolution")
    return f"{best} %, {weighted} % of 256 MAC a cycle", f"paper: 88 % at peak; bounds {bound} %, {whole} %"


def read_photographs(texts: Sequence[str]) -> Cells:
    cells = [cell.strip() for cell in found(r"^(\| efficientnet_lite0 +\| dpuv3 .*)$", texts[0])[0].split("|")[1:-1]]
    if cells[7] != "yes":
        raise ValueError("it is not exact")
    return f"{cells[8]} %, one power of two for a tensor", f"ONNX Runtime's quantiser: {cells[10]} %, with a scale for each channel {cells[11]} %"


def read_sentences(texts: Sequence[str]) -> Cells:
    means: list[str] = []
    shares, quantised = list[float](), dict[str, list[float]]()
    for machine in ("dpuv3", "clib", "stcp920"):
        cells = [cell.strip() for cell in found(rf"^(\| minilm +\| {machine} .*)$", texts[0])[0].split("|")[1:-1]]
        if cells[7] != "yes":
            raise ValueError(f"it is not exact on {machine}")
        shares.append(float(cells[3]))
        (said,) = found(rf"^- minilm on {machine}, \d+ samples: (.*)$", texts[0])
        mean, worst = found(r"integers: cosine ([\d.]+) with .*?, the worst ([\d.]+)", said)
        means.append(f"{float(mean):.3f}, {float(worst):.3f}")
        for way in ("tensor", "channel", "products"):
            quantised.setdefault(way, []).append(float(found(rf"{way}: cosine ([\d.]+)", said)[0]))
    spread, products = sorted(quantised["tensor"] + quantised["channel"]), quantised["products"][0]
    part = f"with {min(shares):.0f} to {max(shares):.0f} % of the MACs on the machine"
    return f"{'; '.join(means)}, {part}", f"ONNX Runtime's quantiser: {spread[0]:.2f} to {spread[-1]:.2f}; matrix products alone {products:.3f}"


def read_cores(texts: Sequence[str]) -> Cells:
    lines = CORES_LINE.findall(texts[0])
    if [line[1] for line in lines] != ["1", "2", "4", "8", "32"]:
        raise ValueError("a number of cores is missing, or its results differ")
    *few, most = (int(line[2].replace(",", "")) / 1e6 for line in lines)
    port = int(lines[3][6].replace(",", "")) / 1e6
    return f"{', '.join(f'{cycles:.2f}' for cycles in few)} M cycles, the same results; 32 cores {most:.2f}", f"DRAM traffic alone: {port:.2f} M"


def read_batch(texts: Sequence[str]) -> Cells:
    """Of the row `batch` that bench/graphturbo prints, in halves and in bytes."""
    pattern = r"^\| \S+ +\| \S+ +\| batch +\| +(\d+) \| +- \| +[\d,]+ \| +([\d,]+) \| +(\S+) \|.* ([\d.]+) \|$"
    (images, halves, paper, share), (_, bytes_too, _, other) = (found(pattern, text) for text in texts)
    told = f"{halves} images/s in f16, {bytes_too} in int8, {images} at once with an L1 of 1.25 MiB"
    return f"{told}: {share} and {other} % of what products or DRAM alone allow", f"GraphTurbo paper, f16: {paper} images/s"


def read_images(texts: Sequence[str]) -> Cells:
    rates = [line[5] for text in texts for line in CORES_LINE.findall(text)]
    if len(rates) != 3:
        raise ValueError("a network is missing, or its results differ")
    return f"{', '.join(rates)} TOP/s", "DNNVM paper: 1.38, 1.41, 2.82"


def read_c99(texts: Sequence[str]) -> Cells:
    ours, int8, real = (found(rf"^  {name} +([\d.]+) ", texts[0])[0] for name in ("clib", "ONNX Runtime int8", "ONNX Runtime float32"))
    return f"{ours} ms", f"ONNX Runtime: int8 {int8} ms, float32 {real} ms"


def read_fuzz(texts: Sequence[str]) -> Cells:
    lines = re.findall(r"^(dpuv3|vta): (\d+) graphs from seed \d+ on, (\d+) wrong", texts[0], re.M)
    if not lines or any(int(wrong) for _, _, wrong in lines) or len({count for _, count, _ in lines}) > 1:
        raise ValueError("a graph is wrong")
    names = [{"dpuv3": "DPUv3INT8", "vta": "VTA"}[name] for name, _, _ in lines]
    return f"{int(lines[0][1]):,} of {int(lines[0][1]):,} exact on {' and on '.join(names)}", ""


def read_emulation(texts: Sequence[str]) -> Cells:
    ours, theirs = (float(found(rf"^  {name} +([\d.]+) ms", texts[0])[0]) / 1e3 for name in ("together", "ONNX Runtime in int8"))
    return f"{ours:.2f} s", f"ONNX Runtime in int8: {theirs:.2f} s"


ROWS = (
    Row(
        "matrix",
        "[Every network on VTA and DPUv3INT8](docs/matrix.md), every offloaded tensor against ONNX Runtime (`matrix`)",
        ("matrix",),
        read_matrix,
        ("matrix --only digits --machines vta --folder {folder}",),
        stops_at_1=False,
    ),
    Row(
        "resnet50",
        "ResNet-50, four images, DPUv3INT8 (`resnet50_dpuv3`)",
        ("resnet50_dpuv3 {folder}/resnet50",),
        read_resnet50,
    ),
    Row(
        "limits",
        "the same with [free ports of banks](docs/calibration.md#limits-that-nothing-public-tells), and with four rows a cycle in additions and"
        " pools too (`dpuv3_limits`)",
        ("dpuv3_limits rows --folder {folder}/limits",),
        read_limits,
    ),
    Row(
        "zoo",
        "[14 public networks of the DPUv3INT8 paper](docs/zoo.md), time over the least possible, mean (`dpuv3_zoo`)",
        ("dpuv3_zoo",),
        read_zoo,
    ),
    Row(
        "layers",
        "ResNet-18's layers C2 to C12 on VTA (`vta_resnet18`)",
        ("vta_resnet18 {folder}/vta_resnet18",),
        read_layers,
    ),
    Row(
        "peak",
        "the same at their peak, and weighted (`vta_roofline`)",
        ("vta_roofline {folder}/vta_roofline",),
        read_peak,
        ("vta_roofline {folder}/vta_roofline C11",),
    ),
    Row(
        "photographs",
        "[Pretrained EfficientNet-lite0](docs/real-networks.md), first answers on photographs as in floating point (`real`)",
        ("real --model efficientnet_lite0 --target dpuv3",),
        read_photographs,
    ),
    Row(
        "sentences",
        "MiniLM's [sentence embeddings](docs/real-networks.md), 24 sentences, mean and worst cosine on DPUv3INT8, clib, stcp920 (`real`)",
        ("real --model minilm --target dpuv3,clib,stcp920",),
        read_sentences,
    ),
    Row(
        "cores",
        "ResNet-50 on 1, 2, 4 and 8 cores of stcp920, [synchronised across cores](docs/synchronisation.md#several-streams) (`many_cores`)",
        ("many_cores --streams 1,2,4,8,32 --folder {folder}/cores",),
        read_cores,
    ),
    Row(
        "batch",
        "ResNet-50 v1.5 on the 32 cores of stcp920, in [sub-graphs](docs/many-cores.md#sub-graphs) with images and cores of their own (`graphturbo`)",
        (
            "graphturbo --target stcp920:datasheet --params FORMAT:f16 --ways= --batch 64 --effort 0 --folder {folder}/batch",
            "graphturbo --target stcp920:datasheet --ways= --batch 64 --effort 0 --folder {folder}/batch",
        ),
        read_batch,
        (
            "graphturbo --model digits --params FORMAT:f16 --ways= --batch 4 --effort 0 --folder {folder}/batch",
            "graphturbo --model digits --ways= --batch 4 --effort 0 --folder {folder}/batch",
        ),
    ),
    Row(
        "images",
        "Three images on the three cores of DPUCZDX8G on a ZU9: ResNet-50, GoogLeNet, VGG-16's convolutions"
        " ([`images=3`](docs/schedules.md#several-images), `many_cores`)",
        tuple(
            f"many_cores --target dnnvm:zu9 --streams 1 --images 3 --folder {{folder}}/images --model {model}"
            for model in ("resnet50", "inception_v1", "{folder}/vgg16_convolutions.yaml")
        ),
        read_images,
    ),
    Row(
        "c99",
        "ResNet-18 in int8 as [C99](docs/code-generators.md), one thread (`clib`)",
        ("clib",),
        read_c99,
        ("clib --model digits --runs 1",),
    ),
    Row(
        "fuzz",
        "random graphs of random operations, emulator against integer ONNX (`fuzz`)",
        ("fuzz --target dpuv3,vta --folder {folder}/fuzz",),
        read_fuzz,
        ("fuzz --target dpuv3,vta --count 1 --folder {folder}/fuzz",),
    ),
    Row(
        "emulation",
        "emulating those four images (`whole_model`)",
        ("whole_model dpuv3 resnet50 {folder}/resnet50",),
        read_emulation,
        ("whole_model vta digits {folder}/digits",),
    ),
)


def table(kept: Mapping[str, Kept], rows: Sequence[Row] = ROWS) -> list[str]:
    """README's lines; a row that was never measured has dashes."""
    lines = [HEAD, "|---|---|---|---|"]
    for row in rows:
        known = kept.get(row.name)
        cells = (known.here, known.beside, known.measured) if known else ("-", "-", "-")
        lines.append(f"| {row.title} | {' | '.join(cells)} |".replace("|  |", "| |"))
    return lines


def written(page: str, kept: Mapping[str, Kept]) -> str:
    """The page with its table made anew. Raises ValueError for a page without the table."""
    before, head, rest = page.partition(HEAD)
    if not head:
        raise ValueError(f"there is no table that begins with {HEAD}")
    _, gap, after = rest.partition("\n\n")
    return before + "\n".join(table(kept)) + gap + after


def read_kept(path: Path) -> dict[str, Kept]:
    """Rows by name, none where there is no file."""
    return {name: Kept(**entry) for name, entry in json.loads(path.read_text()).items()} if path.is_file() else {}


def write_kept(path: Path, kept: Mapping[str, Kept]) -> None:
    """In the order of the table."""
    path.write_text(json.dumps({row.name: asdict(kept[row.name]) for row in ROWS if row.name in kept}, indent=1, ensure_ascii=False) + "\n")
