"""Binary code of a region: the bytes of its program, a listing that names its instructions, and the same for the same region."""

from tests.runtime.small import network
from toolchain.codegen.binary import BinaryGenerator, binary_code
from toolchain.codegen.generator import Generator
from toolchain.isa.binary.container import read_container
from toolchain.isa.binary.decode import decode
from toolchain.schedule.backend import Backend
from toolchain.schedule.kernels.kernel_file import load_kernels


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
