"""Regions of tall tensors for a machine with short memories, so that hardly anything stays on chip but as rings of rows."""

from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np

from tests.operations import made
from tests.schedule.made_regions import Builder
from toolchain.abi.dram_map import Shape
from toolchain.schedule import planner
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.groups import rings, search
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.pools import Pool, wraps
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine, Memory

DPU = Path(__file__).resolve().parents[3] / "targets" / "dpuv3.yaml"
LONG = "depth: 8192 if bank < 16 else 4096"
KINDS = ("conv2d", "conv2d", "max_pool", "add", "upsample", "depthwise")


@cache
def short_machine(depth: int = 128, quick: bool = False) -> tuple[Machine, dict[str, Kernel]]:
    """The machine of `targets/dpuv3.yaml` with so many words in a bank of feature maps: it wraps more often, and all addresses stay right.
    quick: banks without limits of ports, and pools and additions of four rows a cycle."""
    rates = {"BANK_PORTS": "0", "MISC_ROWS": "4"} if quick else {}
    text = DPU.read_text()
    assert text.count(LONG) == 1
    machine = load_text(text.replace(LONG, f"depth: {depth}"), str(DPU), overrides={**made.LEAST["dpuv3"], **rates})
    return machine, dict(load_kernels(machine))


class TallBuilder(Builder):
    """Each operation takes one of the last tensors, so that there are long chains."""

    def tall(self, steps: int) -> Region:
        shape = Shape(4, int(self.rng.choice([3, 16, 32])), int(self.rng.integers(90, 160)), int(self.rng.integers(4, 10)))
        self.tensors["in0"] = shape
        self.inputs.append("in0")
        for _ in range(steps):
            self.step()
        read = {name for bound in self.operations for key, name in bound.tensors.items() if key != "y"}
        ends = tuple(n for n in self.tensors if n not in read and n not in self.slices)
        return Region("tall", self.tensors, tuple(self.inputs), ends, tuple(self.operations), self.slices)

    def end(self) -> made.Requantise:
        return made.Requantise(int(self.rng.integers(1, 9)), int(self.rng.choice([0, -128])), 127)

    def source(self) -> str:
        names = sorted(self.tensors, key=lambda name: (len(name), name))
        return str(self.rng.choice(names[-1 if self.rng.random() < 0.7 else -2 :]))


def tall_region(seed: int, steps: int) -> Region | None:
    """A random region; None where nothing could be done with the first tensor."""
    found = TallBuilder(np.random.default_rng(seed), KINDS, 4).tall(steps)
    return found if found.operations else None


def scheduled(region: Region, around: bool = True) -> Schedule:
    """What the search makes of it where groups cost nothing and none is timed: as many as there can be. around: rings may go round all banks; else
    they may make lines again."""

    def goes_round(memory: Memory, pool: Pool) -> bool:
        return around and wraps(memory, pool)

    free, wrap = mock.patch.object(search, "_cycles", return_value=0.0), mock.patch.object(rings, "wraps", side_effect=goes_round)
    with free, wrap, mock.patch.object(planner, "sure", side_effect=search.sure if around else list):
        return find_schedule(*short_machine(), region, Options(timed_groups=False))
