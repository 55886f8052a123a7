"""The machines that share a graph, each with its kernels; and the check of the texts in a machine's folder that the compiler reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.regions import TARGET, GraphRegion, read_graph_region
from toolchain.passes.context import Device
from toolchain.passes.pipeline import pipeline_of
from toolchain.passes.templates import templates_of
from toolchain.schedule.graph_offload import graph_device
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import has_kernels, load_kernels
from toolchain.schedule.offload import device_of
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region
from toolchain.schedule.sandbox import template_names
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Findings


@dataclass(frozen=True)
class Backend:
    """A machine that regions can be compiled for."""

    machine: Machine
    kernels: Mapping[str, Kernel]

    @property
    def graph(self) -> bool:
        """Whether the machine takes graphs of ONNX's operators, and has no kernels."""
        return self.machine.takes_graphs

    @property
    def tiled(self) -> bool:
        """Whether regions have schedules: kernels that are calls of a library run one after the other."""
        return not self.graph and all(kernel.call is None for kernel in self.kernels.values())

    @property
    def images(self) -> int | None:
        """Images of a run; None where it takes one sample, whatever that is."""
        return None if self.graph else images_per_run(self.machine)

    def device(self, number: int = 0) -> Device:
        """Answers to the questions of partitioning. number: of the machine among those that share the graph. Raises UserError E0107 and E0121."""
        return graph_device(self.machine) if self.graph else device_of(self.machine, self.kernels, number)

    def read(self, model: ir.Model, call: ir.Node) -> Region | GraphRegion:
        """The region that a call runs. Raises UserError E1003 and E1010."""
        return read_graph_region(model, call) if self.graph else read_region(self.machine, self.kernels, model, call)


def load_backends(machines: Iterable[Machine]) -> tuple[Backend, ...]:
    """In the order of the machines. Raises UserError E10xx for kernels that are wrong, E1001 for some to be left out of a machine that has none."""
    return tuple(Backend(machine, _kernels(machine)) for machine in machines)


def _kernels(machine: Machine) -> Mapping[str, Kernel]:
    if not machine.takes_graphs:
        return load_kernels(machine)
    if machine.without:
        text = f"machine '{machine.name}' cannot go without a kernel '{machine.without[0]}'"
        raise fail("E1001", text, hint="it takes graphs whole, so none is left out")
    return {}


def backend_of(backends: Sequence[Backend], call: ir.Node) -> Backend:
    """The one that a region's call is for. Raises UserError E1010 where it is none of them."""
    name = call.metadata_props.get(TARGET, "")
    found = next((backend for backend in backends if backend.machine.name == name), None)
    if found is None:
        raise fail("E1010", f"the graph says that region '{call.op_type}' is for '{name[:80]}'", hint="build the graph again")
    return found


@dataclass(frozen=True)
class Conventions:
    """How many there are of each."""

    kernels: int
    templates: int


def check_conventions(machine: Machine) -> Conventions:
    """Raises UserError with everything found: all that reading these sections and files raises."""
    findings, none = Findings(), dict[str, Kernel]()
    if fusion := machine.fusion:
        findings.attempt((), lambda: templates_of(fusion))
    if pipeline := machine.pipeline:
        findings.attempt(None, lambda: pipeline_of(pipeline))
    kernels = findings.attempt(none, lambda: load_kernels(machine)) if has_kernels(machine) else none
    findings.attempt(None, lambda: Backend(machine, kernels).device())
    used = {(kernel.folder, name) for kernel in kernels.values() for name in _templates(kernel)}
    read = [findings.attempt(frozenset[str](), lambda folder=folder, name=name: template_names(folder, name)[1]) for folder, name in sorted(used)]
    findings.settle()
    return Conventions(len(kernels), len(frozenset[str]().union(*read)))


def _templates(kernel: Kernel) -> list[str]:
    """Writers of the kernel's steps, ends and constants."""
    found = [step.code for step in kernel.steps] + [kernel.end, kernel.begin, kernel.loading.code if kernel.loading else ()]
    return [code for code in found if isinstance(code, str)]
