"""The budget of accuracy: a call whose integers ruin the outputs stays in floating point, and nothing does where they lose little."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import F, run
from tests.graph.onnx_builder import model, n
from tests.passes.test_quantize import NARROW, branchy, folded, samples
from tests.reasons import said
from toolchain.accuracy.closeness import output_noise, task_loss
from toolchain.graph.integers.calls import is_candidate
from toolchain.graph.integers.functions import is_integer
from toolchain.graph.quantisation.least_squares import SWEEPS
from toolchain.graph.quantisation.table import calibrate, sample_at
from toolchain.operations.library import builtin_kinds
from toolchain.passes import budget
from toolchain.passes.budget import SWITCH, held_out, switch_of, switchboard
from toolchain.passes.context import Context, Judge
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.passes.refine import Lesson, Refinable, Say
from toolchain.spec.model.quantisation import Numerics


def spiky(seed: int = 0) -> onnx.ModelProto:
    """The channels between the first and the second layer are of such different sizes that one scale loses the small ones, which alone are read."""
    rng, size = np.random.default_rng(seed), 16
    first, second = rng.normal(size=(size, size)).astype(F), rng.normal(size=(size, size)).astype(F)
    first[:, 0] *= 3000
    second[0] = 0
    third = rng.normal(size=(size, size)).astype(F)
    nodes = [
        n("MatMul", ["x", "w1"], ["a"], "first"),
        n("Sin", ["a"], ["b"], "sin"),
        n("Add", ["a", "b"], ["s"], "sum"),
        n("MatMul", ["s", "w2"], ["t"], "second"),
        n("MatMul", ["t", "w3"], ["y"], "third"),
    ]
    return model(nodes, {"x": [1, size]}, {"y": [1, size]}, {"w1": first, "w2": second, "w3": third})


def inputs(count: int, seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(size=(count, 1, 16)).astype(F)}


def judge(loss: float) -> Judge:
    return Judge(loss, lambda given, wanted, found: task_loss(None, given, wanted, found), output_noise)


def quantised(proto: onnx.ModelProto, given: Mapping[str, np.ndarray], allowed: float | None, folder: Path, method: str = "auto") -> ir.Model:
    base = folded(proto, folder)
    context = Context("net.onnx", numerics=NARROW, table=calibrate(base, given), samples=given, recorded=True)
    context = replace(context, judge=None if allowed is None else judge(allowed))
    return run_passes(base, [Fuse(), Quantize(method=method)], context)


def noise(proto: onnx.ModelProto, integer: ir.Model, folder: Path) -> float:
    new, base = inputs(20, 99), folded(proto, folder)
    given = [sample_at(new, k) for k in range(20)]
    return output_noise([run(base, one) for one in given], [run(integer, one) for one in given])


def test_calls_whose_integers_cost_too_much_stay_in_floating_point(tmp_path: Path) -> None:
    given = inputs(40, 1)
    plain, kept = (quantised(spiky(), given, allowed, tmp_path) for allowed in (None, 0.05))
    assert noise(spiky(), plain, tmp_path) > 0.3
    assert noise(spiky(), kept, tmp_path) < 0.05
    stay = [node.name for node in kept.graph if "put the outputs off by" in said(node)]
    assert stay
    assert "third" not in stay
    assert any(is_integer(node) and node.name == "third" for node in kept.graph)


def test_small_channels_beside_large_ones_are_not_lost(tmp_path: Path) -> None:
    """A concatenation has one scale for all: of channels of 0.01 beside others of 100 nothing is left, in the output as a whole hardly anything."""
    rng = np.random.default_rng(0)
    large, small = (rng.normal(size=(4, 3, 1, 1)).astype(F) * size for size in (60, 0.006))
    nodes = [n("Conv", ["x", "large"], ["a"], "first"), n("Conv", ["x", "small"], ["b"], "second"), n("Concat", ["a", "b"], ["y"], "join", axis=1)]
    proto = model(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 8, 8, 8]}, {"large": large, "small": small})
    plain, kept = (quantised(proto, samples(12), allowed, tmp_path) for allowed in (None, 0.05))
    x = samples(1, 7)["x"][0]
    wanted, lost, found = (run(each, {"x": x})["y"][:, 4:] for each in (folded(proto, tmp_path), plain, kept))
    assert np.abs(lost - wanted).mean() > 0.5 * np.abs(wanted).mean()
    assert np.abs(found - wanted).mean() < 0.05 * np.abs(wanted).mean()
    assert "first" in {node.name for node in kept.graph if is_integer(node)}


def test_weights_that_a_draft_cannot_save_are_not_fitted_before_calls_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep on four samples tells; the rest is fitted once. With a budget in reach there is no draft, nor where all is lost."""
    from toolchain.passes import quantize

    real, lessons = quantize.refine, list[tuple[int, int]]()

    def noted(model: ir.Model, floating: ir.Model, layers: Mapping[str, Refinable], numerics: Numerics, lesson: Lesson, say: Say) -> dict[str, float]:
        lessons.append((lesson.count, lesson.sweeps))
        return real(model, floating, layers, numerics, lesson, say)

    monkeypatch.setattr(quantize, "refine", noted)
    for everything, drafts in ((1.0, []), (1.1, [(quantize.DRAFTED, 1)])):
        monkeypatch.setattr(quantize, "EVERYTHING", everything)
        kept = quantised(spiky(), inputs(40, 1), 0.05, tmp_path)
        assert lessons == [*drafts, (32, SWEEPS)]
        assert noise(spiky(), kept, tmp_path) < 0.05
        lessons.clear()
    quantised(branchy(), samples(40), 0.5, tmp_path)
    assert lessons == [(32, SWEEPS)]


