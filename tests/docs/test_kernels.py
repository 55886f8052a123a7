"""docs/kernels.md explains every key of kernel files, and its example is legal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_machine_description import keys
from toolchain.schedule.kernels.kernel_file import KERNEL_SCHEMA, load_kernels, read_kernels
from toolchain.schedule.kernels.operator_calls import load_operator_calls
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine
from toolchain.spec.schema import read_schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kernels.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)


@pytest.mark.parametrize("key", sorted(keys(read_schema(KERNEL_SCHEMA)) - {"kernels"}))
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`{key}`", PROSE), key


def test_the_example_is_legal() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert list(read_kernels(load_machine("vta"), Source("kernels.yaml", text), ROOT / "targets" / "vta")) == ["conv2d"]


def test_the_lines_of_kernels_are_as_the_docs_say() -> None:
    """The table of docs/kernels.md, and the README's sentences of three machines."""
    done = subprocess.run([sys.executable, ROOT / "bench" / "kernel_lines"], capture_output=True, text=True, check=True)
    counted = {name: (int(lines), int(keys)) for name, lines, keys in re.findall(r"^(\w+) +(\d+) lines +(\d+) keys$", done.stdout, re.M)}
    lines = {name: count for name, (count, _) in counted.items()}
    machines = {name: load_machine(name) for name in lines}
    numbers = {name: len(load_operator_calls(machine) if machine.calls_operators else load_kernels(machine)) for name, machine in machines.items()}
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.M)
    assert {name: (int(kernels), int(line), int(keys)) for name, kernels, line, keys in rows} == {
        name: (numbers[name], *counted[name]) for name in counted
    }
    words = {
        "nine": 9,
        "fourteen": 14,
        "thirty-two": 32,
        "thirty-three": 33,
        "thirty-four": 34,
        "thirty-five": 35,
        "thirty-six": 36,
        "fifty-seven": 57,
    }
    told = re.findall(r"^\| `(\w+)` \|.* ([\w-]+) kernels in (\d+) lines", (ROOT / "README.md").read_text(), re.M)
    assert {(name, words[kernels], int(count)) for name, kernels, count in told} == {(name, numbers[name], lines[name]) for name, _, _ in told}
    assert len(told) == 3
