"""The engine of a graph gives what ONNX Runtime gives of the whole model; a damaged graph is refused with the reason."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.graph_networks import built, samples
from toolchain.graph.running.session import open_session, run_session
from toolchain.runtime.graph_engine import build_engine, engine_of
from toolchain.spec.errors import UserError


def test_regions_and_host_together_give_the_models_results() -> None:
    found = built()
    assert [step.kind for step in found.executor.manifest.plan] == ["region", "host", "region"]
    session = open_session(found.folder / "00-import.onnx", optimise=False)
    for sample in samples(3):
        expected, outcome = run_session(session, {"x": sample}), found.executor.run({"x": sample})
        assert {name: array.tobytes() for name, array in outcome.outputs.items()} == {name: array.tobytes() for name, array in expected.items()}
        assert outcome.runs == 2
    assert found.executor.modelled().cycles == sum(region.cycles for region in found.executor.manifest.regions)


def damage(change: Callable[[Any], object]) -> bytes:
    region = built().bundle.manifest.regions[0]
    held = json.loads(built().bundle.members[region.binary])
    change(held)
    return json.dumps(held).encode()


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda held: held.update(version=2), "it is not tilewright-graph 1"),
    (lambda held: held.pop("nodes"), "'nodes'"),
    (lambda held: held["constants"][0].update(offset=1 << 40), "goes past its segment"),
    (lambda held: held["constants"][0].update(shape=[-1]), "cannot be"),
    (lambda held: held["constants"][0].update(dtype="object"), "cannot be"),
    (lambda held: held["nodes"][0].update(attributes={"group": {"tensor": 1}}), "'tensor'"),
    (lambda held: held["outputs"].clear(), "its inputs and outputs are not the region's"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_damaged_graph_is_refused(change: Callable[[Any], object], message: str) -> None:
    bundle = built().bundle
    region = bundle.manifest.regions[0]
    constants = bundle.members[region.constants["constants"]]
    with pytest.raises(UserError, match=f"E1115 the graph of region 'region0' is damaged: .*{message}"):
        build_engine(region, damage(change), constants, "here")


def test_what_is_no_json() -> None:
    region = built().bundle.manifest.regions[0]
    with pytest.raises(UserError, match="E1115"):
        build_engine(region, b"{", b"", "here")
    assert engine_of(built().bundle, region, "here").region is region
    assert np.prod(region.inputs[0].shape) == 2 * 3 * 8 * 8
