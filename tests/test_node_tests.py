"""A seeded sample of the ONNX project's node tests, as bench/node_tests runs them all: no refusal, no traceback, no other result."""

import random
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.node_cases import close, collect_cases
from toolchain.verify.library_check import case_modules

ROOT = Path(__file__).resolve().parents[1]
OPERATORS, SAMPLE = 60, 140


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The script, which has no ending that Python would import."""
    loader = SourceFileLoader("bench_node_tests", str(ROOT / "bench" / "node_tests"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = sys.modules[loader.name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("default")
def test_a_sample_passes(bench: ModuleType) -> None:
    chosen = random.Random(3).sample(case_modules(), OPERATORS)
    cases = bench.chosen(collect_cases(chosen), (), SAMPLE)
    target = bench.Target("dpuv3")
    outcomes = [bench.attempt(case, target) for case in cases]
    counts = Counter(outcome.kind for outcome in outcomes)
    assert [outcome for outcome in outcomes if outcome.kind not in (*bench.GOOD, "skipped")] == []
    assert counts["host"] > SAMPLE // 4
    assert counts["machine"] > 5
    assert f"{counts['machine']:5} with nodes on the machine" in bench.told(outcomes, listed=False)


def test_what_counts_as_the_same() -> None:
    one = np.array([1.0, np.nan, np.inf], np.float32)
    assert close(one, one * np.float32(1.0005))
    assert not close(one, one * np.float32(1.01))
    assert not close(one, one.astype(np.float64))
    assert not close(one, one[:2])
    assert close([one, None], [one, None])
    assert not close([one], [one, one])
    assert close(np.array(["a"]), np.array(["a"], object))
