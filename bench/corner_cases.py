"""Operations at the corners of machines, run by themselves: on the machine and exact, or left to the host for a reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolchain.operations.operation import Operation
from toolchain.operations.ways import candidates
from toolchain.schedule.kernel_selection import Selection
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.verify.kernel_check import compare_tiling
from toolchain.verify.random_operation import draw_operation

Numbers = Mapping[str, int]
MOST_MACS = 1 << 32
ENDS = {"add": {"multiply_x": 1, "multiply_z": 1}, "average_pool": {"multiply": 1, "low": -128, "high": 127}}
"""Numbers that are no corners, and that every machine takes."""


@dataclass(frozen=True)
class Case:
    """name: the corner, and how far into it. small: it takes a moment on every machine."""

    name: str
    kind: str
    numbers: Numbers
    small: bool = True


@dataclass(frozen=True)
class Placed:
    """problem: the operation as the machine computes it; None where the host does it, for this reason."""

    operation: Operation
    problem: Problem | None
    reason: str = ""


def place_case(machine: Machine, case: Case, own_shifts: bool = False) -> Placed:
    """Where an operation goes. Nothing is run. own_shifts: channels have different shifts, where the machine has that."""
    selection, rng = Selection(machine, load_kernels(machine)), np.random.default_rng(1)
    numbers = {**case.numbers, **ENDS.get(case.kind, {})}
    operation = draw_operation(machine, selection.kinds[case.kind], rng, numbers, most_macs=MOST_MACS, own_shifts=own_shifts)
    assert operation is not None, case.name
    reasons: list[str] = []
    for way in candidates(operation, selection.kinds):
        try:
            kernel = selection.kernels[selection.kernel_of(way, way.kind.data)]
        except UserError as error:
            reasons += [diagnostic.message for diagnostic in error.diagnostics]
        else:
            return Placed(operation, state_problem(machine, kernel, way))
    return Placed(operation, None, "; ".join(dict.fromkeys(reasons)))


def run_case(placed: Placed, share: int = 1) -> Tiling | None:
    """The tiles with which an operation was exact; None where none fits. share: the part of every memory that tiles may take, one over this.

    Raises UserError for a program that breaks a rule of the machine, or gives another result than the operation."""
    assert placed.problem is not None
    problem = _small(placed.problem, share)
    try:
        tiling = rank_tilings(problem, 2, 1)[0]
    except UserError:
        return None
    compare_tiling(problem, tiling, np.random.default_rng(2), placed.operation)
    return tiling


def _small(problem: Problem, share: int) -> Problem:
    """The problem where tiles may only take a part of every memory."""
    pools = {memory: tuple(replace(pool, depth=max(pool.depth // share, 1)) for pool in all_of) for memory, all_of in problem.pools.items()}
    return replace(problem, pools=pools) if share > 1 else problem


def _convolution(
    shape: tuple[int, int, int], outputs: int, kernel: tuple[int, int] = (1, 1), strides: tuple[int, int] = (1, 1),
    pads: tuple[int, ...] = (0, 0, 0, 0), dilations: tuple[int, int] = (1, 1),
) -> Numbers:  # fmt: skip
    """shape: channels, height, width. pads: top, left, bottom, right."""
    sizes = {"in_channels": shape[0], "group_channels": shape[0], "groups": 1, "out_channels": outputs, "height": shape[1], "width": shape[2]}
    return sizes | _window(kernel, strides, pads, dilations)


def _channels(
    shape: tuple[int, int, int], kernel: tuple[int, int] = (1, 1), strides: tuple[int, int] = (1, 1), pads: tuple[int, ...] = (0, 0, 0, 0)
) -> Numbers:
    return {"channels": shape[0], "height": shape[1], "width": shape[2]} | _window(kernel, strides, pads, (1, 1))


def _transposed(
    shape: tuple[int, int, int], outputs: int, kernel: int, stride: int, pads: tuple[int, ...] = (0, 0, 0, 0), dilation: int = 1, more: int = 0
) -> Numbers:
    sizes = {"in_channels": shape[0], "out_channels": outputs, "height": shape[1], "width": shape[2], "more_h": more, "more_w": more}
    return sizes | _window((kernel, kernel), (stride, stride), pads, (dilation, dilation))


def _window(kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, ...], dilations: tuple[int, int]) -> dict[str, int]:
    names = ("kh", "kw", "sh", "sw", "pad_top", "pad_left", "pad_bottom", "pad_right", "dh", "dw")
    return dict(zip(names, (*kernel, *strides, *pads, *dilations), strict=True))


def _plain(shape: tuple[int, int, int], **more: int) -> Numbers:
    return {"channels": shape[0], "height": shape[1], "width": shape[2], **more}


WINDOWED = ("depthwise", "max_pool", "average_pool")


def corner_cases() -> list[Case]:
    """All of them; the large ones last."""
    return [*_tiny(), *_windows(), *_transposed_windows(), *_many_channels(), *_long_rows(), *_large()]


def _tiny() -> list[Case]:
    return [
        Case("1x1 image", "conv2d", _convolution((16, 1, 1), 20)),
        Case("1x1 image, padded 3x3", "conv2d", _convolution((16, 1, 1), 20, (3, 3), pads=(1, 1, 1, 1))),
        Case("1x1 image, padded depthwise", "depthwise", _channels((17, 1, 1), (3, 3), pads=(1, 1, 1, 1))),
        Case("1x1 image, pool", "max_pool", _channels((17, 1, 1))),
        Case("1x1 image, mean", "average_pool", _channels((17, 1, 1))),
        Case("1x1 image, sum", "add", _plain((17, 1, 1))),
        Case("1x1 image, enlarged", "upsample", _plain((17, 1, 1), factor_h=2, factor_w=3)),
        Case("one row", "conv2d", _convolution((16, 1, 9), 16, (1, 3), pads=(0, 1, 0, 1))),
        Case("one column", "conv2d", _convolution((16, 9, 1), 16, (3, 1), pads=(1, 0, 1, 0))),
        Case("rows of one pixel, pool", "max_pool", _channels((16, 9, 1), (3, 1), (2, 1))),
        *(Case(f"prime channels {i} to {o}", "conv2d", _convolution((i, 5, 5), o, (3, 3), pads=(1, 1, 1, 1))) for i, o in ((7, 13), (61, 97))),
        *(Case(f"prime channels 61, {kind}", kind, _channels((61, 5, 5), (3, 3), pads=(1, 1, 1, 1))) for kind in WINDOWED),
    ]


def _windows() -> list[Case]:
    beside = ((2, 0, 0, 1), (0, 2, 1, 0), (0, 0, 2, 2))
    return [
        *(Case(f"kernel {k}", "conv2d", _convolution((3, 17, 17), 8, (k, k), pads=(k // 2,) * 4)) for k in (7, 11, 16, 17)),
        *(Case(f"kernel {k}, {kind}", kind, _channels((16, 17, 17), (k, k))) for k in (11, 16, 17) for kind in WINDOWED),
        *(Case(f"stride {s}", "conv2d", _convolution((5, 17, 17), 8, (3, 3), (s, s), (1, 1, 1, 1))) for s in (2, 3, 5, 7, 8, 9)),
        *(Case(f"stride {s}, kernel 1", "conv2d", _convolution((16, 17, 17), 8, (1, 1), (s, s))) for s in (2, 3, 8)),
        *(Case(f"stride {s}, kernel 16", "conv2d", _convolution((3, 33, 33), 8, (16, 16), (s, s), (7, 7, 7, 7))) for s in (2, 7, 8)),
        *(Case(f"stride 8, {kind}", kind, _channels((16, 17, 17), (3, 3), (8, 8))) for kind in WINDOWED),
        *(Case(f"pads {p}", "conv2d", _convolution((16, 9, 8), 16, (3, 3), (2, 2), p)) for p in beside),
        *(Case(f"pads {p}, {kind}", kind, _channels((16, 9, 8), (3, 3), (2, 2), p)) for p in beside for kind in WINDOWED),
        Case("pads as large as the kernel", "conv2d", _convolution((16, 7, 7), 16, (3, 3), pads=(3, 3, 4, 3))),
        Case("pads around a 1x1 kernel", "conv2d", _convolution((16, 7, 7), 16, pads=(1, 0, 0, 2))),
        Case("pads as large as the kernel, depthwise", "depthwise", _channels((16, 7, 7), (3, 3), pads=(3, 3, 4, 3))),
        *(Case(f"dilation {d}", "conv2d", _convolution((16, 17, 17), 16, (3, 3), pads=(d,) * 4, dilations=(d, d))) for d in (2, 6, 12)),
        Case("a dense layer of 20x17 pixels", "conv2d", _convolution((24, 20, 17), 8, (20, 17))),
        Case("a dense layer of 28x28 pixels", "conv2d", _convolution((1, 28, 28), 8, (28, 28))),
    ]


def _transposed_windows() -> list[Case]:
    kind, beside = "conv_transpose", ((2, 0, 0, 1), (0, 2, 1, 0), (0, 0, 2, 2))
    return [
        Case("1x1 image, transposed", kind, _transposed((17, 1, 1), 20, 4, 2, (1, 1, 1, 1))),
        Case("prime channels 61 to 97, transposed", kind, _transposed((61, 5, 5), 97, 3, 2, (1, 1, 1, 1))),
        *(Case(f"stride {s}, transposed", kind, _transposed((16, 7, 5), 8, 2 * s, s, (s // 2,) * 4)) for s in (2, 3, 5, 7, 8)),
        *(Case(f"stride {s}, kernel 1, transposed", kind, _transposed((16, 7, 5), 8, 1, s)) for s in (2, 3, 9)),
        *(Case(f"kernel {k}, transposed", kind, _transposed((5, 9, 9), 8, k, 2)) for k in (3, 11, 16, 17)),
        *(Case(f"pads {p}, transposed", kind, _transposed((16, 9, 8), 16, 4, 2, p)) for p in beside),
        Case("dilation 2, transposed", kind, _transposed((16, 9, 8), 16, 3, 2, (2, 2, 2, 2), dilation=2)),
        Case("output padded, transposed", kind, _transposed((16, 9, 8), 16, 3, 3, (1, 1, 1, 1), more=2)),
        Case("4112 channels, transposed", kind, _transposed((4112, 2, 3), 8, 2, 2)),
        Case("rows of 2011, transposed", kind, _transposed((16, 1, 2011), 16, 4, 2, (1, 1, 1, 1))),
        Case("weights of 18 MB, transposed", kind, _transposed((1024, 3, 3), 1152, 4, 2, (1, 1, 1, 1)), small=False),
    ]


def _many_channels() -> list[Case]:
    return [
        *(Case(f"{c} channels, one pixel", "conv2d", _convolution((c, 1, 1), 20)) for c in (2048, 4100, 8209, 12544)),
        *(Case(f"{c} channels, 2x3 pixels", "conv2d", _convolution((c, 2, 3), 20)) for c in (4112, 8208)),
        Case("4112 channels, kernel 3", "conv2d", _convolution((4112, 3, 3), 8, (3, 3), pads=(1, 1, 1, 1))),
        Case("8208 channels, kernel 2x1, stride 2", "conv2d", _convolution((8208, 4, 3), 8, (2, 1), (2, 2))),
        *(Case(f"{c} channels, kernel 7", "conv2d", _convolution((c, 7, 7), 8, (7, 7))) for c in (512, 1024)),
        *(Case(f"to {c} channels, 2x3 pixels", "conv2d", _convolution((16, 2, 3), c)) for c in (4112, 8208)),
        *(Case(f"4112 channels, {kind}", kind, _channels((4112, 3, 3), (2, 2))) for kind in WINDOWED),
        Case("4112 channels, sum", "add", _plain((4112, 2, 3))),
        Case("4112 channels, enlarged", "upsample", _plain((4112, 2, 3), factor_h=2, factor_w=2)),
    ]


def _long_rows() -> list[Case]:
    w = 2011
    return [
        Case(f"rows of {w}", "conv2d", _convolution((16, 1, w), 16, (1, 3), pads=(0, 1, 0, 1))),
        Case(f"rows of {w}, stride 2", "conv2d", _convolution((40, 2, w), 16, (3, 3), (2, 2), (1, 1, 1, 1))),
        Case(f"rows of {w}, first layer", "conv2d", _convolution((3, 7, w), 8, (7, 7), (2, 2), (3, 3, 3, 3))),
        *(Case(f"rows of {w}, {kind}", kind, _channels((16, 2, w), (2, 2), (2, 2))) for kind in WINDOWED),
        Case(f"rows of {w}, sum", "add", _plain((16, 1, w))),
        Case(f"rows of {w}, enlarged", "upsample", _plain((16, 1, w), factor_h=1, factor_w=2)),
    ]


def _large() -> list[Case]:
    """Many times what a machine has on chip."""
    return [
        Case("weights of 42 MB", "conv2d", _convolution((4096, 1, 1), 10240), small=False),
        Case("weights of 21 MB, kernel 3", "conv2d", _convolution((512, 3, 3), 4553, (3, 3), pads=(1, 1, 1, 1)), small=False),
        Case("a tensor of 8 MB, kernel 1", "conv2d", _convolution((64, 363, 363), 16), small=False),
        Case("a tensor of 8 MB, pool", "max_pool", _channels((64, 363, 363), (3, 3), (2, 2), (1, 1, 1, 1)), small=False),
        Case("rows of 30011", "conv2d", _convolution((32, 3, 30011), 16, (3, 3), pads=(1, 1, 1, 1)), small=False),
    ]
