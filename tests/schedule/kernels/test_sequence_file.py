"""Instructions of a step: what is read, and what is told of those that cannot be."""

from pathlib import Path

import pytest

from toolchain.schedule.kernels.kernel import Items, issues
from toolchain.schedule.kernels.kernel_file import load_kernels, read_kernels
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("dnnvm")
PATH = Path(__file__).resolve().parents[3] / "targets" / "dnnvm" / "kernels.yaml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("LOAD: {memory: place.memory", "LOUD: {memory: place.memory", "E1002 there is no instruction or sequence 'LOUD'; did you mean 'LOAD'?"),
        ("reg: place.segment, address", "rag: place.segment, address", "E1002 LOAD has no field 'rag' for a kernel to say; did you mean 'reg'?"),
        ("{memory: place.memory, reg", "{wait: 1, memory: place.memory, reg", "E1002 LOAD has no field 'wait' for a kernel to say"),
        ("{memory: place.memory, reg", "{memory: bies, reg", "E0107 unknown name 'bies'"),
        ("{memory: place.memory, reg", "{memory: LOAD.bies, reg", "E0107 no field of LOAD has a value 'bies'; did you mean 'bias'?"),
        ("width: count}", "width: 5000}", "E0304 width is 5000, outside 1..4096"),
        (", width: count}", "}", "E1002 LOAD needs 'width', which cannot be zero"),
        ("width: count}", "width: outs}", "E0107 unknown name 'outs'"),
        (
            "{shape: stretch, memory: bias,",
            "{shape: stretch, memories: bias,",
            "E1002 shape 'stretch' takes no 'memories'; it takes: count, at, bytes",
        ),
        ("memory: bias, count: c, bytes: OC", "memory: bias, count: c", "E1002 shape 'stretch' needs 'bytes'"),
        ('let: {apart: "align(place.channels, IC)"}', 'let: {rows: "align(place.channels, IC)"}', "E1002 'rows' has a meaning here already"),
        ("load: {LOAD:", "load: {END: {}, LOAD:", "E1002 this is to be one instruction, one sequence, or 'do'"),
        (
            "shape: rows, first: 0",
            "shape: rows, frist: 0",
            "E1002 shape 'rows' takes no 'frist'; did you mean 'first'?",
        ),
        ("size: ceil_div(rows, ROWS)", "size: ceil_div(row_s, ROWS)", "E0107 unknown name 'row_s'"),
        ("kind: mean, multiplier", "kind: min(mean, 1), multiplier", "E0101 the key '1)' is a part of an expression"),
    ],
)
def test_faults_are_told_with_their_place(old: str, new: str, message: str) -> None:
    text = PATH.read_text()
    assert old in text
    with pytest.raises(UserError) as caught:
        read_kernels(MACHINE, Source("kernels.yaml", text.replace(old, new, 1)), PATH.parent)
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].span is not None


def code(kernel: str, place: str, kind: str) -> Items:
    found = next(s.code for s in load_kernels(MACHINE)[kernel].steps if s.place == place and s.kind == kind)
    assert not isinstance(found, str)
    return found


def test_units_follow_from_instructions() -> None:
    steps = {(step.kind, step.place): step.units for step in load_kernels(MACHINE)["conv2d"].steps}
    assert steps == {
        ("load", "x"): ("load",),
        ("load", "w"): ("load",),
        ("load", "bias"): ("load",),
        ("compute", "y"): ("conv",),
        ("store", "y"): ("save",),
    }


def test_fields_that_sizes_limit_are_known_and_addresses_are_not() -> None:
    (issue,) = issues(code("conv2d", "y", "compute"))
    assert {"in_rows", "width", "pad_top", "out_row_jump", "kernel_h"} <= set(issue.limited)
    assert not {"in_address", "out_bank", "weight_address"} & set(issue.limited)


def test_a_program_ends_as_the_machine_says() -> None:
    end = load_kernels(MACHINE)["add"].end
    assert not isinstance(end, str)
    assert [issue.instruction for issue in issues(end)] == ["END"]
