import math
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from tests.steps_network import HELD, MADE, built
from toolchain.graph.importing.versions import OPSET
from toolchain.runtime.step_session import open_steps
from toolchain.spec.model import Tolerance
from toolchain.tasks.actions.paths import graph_file
from toolchain.verify.built import integer_stage
from toolchain.verify.compare import (
    Comparison,
    FirstDifference,
    compare_steps,
    differing_bits,
    distance,
    distant,
    first_difference,
    first_samples,
    moves_of,
    nudged,
    oracle_tensors,
    stacked,
    unite,
)
from toolchain.verify.verdict import Compared, Difference, StepsVerdict


def test_the_first_in_row_major_order_is_named() -> None:
    expected = np.zeros((1, 2, 3, 4), np.int8)
    found = expected.copy()
    assert first_difference(expected, found) is None
    found[0, 1, 2, 0], found[0, 1, 1, 3] = 5, -7
    assert first_difference(expected, found) == FirstDifference((0, 1, 1, 3), 0, -7, 2)


def test_halves_keep_their_fractions_and_a_nan_equals_itself() -> None:
    expected, found = np.array([np.nan, 0.25], np.float16), np.array([np.nan, 0.5], np.float16)
    assert first_difference(expected, found) == FirstDifference((1,), 0.25, 0.5, 1)
    assert first_difference(expected, expected) is None


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="compared"):
        first_difference(np.zeros(3), np.zeros(4))


def test_bits_are_compared_not_values() -> None:
    nothing, minus = np.array([0.0, np.nan], np.float32), np.array([-0.0, np.nan], np.float32)
    assert differing_bits(nothing, nothing) == 0
    assert differing_bits(nothing, minus) == 1
    assert differing_bits(nothing, nothing.astype(np.float64)) == 2
    assert differing_bits(nothing.reshape(1, 2), nothing) == 2


def test_a_tolerance_is_absolute_and_relative() -> None:
    near = Tolerance(0.5, 0.01, "it rounds")
    expected = np.array([0.0, 100.0, 100.0, np.nan, np.inf, 1.0, 1.0], np.float32)
    found = np.array([0.5, 101.5, 101.6, np.nan, np.inf, np.nan, np.inf], np.float32)
    assert distant(expected, found, near).tolist() == [False, False, True, False, False, True, True]
    assert distant(expected, found[:3], near).all()
    assert distant(expected, found.astype(np.float64), near).all()
    assert distance(expected[:5], found[:5]) == pytest.approx(1.6)
    assert distance(expected, found) == math.inf
    assert distance(expected[:0], found[:0]) == 0.0


def compared(tensor: str, image: int | None = None) -> Compared:
    difference = None if image is None else Difference(tensor, (image, 0, 0, 0), 1, 2, 3, "op", (), None)
    return Compared(tensor, "op", "dram", 10, difference)


def test_elements_add_up_and_the_first_difference_stays() -> None:
    runs = [Comparison((compared("x"), compared("y", image)), ()) for image in (None, 1, 2)]
    x, y = unite(runs)
    assert (x.elements, x.difference) == (30, None)
    assert y.elements == 30
    assert y.difference is not None
    assert (y.difference.coordinates[0], y.difference.differing) == (1, 6)


def test_an_output_that_was_overwritten_is_told_once() -> None:
    runs = [Comparison((compared("y"),), (compared("y", image),)) for image in (0, 1)]
    found = unite(runs)
    assert [item.difference and item.difference.coordinates[0] for item in found] == [None, 0]


def test_results_of_any_kind_are_compared() -> None:
    """Tensors of different shapes, lists, maps, texts."""
    one, two, half = np.zeros(3), np.array([[1.0]]), np.array([0.5, np.nan])
    assert stacked([one, one]).shape == (2, 3)
    for samples in ([one, two], [[one, two], [half]], [{"a": 1.0, "b": np.nan}, {"c": 2}], ["a", "b"]):
        assert stacked(samples).shape == (2,)
        assert differing_bits(stacked(samples), stacked(samples)) == 0
        assert differing_bits(stacked(samples), stacked(samples[::-1])) > 0
    texts = np.array([["a", "b"]], object)
    assert differing_bits(texts, texts[:, ::-1]) == 2
    assert differing_bits(stacked([[one]]), stacked([[one + 1]])) == 3


def test_last_bits_move_finite_numbers_alone() -> None:
    given = np.array([1, -2, 0, np.inf, np.nan], np.float32)
    moved = nudged(given)
    assert np.array_equal(moved, nudged(given), equal_nan=True)
    assert (np.abs(moved[:3] - given[:3]) > 0).all()
    assert np.abs(moved[:3] - given[:3]).max() <= np.finfo(np.float32).eps * 2
    assert np.array_equal(moved[3:], given[3:], equal_nan=True)
    assert nudged(np.arange(3)).tolist() == [0, 1, 2]
    assert moves_of(given[3:], moved[3:]).tolist() == [0, 0]
    near = Tolerance(0.0, 0.0, "a test")
    assert not distant(given[:3], moved[:3], near, moves_of(given, moved)[:3]).any()
    assert distant(given[:3], moved[:3], near).all()


def test_samples_come_again_where_there_are_too_few() -> None:
    samples = {"a": np.arange(3), "b": np.arange(3) * 10}
    found = first_samples(samples, 5)
    assert found["a"].tolist() == [0, 1, 2, 0, 1]
    assert found["b"].tolist() == [0, 10, 20, 0, 10]
    assert first_samples(samples, 2)["a"].tolist() == [0, 1]


def negated() -> ir.Model:
    x = ir.Value(name="x", shape=ir.Shape((1, 3)), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Neg", [x], name="neg")
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", x.shape, x.type
    return ir.Model(ir.Graph([x], [node.outputs[0]], nodes=[node], opset_imports={"": OPSET}, name="g"), ir_version=8)


@pytest.mark.parametrize("samples", [{"x": np.zeros((0, 1, 3), np.float32)}, {"x": np.zeros((2, 1, 3), np.float32), "z": np.zeros(3)}])
def test_no_sample_and_different_numbers_are_refused(samples: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="no sample"):
        oracle_tensors(negated(), samples)


def test_results_stand_behind_each_other() -> None:
    images = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    assert oracle_tensors(negated(), {"x": images})["y"].tolist() == (-images).tolist()


def verdict(**changed: object) -> StepsVerdict:
    held = built("vta")
    executor = replace(held.executor(), **changed)  # pyright: ignore[reportArgumentType]
    return compare_steps(open_steps(executor), integer_stage(graph_file(held.job).parent), held.sequences)


def test_steps_that_are_equal() -> None:
    assert verdict() == StepsVerdict(5, 5 * (HELD + MADE + 1), 0, "", 1, 2)


def test_a_wrong_start_is_found_in_the_first_step() -> None:
    found = verdict(starts={"h": np.zeros((1, HELD), np.float32), "count": np.array([3])})
    assert found.differing
    assert found.first == "'y' in step 0"


def test_a_state_that_is_forgotten_is_found_in_the_second_step() -> None:
    held = built("vta")
    session = held.session()
    own = next(iter(session._own.values()))  # pyright: ignore[reportPrivateUsage]
    own._moves = dict  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    found = compare_steps(session, integer_stage(graph_file(held.job).parent), held.sequences)
    assert found.differing
    assert found.first.endswith("in step 1")
