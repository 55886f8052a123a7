"""bench/fuzz finds nothing wrong in a few graphs of each machine, and keeps a graph of which something is."""

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.random_graphs import KINDS, random_graph, samples
from tests.bench_script import run_script

ROOT = Path(__file__).resolve().parents[1]


def fuzz(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_script("fuzz", "--folder", str(folder), *words)


@pytest.mark.parametrize(("target", "seed"), [("vta", 100), ("dpuv3", 100), ("dnnvm", 509), ("stcp920", 100)])
def test_the_emulator_gives_what_the_integer_model_gives(target: str, seed: int, tmp_path: Path) -> None:
    """Seed 514 joins four channels of the host to four of the machine, which writes them in words of twelve."""
    done = fuzz(tmp_path, "--seed", str(seed), "--count", "8", "--target", target)
    assert done.returncode == 0, done.stderr
    assert re.match(rf"{target}: 8 graphs from seed {seed} on, 0 wrong; [5-8] with \d+ regions on the machine\n  conv2d ", done.stdout)


def test_a_graph_that_fails_is_kept_as_short_as_its_seed_allows(tmp_path: Path) -> None:
    """A machine without the section that says how integers are made refuses all of them."""
    (tmp_path / "vta").symlink_to(ROOT / "targets" / "vta")
    text = (ROOT / "targets" / "vta.yaml").read_text()
    start = text.index("\nquantisation:")
    stop = text.index("\n\n", start)
    (tmp_path / "vta.yaml").write_text(text[:start] + text[stop:])
    done = fuzz(tmp_path / "kept", "--seed", "3", "--count", "1", "--target", str(tmp_path / "vta.yaml"))
    assert done.returncode == 1
    assert "seed 3: E0107" in done.stderr
    kept = onnx.load(tmp_path / "kept" / "vta-3.onnx")
    assert len(kept.graph.node) <= len(random_graph(3).nodes)
    with np.load(tmp_path / "kept" / "vta-3.npz") as fed:
        assert {entry.name for entry in kept.graph.input} == set(fed)


def test_a_seed_gives_one_graph_and_fewer_steps_its_beginning() -> None:
    for seed in range(20):
        graph, again, short = random_graph(seed), random_graph(seed), random_graph(seed, 1)
        assert graph.model().SerializeToString() == again.model().SerializeToString()
        assert short.nodes[0] == graph.nodes[0]
        one, other = samples(graph, seed, 2), samples(again, seed, 2)
        assert all(np.array_equal(one[name], other[name]) for name in graph.inputs)


def test_graphs_are_valid_and_use_every_operator() -> None:
    used = set[str]()
    for seed in range(300):
        proto = random_graph(seed).model()
        onnx.checker.check_model(proto)
        onnx.shape_inference.infer_shapes(proto, strict_mode=True)
        used |= {node.op_type for node in proto.graph.node}
    assert used >= {"Conv", "ConvTranspose", "Gemm", "MatMul", "Softmax", "LayerNormalization", "Split", "DepthToSpace", "PRelu", "Resize", "Mish"}
    assert set(KINDS) == {2, 3, 4}