def test_nothing_stays_where_the_integers_lose_little(tmp_path: Path) -> None:
    plain, kept = (quantised(branchy(), samples(12), allowed, tmp_path) for allowed in (None, 0.5))
    assert [node.op_type for node in kept.graph] == [node.op_type for node in plain.graph]


def test_the_same_twice(tmp_path: Path) -> None:
    one, other = (quantised(spiky(), inputs(40, 1), 0.05, tmp_path) for _ in range(2))
    told = [[(node.name, said(node)) for node in each.graph] for each in (one, other)]
    assert told[0] == told[1]


@pytest.mark.parametrize("numerics", [NARROW, Numerics(zero_points=True, form="float32")], ids=["narrow", "zeros"])
def test_switches_are_floating_point_or_integers(numerics: Numerics, tmp_path: Path) -> None:
    """All off it is the float network, all on the integer network, up to where conversions take over limits."""
    base = folded(branchy(), tmp_path)
    context = Context("net.onnx", numerics=numerics, table=calibrate(base, samples()), samples=samples())
    fused = run_passes(base, [Fuse()], context)
    integer = run_passes(fused.clone(), [Quantize(method="fast")], context)
    board, x = switchboard(fused, integer, numerics, builtin_kinds()), samples(1, 5)["x"][0]
    switches = [value.name or "" for value in board.graph.inputs if (value.name or "").startswith(SWITCH)]
    assert set(switches) == {switch_of(node.name or "") for node in fused.graph if is_candidate(node)} - {switch_of("")}
    off, on = (
        run(board, {"x": x, **{name: np.array(value) for name, value in zip(switches, [on] * len(switches), strict=True)}})["y"]
        for on in (False, True)
    )
    np.testing.assert_allclose(off, run(fused, {"x": x})["y"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(on, run(integer, {"x": x})["y"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "used", "learnt", "held"), [(100, 64, 64, 8), (64, 64, 56, 8), (20, 64, 16, 4), (10, 64, 8, 2), (9, 64, 9, 8), (66, 64, 64, 2)]
)
def test_samples_that_are_held_out(count: int, used: int, learnt: int, held: int) -> None:
    found = held_out({"x": np.arange(count)}, used)
    assert found.learnt == learnt
    assert len(found.samples["x"]) == held
    assert count < budget.ENOUGH or found.samples["x"].min() >= learnt


@pytest.mark.parametrize("allowed", [1.0, math.inf])
def test_the_accurate_method_falls_back_to_the_fast_one(allowed: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fitted weights are worse on held-out samples, whether or not any loss is allowed: here they are spoilt on purpose."""
    from toolchain.passes import quantize

    real = quantize.refine

    def spoilt(model: ir.Model, *more: object) -> Mapping[str, float]:
        found = real(model, *more)  # type: ignore[arg-type]
        for node in model.graph:
            if is_integer(node) and len(node.inputs) > 2 and (value := node.inputs[1]) is not None and value.const_value is not None:
                value.const_value = ir.Tensor(np.zeros_like(value.const_value.numpy()), name=value.name)
        return found

    fast = quantised(branchy(), samples(12), allowed, tmp_path, "fast")
    monkeypatch.setattr(quantize, "refine", spoilt)
    found = quantised(branchy(), samples(12), allowed, tmp_path, "accurate")
    arrays = [{name: value.const_value.numpy() for name, value in each.graph.initializers.items() if value.const_value} for each in (fast, found)]
    assert arrays[0].keys() == arrays[1].keys()
    assert all(np.array_equal(array, arrays[1][name]) for name, array in arrays[0].items())
