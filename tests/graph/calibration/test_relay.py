"""A network run again with some inputs changed gives what a whole run gives, and computes no more than what lies behind them."""

from pathlib import Path

import numpy as np
import pytest

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.calibration import relay
from toolchain.graph.calibration.relay import open_relay
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import run_session

SIZE = (1, 3, 4, 4)
NODES = [
    n("Sin", ["x"], ["a"], "sin"),
    n("Conv", ["a", "w"], ["b"], "conv"),
    n("Split", ["b"], ["c", "d"], "split", axis=1, num_outputs=2),
    n("Mul", ["c", "late"], ["e"], "late"),
    n("Cos", ["d"], ["f"], "aside"),
    n("Add", ["e", "f"], ["y"], "add"),
]


@pytest.mark.parametrize(("changed", "stretches"), [({"late"}, 2), ({"x"}, 7), ({"x", "late"}, 7), (set[str](), 0)])
def test_only_what_lies_behind_is_computed_again(changed: set[str], stretches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model(NODES, {"x": SIZE, "late": (1, 2, 4, 4)}, {"y": None}, {"w": normal(0, 4, 3, 1, 1)})
    graph = load_graph(save(proto, tmp_path))
    found, runs = open_relay(graph, lambda _: 1), list[object]()
    first, new = ({"x": normal(seed, *SIZE), "late": normal(seed + 1, 1, 2, 4, 4)} for seed in (1, 5))
    known = found.run(first)
    np.testing.assert_array_equal(found.results(known)["y"], run(graph, first)["y"])

    def counted(*given: object, **more: object) -> object:
        runs.append(given)
        return run_session(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(relay, "run_session", counted)
    given = {name: new[name] for name in changed}
    np.testing.assert_array_equal(found.results(found.rerun(known, given))["y"], run(graph, {**first, **given})["y"])
    assert len(runs) == stretches


def test_stretches_are_alike_in_cost(tmp_path: Path) -> None:
    nodes = [n("Sin", [f"t{k}" if k else "x"], [f"t{k + 1}" if k < 99 else "y"], f"n{k}") for k in range(100)]
    found = open_relay(imported(tmp_path, nodes), lambda _: 1)
    assert 13 <= len(found.stretches) <= relay.STRETCHES
    x = normal(1, *SIZE).astype(F)
    assert found.run({"x": x})["y"].shape == SIZE
