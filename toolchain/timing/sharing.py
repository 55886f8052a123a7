"""How a transfer uses a shared resource: replicas below a stream share out its bytes, each through a port of its own."""

from dataclasses import replace

from toolchain.isa.columns import Value
from toolchain.spec.model import Machine, Resource


def ports_of_stream(machine: Machine, resource: Resource) -> int:
    """Instances of a resource that one stream's replicas use."""
    return max(machine.instances(resource.scope) // machine.streams, 1)


def through_one_port(machine: Machine, resource: Resource, moved: Value) -> Value:
    """The bytes of a transfer that go through one port."""
    return -(-moved // ports_of_stream(machine, resource))


def part_of_ports(machine: Machine, copies: int, streams: int) -> Machine:
    """The machine as one of several copies of a program finds it that all run at once: of each port that copies share, it has its part.

    streams: of each copy.
    """
    sharing = {r.name: max(min(copies, machine.streams // machine.instances(r.scope) // streams), 1) for r in machine.timing.resources}
    resources = tuple(replace(resource, per=resource.per * sharing[resource.name]) for resource in machine.timing.resources)
    return replace(machine, timing=replace(machine.timing, resources=resources))


def cycles_alone(resource: Resource, share: Value) -> Value:
    """Cycles that bytes take through one port, alone on it."""
    return -(-share * resource.per // resource.bytes_per_cycle)
