"""The generated C: the same text every time, no machine's name in what is shared, functions for all instructions."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.emulator.native.source import TEMPLATES, engine_source
from toolchain.spec.load import list_targets, load_machine

PRINT = "import hashlib; from toolchain.spec.load import load_machine; from toolchain.emulator.native.source import engine_source; "


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm", "stcp920"])
def test_one_function_an_instruction(name: str) -> None:
    machine = load_machine(name)
    text = engine_source(machine)
    assert all(f"static void k_{number}(" in text for number in range(len(machine.instructions)))
    assert text.count("{") == text.count("}")
    assert text == engine_source(load_machine(name))


def test_same_text_whatever_the_hash_seed() -> None:
    digests = set()
    for seed in ("0", "77"):
        code = PRINT + "print(hashlib.sha256(engine_source(load_machine('dpuv3')).encode()).hexdigest())"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
        digests.add(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.strip())
    assert digests == {hashlib.sha256(engine_source(load_machine("dpuv3")).encode()).hexdigest()}


def test_no_machine_is_named_in_what_all_share() -> None:
    shared = [*TEMPLATES.iterdir(), *Path(TEMPLATES.parents[1], "emulator", "native").glob("*.py")]
    assert len(shared) > 10
    for path in shared:
        words = path.read_text().lower() if path.is_file() else ""
        assert not any(name in words for name in list_targets()), path
