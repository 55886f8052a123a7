"""No float stage computes anything but what the file does: on random networks none does, and each way to break one is noticed."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported, node_of, normal
from tests.graph.onnx_builder import conv_net, model, n, save
from tests.passes.random_networks import ANYTHING, inputs, random_network
from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation.table import Table, sample_at
from toolchain.graph.rewrite import add_constant
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.passes import fold, fuse
from toolchain.passes.build import build_graph, default_pipeline, float_stages
from toolchain.passes.context import Context
from toolchain.passes.pipeline import Pipeline, run_passes
from toolchain.passes.truth import check_import, check_sample, check_stage, is_quantised, noise_share, open_given
from toolchain.spec.errors import UserError

FLOATS = default_pipeline().passes[: float_stages(default_pipeline().passes) + 1]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_import_and_float_passes_never_change_a_network(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Held against ONNX Runtime on the very file; and the checks that every build makes agree that nothing changed."""
    folder, net = tmp_path_factory.mktemp("f"), random_network(seed, ANYTHING, 9)
    path, samples = save(net.model(), folder), {"x": inputs(net, seed, 2)}
    try:
        session = open_session(path, optimise=False)
    except UserError:  # ONNX Runtime's own inference is wrong behind some pools that round up, and refuses what reads them
        reject()
    wanted = run_session(session, sample_at(samples, 0))
    stage = run_passes(load_graph(path), FLOATS, Context(str(path)))
    found = run_session(open_model(stage, optimise=False), sample_at(samples, 0))
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4 * max(float(np.abs(array).max(initial=0)), 1e-3))
    build_graph(path, {}, Context(str(path), samples=samples), Store(folder / "stages"), Pipeline(FLOATS))


def built(folder: Path, samples: Any = None, table: Table | None = None) -> None:
    path = save(conv_net(), folder)
    build_graph(path, {"batch": 1}, Context("net.onnx", samples=samples, table=table), Store(folder / "stages"), Pipeline(FLOATS))


@pytest.mark.parametrize("with_samples", [True, False])
def test_a_pass_that_folds_wrongly_is_named_with_or_without_samples(with_samples: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = fold.affine_of

    def wrong(node: ir.Node) -> Any:
        found = right(node)
        return None if found is None else (found[0], found[1], -found[2])

    monkeypatch.setattr(fold, "affine_of", wrong)
    with pytest.raises(UserError, match=r"^net.onnx: E0923 the stage '..-fuse' changes what the model computes.*node 'conv1' \(conv2d__relu\)"):
        built(tmp_path, {"x": normal(0, 1, 1, 3, 8, 8)} if with_samples else None)


def test_a_fusion_that_drops_an_operand_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine's own template might: the sum reads one of its operands twice."""
    right = fuse.bind

    def wrong(match: Any) -> Any:
        found = right(match)
        assert not isinstance(found, str)
        return fuse.Fused(found.variant, found.operands[:1] * 2, found.attributes) if match.template.computes == "add" else found

    monkeypatch.setattr(fuse, "bind", wrong)
    with pytest.raises(UserError, match=r"E0923 the stage '..-fuse' changes .*: node 'add1' \(add__relu\) computes 'r2' otherwise"):
        built(tmp_path)


def test_an_import_that_changes_the_file_is_told(tmp_path: Path) -> None:
    path, x = save(conv_net(), tmp_path), {"x": normal(0, 1, 3, 8, 8)}
    imported_ = load_graph(path, {"batch": 1})
    wanted = open_given(path, path, "net.onnx", optimise=False).run(x)
    check_import(wanted, imported_, x, "net.onnx")
    dropout = node_of(imported_, "Dropout")
    dropout.replace_input_with(0, node_of(imported_, "Add").outputs[0])  # the ReLU before it is passed over
    with pytest.raises(UserError, match=r"^net.onnx: E0923 the imported model does not compute what the file does: the output 'y' differs by"):
        check_import(wanted, imported_, x, "net.onnx")


def test_a_stage_that_differs_on_the_sample_alone_is_told(tmp_path: Path) -> None:
    """A limit so high that made-up operands do not reach it, and the sample does."""
    nodes = [n("Conv", ["x", "w"], ["c"], "conv"), n("Clip", ["c", "low", "high"], ["y"], "clip")]
    constants = {"w": np.ones((1, 1, 1, 1), F), "low": np.array(0, F), "high": np.array(1000, F)}
    before, after = (imported(tmp_path, nodes, (1, 1, 2, 2), constants) for _ in range(2))
    clip = node_of(after, "Clip")
    clip.replace_input_with(2, add_constant(after.graph, "higher", np.array(2000, F)))
    check_stage(before, after, Table(0, {}), "some", "net.onnx")
    check_sample(before, after, {"x": np.full((1, 1, 2, 2), 900, F)}, "some", "net.onnx")
    with pytest.raises(UserError, match=r"E0923 the stage 'some' changes what the model computes on a sample: node 'clip' \(Clip\) makes 'y' differ"):
        check_sample(before, after, {"x": np.full((1, 1, 2, 2), 1500, F)}, "some", "net.onnx")


def test_rounding_that_an_operator_of_both_enlarges_is_no_change(tmp_path: Path) -> None:
    """A comparison near zero: the smallest difference before it is the largest after it."""
    nodes = [n("Mul", ["x", "k"], ["a"], "scale"), n("Sub", ["a", "x3"], ["b"], "difference"), n("Sign", ["b"], ["y"], "sign")]
    constants = {"k": np.array(3, F), "x3": np.array(0.3, F)}
    before, after = (imported(tmp_path, nodes, (1, 4), constants) for _ in range(2))
    near = node_of(after, "Mul")
    near.replace_input_with(1, add_constant(after.graph, "k.changed", np.array(np.nextafter(F(3), F(4)), F)))
    check_sample(before, after, {"x": np.full((1, 4), 0.1, F)}, "some", "net.onnx")


def test_a_file_that_onnx_runtime_refuses_is_stood_in_for(tmp_path: Path) -> None:
    bad = save(model([n("Relu", ["x"], ["y"])], {"x": [1]}, {"y": None}, opset=99), tmp_path, "bad.onnx")
    good = save(model([n("Relu", ["x"], ["y"])], {"x": [1]}, {"y": None}), tmp_path, "good.onnx")
    found = open_given(bad, good, "net.onnx")
    assert "ONNX Runtime refuses the model" in found.refusal
    assert found.run({"x": np.array([-1], F)})["y"] == 0
    assert open_given(good, good, "net.onnx").refusal == ""


@pytest.mark.parametrize(
    ("wanted", "found", "share"),
    [
        ([3, 4], [3, 4], 0),
        ([3, 4], [3, 5], 1 / 25),
        ([0, 0], [0, 0], 0),
        ([0, 0], [0, 1e-9], 1),
        ([1, np.nan], [1, np.nan], 0),
        ([1, np.nan], [1, 2], np.inf),
        ([1, 2], [1, np.inf], np.inf),
        ([1, 2], [1, 2, 3], np.inf),
    ],
)
def test_shares_of_noise(wanted: list[float], found: list[float], share: float) -> None:
    assert noise_share(np.array(wanted), np.array(found)) == pytest.approx(share)


def test_models_that_round_themselves(tmp_path: Path) -> None:
    assert not is_quantised(load_graph(save(conv_net(), tmp_path), {"batch": 1}))
    nodes = [n("QuantizeLinear", ["x", "s"], ["q"]), n("DequantizeLinear", ["q", "s"], ["y"])]
    assert is_quantised(imported(tmp_path, nodes, constants={"s": np.array(0.5, F)}))
