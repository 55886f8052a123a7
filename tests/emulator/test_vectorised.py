import json
from pathlib import Path

import numpy as np
import pytest

from toolchain.emulator.queues import issue_order
from toolchain.emulator.state import new_state
from toolchain.emulator.vectorised import run
from toolchain.isa.decode import decode
from toolchain.spec.load import load_machine

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_vta_goldens(path: Path) -> None:
    machine = load_machine("vta")
    with np.load(path) as data:
        assert json.loads(str(data["meta"]))["config"]
        program = decode(machine, [data["insns"].tobytes()])
        state, size = new_state(machine), data["dram_before"].size
        state.memories["dram"][0, :size] = data["dram_before"].ravel()
        run(program, state, issue_order(program))
        assert np.array_equal(state.memories["dram"][0, :size], data["dram_after"].ravel())
