"""ONNX bodies, other ways and index expressions agree for every operation; where one is wrong, the check says which."""

import pytest

from toolchain.operations.library import FOLDER, builtin_kinds, read_kind
from toolchain.spec.errors import Source, UserError
from toolchain.verify.operation_check import check_operation

KINDS = builtin_kinds()


@pytest.mark.parametrize("name", KINDS)
def test_every_operation_is_equal_in_all_its_forms(name: str) -> None:
    found = check_operation(KINDS[name], KINDS, 16)
    kind = KINDS[name]
    assert found.floats == (16 if kind.floats else 0)
    assert found.integers == (0 if kind.form == "real" or name == "depthwise" else 16)
    assert bool(found.ways) == bool(kind.ways)


def test_numbers_that_the_checks_state_are_drawn() -> None:
    """And larger ones where small ones do not fit."""
    text = (FOLDER / "add.yaml").read_text().replace("operation: add", "operation: own")
    checks = 'checks: [{that: "channels == 128 and height > 1", message: m}, {that: "width % 12 == 0", message: m}]\n'
    kind = read_kind(Source("own.yaml", text + checks))
    assert check_operation(kind, {**KINDS, "own": kind}, 2).shapes == 2
    never = read_kind(Source("own.yaml", text + 'checks: [{that: "width == 1 and width == 2", message: m}]\n'))
    with pytest.raises(UserError, match=r"own.yaml:2:12: E1304 no extents from 1 to 5 and 6, 8"):
        check_operation(never, KINDS, 1)


WRONG = [
    ("conv2d", "p * sh + u * dh - pad_top", "p * sh + u - pad_top", "the float body"),
    ("conv2d", "ConvInteger <strides: ints = @strides, pads: ints = @pads", "ConvInteger <strides: ints = @strides", "the integer body"),
    ("conv2d", "if u % dh == 0 and v % dw == 0 else 0", "if u % dh == 0 else 0", "its way as 'conv2d'"),
    ("conv2d", "weight[c, 0, u, v]", "weight[c, 0, v % kh, u % kw]", "its way as 'depthwise'"),
    ("add", "x[n, c, h, w] + z[n, c, h, w]", "x[n, c, h, w] - z[n, c, h, w]", "the float body"),
    ("shuffle", "c % groups * (channels // groups) + c // groups", "c // groups * groups + c % groups", "the float body"),
    ("average_pool", "u * dh - pad_top", "u * dh", "the float body"),
    ("hard_swish", "+ 3, 0), 6), 6)", "+ 3, 0), 7), 6)", "the float body"),
    ("prelu", "Less (xwide, nothing)", "Less (nothing, xwide)", "the integer body"),
    ("linear", 'weight: "weight[o, i]"', 'weight: "weight[o, in_channels - 1 - i]"', "its way as 'conv2d'"),
    ("gelu", "erf(ratio", "tanh(ratio", "the float body"),
    ("flatten", "Flatten <axis = 1>", "Flatten <axis = 2>", "the float body"),
    ("softmax", "Softmax <axis = -1>", "Softmax <axis = 1>", "the float body"),
]


@pytest.mark.parametrize(("name", "old", "new", "part"), WRONG, ids=[f"{name}: {part}" for name, _, _, part in WRONG])
def test_a_wrong_description_is_found_out(name: str, old: str, new: str, part: str) -> None:
    path = FOLDER / f"{name}.yaml"
    text = path.read_text()
    assert old in text
    kind = read_kind(Source(str(path), text.replace(old, new, 1)))
    with pytest.raises(UserError, match=rf"E1303 of operation '{name}', {part} ") as raised:
        check_operation(kind, {**KINDS, name: kind}, 60)
    lines = raised.value.diagnostics[0].render().splitlines()
    column = lines[2].index("^")
    assert lines[1][column:].startswith("operation: " if "way" in part else f"{part.split()[1]}: "), lines


def test_checks_that_no_numbers_fit() -> None:
    text = (FOLDER / "shuffle.yaml").read_text().replace("channels % groups == 0", "channels % 1009 == 0")
    with pytest.raises(UserError, match=r"E1304 no extents from 1 to 5 and .* fit the checks of operation 'shuffle'"):
        check_operation(read_kind(Source("shuffle.yaml", text)), KINDS)
