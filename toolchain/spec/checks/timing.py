"""Checks of the timing section that need no instruction."""

from collections.abc import Iterator

from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Machine
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def check_timing(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0107 for a transfer through an unknown resource, E0139 for a clock or bandwidth below one."""
    node = root.value["timing"]
    resources = {r.name: r for r in machine.timing.resources}
    for name, item in node.members("classes"):
        for resource, through in item.members("transfers"):
            if resource not in resources:
                yield Diagnostic("E0107", f"unknown resource '{resource}' in class '{name}'", through.key_span, nearest(resource, resources))
    for name, item in node.members("resources"):
        if resources[name].bytes_per_cycle < 1 or resources[name].per < 1:
            yield Diagnostic("E0139", f"'{name}' moves {resources[name].bytes_per_cycle} bytes in {resources[name].per} cycles", item.where())
    if machine.timing.clock_khz < 1:
        yield Diagnostic("E0139", f"a clock of {machine.timing.clock_khz} kHz does not tick", node.value["clock_khz"].span)
