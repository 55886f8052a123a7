"""The layers that bench/vta_roofline compiles, proves and draws."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.checks import check_program
from toolchain.emulator import engine_named
from toolchain.isa.assembly import disassemble
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation, make_operation
from toolchain.schedule.compile_operation import TimedOperation, compile_operation
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.options import Options
from toolchain.spec.load import load_machine

TABLE = Path(__file__).resolve().parents[1] / "tests" / "data" / "vta_table1_layers.csv"
MACS_PER_CYCLE = 256
BYTES_PER_CYCLE = 8


@dataclass(frozen=True)
class Layer:
    """A convolution of the table, and how often the network has it."""

    operation: Operation
    count: int


@dataclass(frozen=True)
class Measured:
    """cycles: with one and with two contexts. bound: cycles that no schedule can beat. traffic: DRAM bytes moved with two contexts."""

    name: str
    count: int
    macs: int
    cycles: tuple[float, float]
    bound: float
    traffic: int
    exact: bool
    tile: str

    def percent(self, contexts: int) -> float:
        """Utilisation of the matrix unit."""
        return 100 * self.macs / MACS_PER_CYCLE / self.cycles[contexts]

    @property
    def bound_percent(self) -> float:
        return 100 * self.macs / MACS_PER_CYCLE / self.bound


def layers(seed: int = 0) -> list[Layer]:
    """Those of the table that run on the machine, with seeded weights. Padding as the framework's `SAME` of odd kernels: (K - 1) / 2."""
    rng, found = np.random.default_rng(seed), list[Layer]()
    for row in csv.DictReader(TABLE.read_text().splitlines()):
        if row["runs_on_in_paper"] != "VTA":
            continue
        size, channels, outputs, kernel, stride = (int(row[key]) for key in ("H", "IC", "OC", "K", "S"))
        weight = rng.integers(-127, 128, (outputs, channels, kernel, kernel), np.int8)
        bias = rng.integers(-100_000, 100_000, outputs, np.int32)
        pad = (kernel - 1) // 2
        operation = make_operation(
            builtin_kinds()["conv2d"], row["name"], {"x": (1, channels, size, size)}, {"weight": weight, "bias": bias},
            {"strides": (stride, stride), "pads": (pad,) * 4, "shift": 13, "low": 0, "high": 127},
        )  # fmt: skip
        assert (operation.output[2], operation.macs) == (int(row["out_h_derived"]), int(row["macs_derived"]))
        found.append(Layer(operation, int(row["count_in_resnet18_derived"])))
    return found


