"""The machine of a region among those of a build. `target check` reads all that the compiler will: each fault is told with its place, several
at once."""

from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from tests.schedule.template_kernels import write_template_kernels
from toolchain.graph.regions import REGION, TARGET
from toolchain.schedule.backend import backend_of, check_conventions, load_backends
from toolchain.spec.errors import UserError
from toolchain.spec.load import find_target, load_machine, load_text


def test_a_region_has_the_machine_that_its_call_names() -> None:
    backends = load_backends([load_machine("dpuv3"), load_machine("vta")])
    assert [backend.machine.name for backend in backends] == ["dpuv3", "vta"]
    call = ir.node("region0", [], domain=REGION, name="region0", num_outputs=1, metadata_props={TARGET: "vta"})
    assert backend_of(backends, call) is backends[1]
    assert "conv2d" in {kernel.computes for kernel in backends[1].kernels.values()}
    with pytest.raises(UserError, match="E1010 the graph says that region 'region0' is for 'vta'; build the graph again"):
        backend_of(backends[:1], call)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A machine of its own, in vta.yaml and vta/."""
    write_template_kernels(tmp_path)
    return tmp_path


def test_shipped_machines_are_right(folder: Path) -> None:
    found = check_conventions(load_machine(str(folder / "vta.yaml")))
    assert found.kernels > 5
    assert found.templates == 2
    assert check_conventions(load_machine("dnnvm")).templates == 0
    assert check_conventions(load_machine("stcp920")).kernels == 57


FAULTS = {
    "vta/kernels.yaml": ("computes: conv2d", "computes: conv3d", "E1002 unknown operation 'conv3d'"),
    "vta/store.asm.j2": ("", "{% if %}", "vta/store.asm.j2:1: E1005 cannot read the template"),
    "vta/finish.asm.j2": ("", "{% include 'none.j2' %}", "E1005 the template fails: there is no template 'none.j2'"),
    "vta.yaml": ("\noperators:\n", "\nfusion: {templates: []}\noperators:\n", "vta.yaml:"),
}


@pytest.mark.parametrize(("file", "change"), FAULTS.items())
def test_a_fault_is_told(file: str, change: tuple[str, str, str], folder: Path) -> None:
    old, new, message = change
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1) if old else new + text)
    with pytest.raises(UserError) as caught:
        check_conventions(load_machine(str(folder / "vta.yaml")))
    assert message in str(caught.value)


def test_a_wrong_name_in_operators_and_a_broken_template_are_told_together(folder: Path) -> None:
    machine, template = folder / "vta.yaml", folder / "vta" / "store.asm.j2"
    text = machine.read_text()
    machine.write_text(text.replace("conv2d: [{that: INP_BITS == 8", "conv2d: [{that: strid == 8", 1))
    assert machine.read_text() != text
    template.write_text("{{ 1 | nosuch }}")
    with pytest.raises(UserError) as caught:
        check_conventions(load_machine(str(machine)))
    told = str(caught.value)
    assert "unknown name 'strid'" in told
    assert "there is no filter 'nosuch'" in told


def test_machines_of_other_code_are_checked_too() -> None:
    assert check_conventions(load_machine("graphengine")).kernels == 0
    assert check_conventions(load_machine("clib")).kernels == 14
    text = find_target("graphengine").read_text().replace("rank == 4 and group", "rank == 4 and gruop")
    with pytest.raises(UserError, match="E0107 unknown name 'gruop'"):
        check_conventions(load_text(text, "graphengine.yaml"))


def test_a_machine_of_graphs_has_no_kernel_to_go_without() -> None:
    with pytest.raises(UserError, match="E1001 machine 'graphengine' cannot go without a kernel 'conv2d'; it takes graphs whole"):
        load_backends([replace(load_machine("graphengine"), without=("conv2d",))])
