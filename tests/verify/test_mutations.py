"""Operations and kernels that are changed at random: each is checked, or gets lines that point into its file; never a traceback."""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations import mutated
from tests.yaml_text import dumped, loaded
from toolchain.operations.library import FOLDER, kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel
from toolchain.verify.operation_check import check_operation

TARGETS = Path(__file__).resolve().parents[2] / "targets"
OPERATIONS = [path for path in sorted(FOLDER.glob("*.yaml")) if "?" not in path.read_text()]
"""Those that any reader of YAML takes."""
COUNT = 600 if os.environ.get("TILEWRIGHT_SLOW") else 40


@pytest.fixture
def machine_file(tmp_path: Path) -> Path:
    """A copy of a machine with a folder for operations of its own."""
    shutil.copy(TARGETS / "vta.yaml", tmp_path)
    shutil.copytree(TARGETS / "vta", tmp_path / "vta")
    (tmp_path / "vta" / "operations").mkdir()
    return tmp_path / "vta.yaml"


def told(error: UserError, file: Path) -> str:
    """The code of the first message, which must point into the file."""
    first = error.diagnostics[0]
    assert first.span is not None, first
    assert first.span.source.path == str(file), first
    return first.code


def test_operations(machine_file: Path) -> None:
    machine, file, seen = load_machine(str(machine_file)), machine_file.parent / "vta" / "operations" / "mine.yaml", Counter[str]()
    for seed in range(COUNT):
        draw = random.Random(seed)
        tree = mutated(loaded(draw.choice(OPERATIONS).read_text()) | {"operation": "mine"}, draw)
        file.write_text(dumped(tree))
        try:
            kinds = kinds_of(machine)
            (own,) = [kind for kind in kinds.values() if kind.span and kind.span.source.path == str(file)]
            check_operation(own, kinds, 2, seed)
            seen["equal"] += 1
        except UserError as error:
            seen[told(error, file)] += 1
    print(f"{COUNT} operations: {dict(seen)}")
    assert len(seen) > 2


def test_kernels(machine_file: Path) -> None:
    file, seen = machine_file.parent / "vta" / "kernels.yaml", Counter[str]()
    whole = loaded((TARGETS / "vta" / "kernels.yaml").read_text())
    for seed in range(COUNT // 4):
        draw = random.Random(seed)
        name = draw.choice(list(whole["kernels"]))
        file.write_text(dumped(whole | {"kernels": whole["kernels"] | {name: mutated(whole["kernels"][name], draw)}}))
        machine = load_machine(str(machine_file))
        try:
            check_kernel(machine, load_kernels(machine)[name], kinds_of(machine), 1, seed)
            seen["equal"] += 1
        except UserError as error:
            seen[told(error, file)] += 1
    print(f"{COUNT // 4} kernels: {dict(seen)}")
    assert len(seen) > 1
