"""Operations that are row by row compute the same for images behind each other as for each alone; those that mix rows are none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import complete
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.operations.reference import accumulate
from toolchain.operations.row_by_row import IMAGES, ROWS, Axes, as_rows, image_by_image, of_images, row_by_row
from toolchain.operations.whole import evaluate_stages
from toolchain.spec.arrays import Array
from toolchain.verify.operation_check import Case, draw_case

KINDS = {name: kind for name, kind in builtin_kinds().items() if (kind.meaning.of or kind.meaning.stages) and not kind.meaning.join}
ALWAYS = {"reduce_mean", "reduce_max", "add", "subtract", "multiply", "maximum", "minimum", "prelu", "linear", "layer_norm", "softmax", "copy"} | {
    "rms_norm"
}
"""Row by row, whatever their numbers are."""
TABLES = {name for name, kind in KINDS.items() if kind.meaning.table}


def operation_of(case: Case) -> Operation:
    """Scales are whole numbers of any size."""
    return Operation(case.kind, case.kind.name, complete(case.kind, case.numbers) | dict.fromkeys((*case.kind.multipliers, "unit"), 3), {})


def result(kind: OperationKind, numbers: dict[str, int], operands: dict[str, Array]) -> Array:
    if kind.meaning.stages:
        return evaluate_stages(kind, numbers, {name: array.astype(np.float64) for name, array in operands.items()})
    return accumulate(kind, numbers, {name: array.astype(np.int64) for name, array in operands.items()})


def joined(kind: OperationKind, operand: Operand, parts: list[Array], axes: Axes) -> Array:
    """Rows, or images, of computed tensors behind each other; known tensors are the same for all."""
    return np.concatenate(parts, PICTURE_AXES[len(operand.axes)].index(axes[-1])) if operand.name in (*kind.data, "y") else parts[0]


@pytest.mark.drawn(27)
@pytest.mark.parametrize("axes", [ROWS, IMAGES])
@pytest.mark.parametrize("name", sorted(KINDS.keys() - TABLES))
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 3))
def test_images_behind_each_other_give_what_each_gives_alone(name: str, axes: Axes, seed: int, images: int) -> None:
    rng, kind = np.random.default_rng(seed), KINDS[name]
    case = draw_case(kind, rng)
    operation = operation_of(case)
    if not (row_by_row if axes == ROWS else image_by_image)(operation):
        return
    numbers, tall = dict(operation.numbers), (as_rows if axes == ROWS else of_images)(operation, images)
    assert complete(kind, tall) == tall
    given = [{n: rng.integers(-9, 10, a.shape) if n in kind.data else a for n, a in case.operands.items()} for _ in range(images)]
    together = {each.name: joined(kind, each, [own[each.name] for own in given], axes) for each in kind.operands}
    assert np.array_equal(result(kind, tall, together), joined(kind, kind.result, [result(kind, numbers, own) for own in given], axes))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_operations_keep_images_apart_but_for_those_that_move_along_any_axis(name: str) -> None:
    assert (name not in ("pad", "slice", "transpose")) == image_by_image(operation_of(draw_case(KINDS[name], np.random.default_rng(1))))


@pytest.mark.parametrize("name", sorted((ALWAYS | TABLES) & KINDS.keys()))
def test_operations_of_each_element_or_row_are_row_by_row(name: str) -> None:
    assert row_by_row(operation_of(draw_case(KINDS[name], np.random.default_rng(1))))


@pytest.mark.parametrize("name", ["matmul", "attention_probabilities", "attention_values", "transpose", "multiply_channels", "append_rows"])
def test_operations_that_mix_rows_are_not(name: str) -> None:
    for seed in range(8):
        assert not row_by_row(operation_of(draw_case(builtin_kinds()[name], np.random.default_rng(seed))))


@pytest.mark.parametrize(
    ("kernel", "strides", "pads", "expected"),
    [
        ((1, 1), (1, 1), (0, 0, 0, 0), True),
        ((1, 3), (1, 2), (0, 1, 0, 1), True),  # a window along the columns alone
        ((3, 1), (1, 1), (1, 0, 1, 0), False),
        ((1, 1), (2, 1), (0, 0, 0, 0), False),
        ((1, 1), (1, 1), (1, 0, 0, 0), False),
    ],
)
@pytest.mark.parametrize("height", [1, 6])
def test_a_convolution_is_row_by_row_where_its_window_has_one_row(
    kernel: tuple[int, int], strides: tuple[int, int], pads: made.Picture, expected: bool, height: int
) -> None:
    """Of a picture of one row, too, whose only window would lie alike with any stride."""
    weight = np.zeros((3, 2, *kernel), np.int8)
    assert row_by_row(made.conv2d("c", (1, 2, height, 8), weight, np.zeros(3, np.int32), strides, pads)) == expected
