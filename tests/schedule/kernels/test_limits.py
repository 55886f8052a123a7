"""A kernel that leaves out a multiplier, a zero point or the type of what is stored is refused when it is read. The section `quantisation`
bounds what any kernel of a machine is asked to do."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.operations import made
from tests.ratio_machines import RATIO, Change, changed, factor
from tests.schedule.convolutions import convolution
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.limits import check_numbers
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import AverageRule, Numerics, Range

TARGETS = Path(__file__).resolve().parents[3] / "targets"
LEFT_OUT: dict[str, tuple[Change, str]] = {
    "multipliers": (("kernels.yaml", "multipliers[c] if r == 1", "1 if r == 1"), "'conv2d' does not use 'multipliers': with scale: multiplier, each"),
    "shifts": (("kernels.yaml", "shifts[c] if r == 2", "31 if r == 2"), "'conv2d' does not use 'shifts'"),
    "one multiplier": (("kernels.yaml", "multiplier if r == 1 else shift\"", "5 if r == 1 else shift\""), "'average_pool' does not use 'multiplier'"),
    "the result's zero": (("store.asm.j2", "zero_y", "0"), "'conv2d' does not use 'zero_y': the machine has zero points"),
    "a summand's zero": (("add.asm.j2", "zero_z", "zero_x"), "'add' does not use 'zero_z'"),
    "the type": (("", "type: u8, written", "type: i8, written"), "'conv2d' stores 'y' as i8, which does not hold activations from 0 to 255"),
}  # fmt: skip

MACHINE = load_machine("vta")
NUMERICS = Numerics(bias=Range(-128, 127), bias_shift=Range(0, 4), shift=Range(1, 20), align=Range(0, 3), average=AverageRule(bits=6))
SHAPE = (1, 4, 3, 3)


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_is_left_out_is_told(case: str, tmp_path: Path) -> None:
    change, message = LEFT_OUT[case]
    machine = load_machine(str(changed(tmp_path, [change])))
    with pytest.raises(UserError, match="E1009") as caught:
        load_kernels(machine)
    assert message in str(caught.value)
    assert "kernels.yaml:" in str(caught.value)


def test_fields_of_instructions_count_as_named(tmp_path: Path) -> None:
    for file in ("stcp920.yaml", "stcp920/kernels.yaml", "stcp920/sequences.yaml", "stcp920/halves.yaml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text((TARGETS / file).read_text())
    assert "rescale" in load_kernels(load_machine(str(tmp_path / "stcp920.yaml")))
    kernels = tmp_path / "stcp920" / "kernels.yaml"
    kernels.write_text(kernels.read_text().replace("scale_a: multiply * multiplier", "scale_a: multiply"))
    with pytest.raises(UserError, match="'rescale' does not use 'multiplier'"):
        load_kernels(load_machine(str(tmp_path / "stcp920.yaml")))


def test_either_way_to_treat_a_zero_point_will_do(tmp_path: Path) -> None:
    for name, change in enumerate([("kernels.yaml", "bias[c] if padded else folded[c]", "bias[c]"), ("conv.asm.j2", "zero_x if padded else 0", "0")]):
        assert load_kernels(load_machine(str(changed(tmp_path / str(name), [change]))))
    assert load_kernels(load_machine(str(RATIO))).keys() == load_kernels(load_machine(str(factor(tmp_path / "f")))).keys()


def test_a_kernel_for_shifts_of_channels_names_them_or_requires_that_they_are_alike(tmp_path: Path) -> None:
    for file in ("vta.yaml", "vta/kernels.yaml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text((TARGETS / file).read_text())
    kernels = tmp_path / "vta" / "kernels.yaml"
    plain = re.sub(r"shifts\[\w\]|shift_least", "shift", kernels.read_text())
    kernels.write_text(plain)
    with pytest.raises(UserError, match=r"E1009 kernel '\w+' does not use 'shifts' or 'shift_least'"):
        load_kernels(load_machine(str(tmp_path / "vta.yaml")))
    kernels.write_text(plain.replace("that: shift - shift <= 15", "that: shift == shift_least"))
    assert load_kernels(load_machine(str(tmp_path / "vta.yaml")))


def check(operation: Operation, numerics: Numerics | None = NUMERICS) -> None:
    kernel = load_kernels(MACHINE)[operation.kind.name]
    check_numbers(replace(MACHINE, quantisation=numerics), kernel, operation.kind, operation.numbers)


def numbered(**numbers: int) -> Operation:
    operation = convolution((1, 4, 3, 3), (4, 1, 1), bias=0, shift=4)
    return replace(operation, numbers={**operation.numbers, **numbers})


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (numbered(shift=0), "the shift is 0, outside 1..20"),
        (numbered(shift=21), "the shift is 21, outside 1..20"),
        (numbered(low=-129), "the least result is -129, outside -128..127"),
        (numbered(high=128), "the largest result is 128, outside -128..127"),
        (numbered(bias_most=128, bias_zeros=0), "the largest stored bias is 128, outside -128..127"),
        (numbered(bias_least=-129 << 4, bias_zeros=5), "the least stored bias is -129, outside -128..127"),
        (made.average_pool("a", SHAPE, made.Window((2, 2)), 32, made.Requantise(3)), "the multiplier is 32, outside -32..31"),
        (made.add("a", SHAPE, 1, 9, made.Requantise(3)), "the multiplier of 'z' is 9, outside -8..8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_lies_outside_is_refused(operation: Operation, told: str) -> None:
    with pytest.raises(UserError, match=f"E1003 .*{told}"):
        check(operation)
    check(operation, None)


@pytest.mark.parametrize(
    "operation",
    [
        numbered(shift=20, bias_least=-128 << 4, bias_most=127 << 4, bias_zeros=4),
        made.average_pool("a", SHAPE, made.Window((2, 2)), 31, made.Requantise(3)),
        made.add("a", SHAPE, 8, 1, made.Requantise(3)),
        made.max_pool("m", SHAPE, made.Window((2, 2))),
    ],
)
def test_what_lies_inside_is_done(operation: Operation) -> None:
    check(operation)
