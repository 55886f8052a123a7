"""Binary code of a region: the bytes of its program, a listing that names its instructions, and the same for the same region.

Origins in a bundle: read back as they were, and refused where they cannot be the program's.
"""

import json
from typing import Any

import pytest

from tests.runtime.small import network
from toolchain.codegen import Generator
from toolchain.codegen.binary import BinaryGenerator, binary_code, origins_bytes, read_origins
from toolchain.isa.decode import decode
from toolchain.isa.program import Run, StepName, origins_of, runs_of
from toolchain.isa.program_file import read_container
from toolchain.schedule.backend import Backend
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError

RUNS = [Run(2, -1, None, -1), Run(3, 0, StepName("load", "x"), 0), Run(1, 1, StepName("store", "y"), 4)]
DATA = origins_bytes(origins_of(RUNS))


def test_what_was_written_is_read() -> None:
    assert runs_of(read_origins(DATA, 6, 2, "region0")) == RUNS


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"count": [2, 3, 2]}, "are those of 7 instructions, its program has 6"),
    ({"count": [7, -1, 0]}, "are those of 6 instructions"),
    ({"operation": [-1, 0, 2]}, "column 'operation'"),
    ({"step": [-1, 0, 2]}, "column 'step'"),
    ({"step": [-2, 0, 1]}, "column 'step'"),
    ({"instance": [-1, 0]}, "column 'instance'"),
    ({"instance": [-1, 0, "x"]}, "is no proper int"),
    ({"more": []}, "unknown 'more'"),
]


@pytest.mark.parametrize(("change", "text"), CHANGES, ids=[text for _, text in CHANGES])
def test_others_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match="E1110") as caught:
        read_origins(json.dumps(json.loads(DATA) | change).encode(), 6, 2, "region0")
    assert text in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"\xff", b"[" * 100_000])
def test_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="E1110"):
        read_origins(data, 6, 2, "region0")


def test_the_blob_is_the_program() -> None:
    machine, _, compiled = network("vta")
    code, region = binary_code(compiled["region0"]), compiled["region0"]
    program = decode(machine, read_container(machine, code.blob, "blob"), "blob")
    names = [machine.instructions[int(kind)].name for kind in program.kind]
    assert names == [machine.instructions[int(kind)].name for kind in region.program.kind]
    assert [line.split()[:2] for line in code.listing.splitlines()] == [[str(number), name] for number, name in enumerate(names)]
    assert (code.target, code.suffix, code.cycles) == ("vta", "two", region.cycles)
    assert code.images == region.map.tensors["conv2.y"].shape.batch


def test_the_generator_makes_the_same_bytes_again() -> None:
    machine, _, compiled = network("vta")
    generator: Generator = BinaryGenerator()
    found = generator.generate(Backend(machine, load_kernels(machine)), compiled["region0"].region, compiled["region0"].schedule)
    assert found == binary_code(compiled["region0"])
