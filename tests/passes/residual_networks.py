"""Small residual networks of sequences with norms before or behind their sums, and a channel that is much larger than others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tests.graph.onnx_builder import model, n, save
from tests.passes.test_fold import PASSES
from toolchain.graph.importing.load import load_graph
from toolchain.operations.library import kinds_of
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.spec.load import load_machine

F = np.float32
CHANNELS, ROWS = 64, 16
OUTLIER = 5
MACHINE = load_machine("stcp920")
KINDS = kinds_of(MACHINE)
COMPUTES = frozenset({"linear", "add", "layer_norm", "rms_norm", "scaled_layer_norm", "scaled_rms_norm", "gelu"})


def _constants(rng: np.random.Generator, outlier: float) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for number in range(3):
        weights = rng.normal(size=(CHANNELS, CHANNELS)) / 8
        weights[:, OUTLIER] *= outlier if number == 1 else 1.0
        found[f"w{number}"], found[f"b{number}"] = weights.astype(F), rng.normal(size=CHANNELS).astype(F)
        found[f"g{number}"], found[f"o{number}"] = rng.uniform(0.5, 2, CHANNELS).astype(F), rng.normal(size=CHANNELS).astype(F)
        found[f"g{number}"][OUTLIER] /= 10
    found["last"] = (rng.normal(size=(CHANNELS, 8)) / 8).astype(F)
    return found


def _dense(given: str, number: int, made: str) -> list[onnx.NodeProto]:
    return [n("MatMul", [given, f"w{number}"], [f"p{number}"], f"dense{number}"), n("Add", [f"p{number}", f"b{number}"], [made], f"bias{number}")]


def _norm(given: str, number: int, made: str) -> onnx.NodeProto:
    return n("LayerNormalization", [given, f"g{number}", f"o{number}"], [made], f"norm{number}", epsilon=1e-5)


def post_norm() -> list[onnx.NodeProto]:
    """Host -> norm; twice a layer whose result is added to its operand, and a norm; a layer."""
    first = [
        n("Softsign", ["x"], ["h"], "host"),
        _norm("h", 0, "a"),
        *_dense("a", 0, "d0"),
        n("Add", ["d0", "a"], ["s0"], "sum0"),
        _norm("s0", 1, "b"),
    ]
    second = [*_dense("b", 1, "d1"), n("Add", ["b", "d1"], ["s1"], "sum1"), _norm("s1", 2, "c")]
    return [*first, *second, n("MatMul", ["c", "last"], ["y"], "end")]


def pre_norm() -> list[onnx.NodeProto]:
    """Host -> twice a norm and a layer whose result is added; a norm, which is an output; the sums are read by the host, too."""
    first = [n("Softsign", ["x"], ["h"], "host"), _norm("h", 0, "a"), *_dense("a", 0, "d0"), n("Add", ["d0", "h"], ["s0"], "sum0")]
    second = [_norm("s0", 1, "b"), *_dense("b", 1, "d1"), n("Add", ["s0", "d1"], ["s1"], "sum1")]
    return [*first, *second, _norm("s1", 2, "y"), n("Softsign", ["s1"], ["z"], "behind")]


def alone() -> list[onnx.NodeProto]:
    """As `pre_norm`, behind a layer in place of the host's operator."""
    return [*_dense("x", 2, "h"), *(node for node in pre_norm() if node.name not in ("host", "behind"))]


FORMS = {"post": post_norm, "pre": pre_norm, "alone": alone}


def network(folder: Path, form: str, seed: int = 0, outlier: float = 60.0) -> Path:
    outputs: Mapping[str, None] = {"y": None, "z": None} if form == "pre" else {"y": None}
    constants = _constants(np.random.default_rng(seed), outlier)
    return save(model(FORMS[form](), {"x": [1, ROWS, CHANNELS]}, outputs, constants), folder)


def fused(path: Path) -> ir.Model:
    return run_passes(load_graph(path, {}), [*PASSES, Fuse()], Context(kinds=KINDS))


def sequences(count: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(count, 1, ROWS, CHANNELS)).astype(F)}
