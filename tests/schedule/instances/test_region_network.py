"""Ranges follow the operations' index expressions, memories and rates the machine's file; no name of either is known."""

import pytest

from tests.operations import made
from tests.operations.needed_parts import needed
from tests.schedule.convolutions import convolution
from tests.schedule.search.made_graphs import inception
from tests.schedule.tiling.fused_chains import chain
from toolchain.schedule.instances.network import Network
from toolchain.schedule.instances.region_network import levels_of, network_of
from toolchain.schedule.instances.split_info import Levels
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region, Slice
from toolchain.schedule.search.draft import Space
from toolchain.spec.model import Machine

MACHINE = made.load_machine("stcp920", "paper", {"CLUSTERS": "2", "CORES": "2", "L1_KIB": "32", "LOG_LLB": "18", "LOG_DDR": "22"})
BIG = (1, 64, 20, 18)


def seen(machine: Machine, region: Region) -> tuple[Network, Levels]:
    space = Space(machine, load_kernels(machine), region, Options())
    planned = [(problem, space.clock.choice.best(problem)) for problem in space.problems]
    network = network_of(machine, region, planned)
    return network, levels_of(machine, network, planned, space.options.contexts)


@pytest.mark.parametrize("options", [{}, {"strides": (2, 2)}, {"dilations": (2, 1)}, {"pads": (0, 0, 1, 2)}])
def test_a_part_needs_as_much_of_its_operand_as_the_meaning_reads(options: dict[str, tuple[int, ...]]) -> None:
    operation = convolution(BIG, (96, 3, 3), 1, **{"pads": (1, 1, 1, 1), **options})
    network, _ = seen(MACHINE, chain(BIG, (operation, {"x": "t"})))
    (work,) = network.works
    _, channels, height, width = operation.output
    part = range(1), range(32, channels), range(3, height // 2), range(1, width)
    wanted = needed(operation.kind, operation.numbers, dict(zip(operation.kind.result.axes, part, strict=True)))["x"]
    found = work.operands[0].part(part)
    assert [(own.start, own.stop) for own in found] == [(end.first, end.stop) for end in wanted]
    assert work.cycles > 0
    assert work.unit == (1, 32, 1, 1)


def test_memories_are_those_of_a_core_and_of_its_cluster() -> None:
    """Of 32 KiB, two blocks of 3x3 weights of 32 x 32 channels and of parameters are taken off."""
    network, levels = seen(MACHINE, chain(BIG, (convolution(BIG, (64, 3, 3), 1, pads=(1, 1, 1, 1)), {"x": "t"})))
    assert levels.local == 32 * 1024 - 2 * (9 * 32 * 32 + 8 * 32)
    assert levels.shared == 1 << 18
    assert network.element == 1
    assert 0 < levels.moves < 64


def test_a_machine_of_one_stream_has_no_shared_memory() -> None:
    vta = made.load_machine("vta")
    _, levels = seen(vta, inception())
    assert levels.shared == 0
    assert 0 < levels.local < min(vta.memory[name].bytes for name in ("inp", "acc"))


def test_parts_of_a_concatenation_stand_in_it() -> None:
    block = inception()
    joined = {name: Slice("all", 32 * number) for number, name in enumerate("abcd")}
    region = Region(block.name, {**block.tensors, "all": block.tensors["a"]._replace(channels=128)}, block.inputs, ("all",), block.operations, joined)
    network, _ = seen(MACHINE, region)
    assert [(work.tensor, work.channel) for work in network.works if work.tensor == "all"] == [("all", 0), ("all", 32), ("all", 64), ("all", 96)]
    assert network.outputs == {"all"}


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_elements_of_halves_have_two_bytes(form: str) -> None:
    machine = made.load_machine("stcp920", "paper", {"FORMAT": form})
    network, _ = seen(machine, chain(BIG, (convolution(BIG, (64, 3, 3), 1, pads=(1, 1, 1, 1)), {"x": "t"})))
    assert network.element == 2
