"""Programs name their instructions and know each stream's place."""

import numpy as np
import pytest

from tests.coded_machine import coded_machine
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.program import stream_index
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

TEXT = "MOVE side=right where=7 count=3\nEND\n"


def test_labels_say_the_stream_where_there_are_several() -> None:
    one = assemble(coded_machine(), Source("a", TEXT))
    three = assemble(coded_machine(cores=3), Source("a", f".stream 2\n{TEXT}"))
    assert [one.label(i) for i in (0, 1)] == ["#0 MOVE at 0x0", "#1 END at 0x6"]
    assert three.label(1) == "#1 END at 0x6 of stream 2"
    assert len(one) == 2
    assert one.field(0, "where") == 7


def test_every_stream_has_its_own_queues() -> None:
    three = assemble(coded_machine(cores=3), Source("a", f".stream 2\n{TEXT}"))
    assert three.queues == 6
    assert three.queue.tolist() == (2 * 2 + three.unit).tolist()


def test_the_outer_level_varies_slowest() -> None:
    machine = load_machine("stcp920")
    streams = np.arange(machine.streams)
    assert stream_index(machine, "cluster", streams).tolist() == [s // 8 for s in range(32)]
    assert stream_index(machine, "core", streams).tolist() == [s % 8 for s in range(32)]
    with pytest.raises(KeyError):
        stream_index(machine, "device", streams)
