"""Stages share their weights and come out the same every time."""

from pathlib import Path

import numpy as np

from tests.graph.onnx_builder import conv_net, save
from toolchain.graph.load import load_graph
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.context import Context
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.fold_constants import FoldConstants
from toolchain.passes.remove_identity import RemoveIdentity
from toolchain.passes.runner import run_passes


def _build(folder: Path, path: Path) -> list[bytes]:
    store = Store(folder)
    model = load_graph(path, {"batch": 1})
    store.save("0-import", model)
    passes = (FoldConstants(), RemoveIdentity(), FoldBatchNorm())
    run_passes(model, passes, Context(), lambda number, name, left: store.save(f"{number + 1}-{name}", left))
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def test_two_builds_are_equal_and_every_stage_runs(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    assert _build(tmp_path / "one", path) == _build(tmp_path / "two", path)
    x = {"x": np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    wanted = run_session(open_session(path), x)["y"]
    stages = sorted((tmp_path / "one").glob("*.onnx"))
    assert len(stages) == 4
    for stage in stages:
        np.testing.assert_allclose(run_session(open_session(stage), x)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_weights_are_written_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    model = load_graph(save(conv_net(), tmp_path), {"batch": 1})
    store.save("a", model)
    store.save("b", model)
    files = list((tmp_path / "out").glob("weights-*.bin"))
    assert len(files) == 1
    assert (tmp_path / "out" / "a.onnx").read_bytes() == (tmp_path / "out" / "b.onnx").read_bytes()
