"""The check of the texts in a machine's file and folder that the compiler reads: operators, fusion, pipeline, kernels and their templates."""

from dataclasses import dataclass

from toolchain.passes.pipeline import pipeline_of
from toolchain.passes.templates import templates_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import has_kernels, load_kernels
from toolchain.schedule.kernels.render import template_names
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Findings


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