def lower_bound(operation: Operation) -> float:
    """Cycles: products, reset and bias at one vector a cycle, shift, max and min at two; or what a port must move."""
    vectors = operation.output[2] * operation.output[3] * -(-operation.output[1] // 16)
    taps = operation.arrays["weight"].shape[2] * operation.arrays["weight"].shape[3] * -(-operation.input("x")[1] // 16)
    reads = operation.arrays["weight"].size + int(np.prod(operation.input("x"))) // (
        operation.numbers["sh"] if operation.arrays["weight"].shape[2] == 1 else 1
    )
    return max(vectors * (taps + 2 + 3 * 2), reads / BYTES_PER_CYCLE, vectors * 16 / BYTES_PER_CYCLE)


def direct(operation: Operation, x: NDArray[np.int8]) -> NDArray[np.int64]:
    """The operation by its definition: a product for each tap, exact in float64."""
    n, (_, _, height, width) = operation.numbers, operation.output
    top, left, bottom, right = (n[f"pad_{side}"] for side in ("top", "left", "bottom", "right"))
    sh, sw, dh, dw = (n[name] for name in ("sh", "sw", "dh", "dw"))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    sums = np.zeros(operation.output)
    for u, v in np.ndindex(*operation.arrays["weight"].shape[2:]):
        part = padded[:, :, u * dh : u * dh + (height - 1) * sh + 1 : sh, v * dw : v * dw + (width - 1) * sw + 1 : sw]
        sums += np.einsum("oc,nchw->nohw", operation.arrays["weight"][:, :, u, v].astype(np.float64), part, optimize=True)
    value = sums.astype(np.int64) + operation.arrays["bias"][:, None, None]
    return np.clip((value + operation.numbers["half"]) >> operation.numbers["shift"], operation.numbers["low"], operation.numbers["high"])


def measure(layer: Layer, folder: Path) -> Measured:
    """Compiles with one and with two contexts, with as many tilings timed as in a build, checks and runs both."""
    machine, operation = load_machine("vta"), layer.operation
    kernel = load_kernel(machine, "conv2d")
    choices = [compile_operation(machine, kernel, operation, contexts, Options().timed) for contexts in (1, 2)]
    exact = all(proven(choice) for choice in choices)
    two = choices[1]
    lines = zip(two.compiled.listing, range(len(two.compiled.listing)), strict=True)
    (folder / f"{operation.name}.txt").write_text("".join(f"{number:5} {label}\n" for label, number in lines))
    (folder / f"{operation.name}.asm").write_text(disassemble(two.compiled.program))
    traffic = two.checked.footprints
    dram = [m.name for m in machine.memories].index("dram")
    moved = int(traffic.traffic_read[:, dram].sum() + traffic.traffic_written[:, dram].sum())
    tile = " ".join(f"{name}={size}" for name, size in two.tiling.sizes.items()) + f", {len(two.compiled.program)} instructions"
    return Measured(
        operation.name, layer.count, operation.macs, (choices[0].cycles, two.cycles), lower_bound(operation), moved, exact, tile
    )  # fmt: skip


def proven(choice: TimedOperation, seed: int = 1) -> bool:
    """Whether a run on random input equals the direct convolution. Raises UserError for a race, a deadlock, an address out of range."""
    operation = choice.compiled.problem.operation
    x = np.random.default_rng(seed).integers(-128, 128, operation.input("x"), np.int8)
    state = choice.compiled.state(x=x)
    checked = check_program(choice.compiled.program, state)
    engine_named("fast")(choice.compiled.program, state, checked.order)
    return bool(np.array_equal(choice.compiled.result(state, "y"), direct(operation, x)))


def weighted(found: Sequence[Measured]) -> tuple[float, float]:
    """Utilisation over the sum of all layers by their count, with one and with two contexts."""
    macs = sum(r.count * r.macs for r in found)
    one, two = (100 * macs / MACS_PER_CYCLE / sum(r.count * r.cycles[k] for r in found) for k in (0, 1))
    return one, two


def weighted_bound(found: Sequence[Measured]) -> float:
    """The same of the layers' own bounds."""
    return 100 * sum(r.count * r.macs for r in found) / MACS_PER_CYCLE / sum(r.count * r.bound for r in found)


def draw(found: Sequence[Measured], path: Path) -> None:
    """GOPS over operations per DRAM byte: both contexts, each layer's bound, the machine's roof."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 6.5))
    peak, slope = 2 * MACS_PER_CYCLE / 10, 2 * BYTES_PER_CYCLE / 10
    reach = np.geomspace(8, 600, 100)
    axes.plot(reach, np.minimum(peak, slope * reach), color="black", label="roof: 256 MAC a cycle, 8 bytes a cycle and direction, 100 MHz")
    place = [2 * r.macs / r.traffic for r in found]
    kinds = (("one context", "tab:orange", "o", 0), ("two contexts", "tab:blue", "s", 1))
    for label, colour, marker, k in kinds:
        axes.scatter(place, [peak * r.percent(k) / 100 for r in found], color=colour, marker=marker, label=label, zorder=3)
    axes.scatter(place, [peak * r.bound_percent / 100 for r in found], color="tab:red", marker="_", s=240, label="the layer's own bound", zorder=2)
    offset = {"C3": (-16, -14), "C5": (6, -14), "C4": (-16, 8)}
    for r, x in zip(found, place, strict=True):
        axes.annotate(r.name, (x, peak * r.percent(1) / 100), xytext=offset.get(r.name, (7, -4)), textcoords="offset points", fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte of DRAM traffic", ylabel="GOPS", ylim=(8, 60))
    axes.set_title(f"VTA, ResNet-18 C2 to C12: {weighted(found)[1]:.1f} % of peak over all with two contexts, {weighted(found)[0]:.1f} % with one")
    axes.set_xticks([10, 20, 50, 100, 200, 500], ["10", "20", "50", "100", "200", "500"])
    axes.set_yticks([10, 20, 30, 40, 50], ["10", "20", "30", "40", "50"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
