"""Every machine, in every configuration, holds together; what it assumes is listed."""

from pathlib import Path

import pytest

from toolchain.isa.check_machine import load_checked_machine
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.load import list_targets, load_machine

DATA = Path(__file__).resolve().parents[1] / "data" / "machines"
NAMES = [*sorted(list_targets()), *(str(path) for path in sorted(DATA.glob("*.yaml")))]
CONFIGURATIONS = [(name, config) for name in NAMES for config in ("", *load_machine(name).configs)]
ASSUMES = {
    "dnnvm": ("encoding is not public", "LeakyReLU", "timing.resources.ddr_port"),
    "dpuv3": (
        "act_type",
        "stride_offset_out",
        "LOWEST",
        "EDGE_DEPTH",
        "QUEUE_DEPTH",
        "SETUP",
        "DRAIN",
        "MISC_ROWS",
        "BANK_PORTS",
        "pool_type",
        "select_avg",
        "ELEW: operands are added exactly",
    ),
    "gemmini": ("Nothing but a fence", "ISSUE", "timing.constants.DMA_LATENCY", "timing.classes.preloaded"),
    "stcp920": ("instruction set is not public", "64 KB L1", "numerics.scaled", "sync.counters.event"),
    "vta": ("timing.constants.DMA_SETUP",),
}


def test_there_are_four_unlike_machines() -> None:
    assert {"vta", "dpuv3", "dnnvm", "stcp920"} <= set(list_targets())


@pytest.mark.drawn(16)
@pytest.mark.parametrize(("name", "config"), CONFIGURATIONS, ids=lambda text: Path(text).stem if text else "default")
def test_a_machine_passes_every_check(name: str, config: str) -> None:
    machine = load_checked_machine(f"{name}:{config}" if config else name)
    assert machine.config == config
    assert set(machine_semantics(machine)) == set(machine.instruction)
    assert all(i.timing in {c.name for c in machine.timing.classes} for i in machine.instructions)


@pytest.mark.parametrize("name", sorted(ASSUMES))
def test_assumptions_are_listed(name: str) -> None:
    listed = load_machine(name).assumptions
    for words in ASSUMES[name]:
        assert any(words in sentence for sentence in listed), words


TWICE = ("stcp920",)
"""Machines with an instruction set for integers and another for halves."""


def test_files_stay_readable() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in list_targets().items()}
    assert all(count < (1000 if name in TWICE else 500) for name, count in lines.items()), lines
    assert all(len(path.read_text().splitlines()) < 150 for path in DATA.glob("*.yaml"))
