"""The generated C means the same to every compiler that is there."""

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.random_programs import random_program, random_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.emulator import native, numpy_engine
from toolchain.isa.decode import decode
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

GOLDEN = sorted((Path(__file__).parents[2] / "data" / "vta_golden").glob("*.npz"))
NAMES = ("gcc", "clang", *(f"clang-{version}" for version in range(14, 22)))
FOUND = {Path(path).resolve(): path for name in reversed(NAMES) if (path := shutil.which(name))}
"""Each compiler once, by the shortest of its names."""

SMALL = {"vta": {"LOG_DRAM": "20"}, "dpuv3": {"LOG_DDR": "20"}}


@cache
def small(name: str) -> Machine:
    return load_machine(name, overrides=SMALL[name])


@pytest.fixture(params=sorted(FOUND.values()) or [pytest.param("", marks=pytest.mark.skip("no C compiler"))])
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TILEWRIGHT_CC", request.param)
    monkeypatch.delenv("TILEWRIGHT_CFLAGS", raising=False)
    return request.param


@pytest.mark.usefixtures("compiler")
def test_vta_goldens() -> None:
    machine = load_machine("vta")
    for path in GOLDEN:
        with np.load(path) as data:
            assert json.loads(str(data["meta"]))["config"]
            program = decode(machine, [data["insns"].tobytes()])
            state, size = new_state(machine), data["dram_before"].size
            state.memories["dram"][0, :size] = data["dram_before"].ravel()
            native.run(program, state, issue_order(program))
            assert np.array_equal(state.memories["dram"][0, :size], data["dram_after"].ravel()), path


@pytest.mark.drawn(2)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("flags", [(), ("-DTW_INTRINSICS",), ("-DTW_PLAIN",)], ids=["this CPU", "by intrinsics", "any CPU"])
@pytest.mark.parametrize("name", sorted(SMALL))
def test_random_programs(name: str, flags: tuple[str, ...]) -> None:
    machine = small(name)
    for seed in range(3):
        program = random_program(machine, seed)
        order, expected = issue_order(program), random_state(machine, seed)
        found = expected.copy()
        numpy_engine.run(program, expected, order)
        native.run(program, found, order, flags)
        for memory, content in expected.memories.items():
            assert np.array_equal(found.memories[memory], content), memory
