"""The machine of a region among those of a build."""

import onnx_ir as ir
import pytest

from toolchain.graph.regions import REGION, TARGET
from toolchain.schedule.backend import backend_of, load_backends
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


def test_a_region_has_the_machine_that_its_call_names() -> None:
    backends = load_backends([load_machine("dpuv3"), load_machine("vta")])
    assert [backend.machine.name for backend in backends] == ["dpuv3", "vta"]
    call = ir.node("region0", [], domain=REGION, name="region0", num_outputs=1, metadata_props={TARGET: "vta"})
    assert backend_of(backends, call) is backends[1]
    assert "conv2d" in {kernel.computes for kernel in backends[1].kernels.values()}
    with pytest.raises(UserError, match="E1010 the graph says that region 'region0' is for 'vta'; build the graph again"):
        backend_of(backends[:1], call)
