"""The machines that share a graph, each with its kernels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.regions import TARGET
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Backend:
    """A machine that regions can be compiled for."""

    machine: Machine
    kernels: Mapping[str, Kernel]

    @property
    def tiled(self) -> bool:
        """Whether regions have schedules: kernels that are calls of a library run one after the other."""
        return all(kernel.call is None for kernel in self.kernels.values())


def load_backends(machines: Iterable[Machine]) -> tuple[Backend, ...]:
    """In the order of the machines. Raises UserError E10xx for kernels that are wrong."""
    return tuple(Backend(machine, load_kernels(machine)) for machine in machines)


def backend_of(backends: Sequence[Backend], call: ir.Node) -> Backend:
    """The one that a region's call is for. Raises UserError E1010 where it is none of them."""
    name = call.metadata_props.get(TARGET, "")
    found = next((backend for backend in backends if backend.machine.name == name), None)
    if found is None:
        raise fail("E1010", f"the graph says that region '{call.op_type}' is for '{name[:80]}'", hint="build the graph again")
    return found
