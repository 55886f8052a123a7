"""How a transfer uses a shared resource: replicas below a stream share out its bytes, each through a port of its own."""

from toolchain.isa.columns import Value
from toolchain.spec.model import Machine, Resource


def ports_of_stream(machine: Machine, resource: Resource) -> int:
    """Instances of a resource that one stream's replicas use."""
    return max(machine.instances(resource.scope) // machine.streams, 1)


def through_one_port(machine: Machine, resource: Resource, moved: Value) -> Value:
    """The bytes of a transfer that go through one port."""
    return -(-moved // ports_of_stream(machine, resource))


def cycles_alone(resource: Resource, share: Value) -> Value:
    """Cycles that bytes take through one port, alone on it."""
    return -(-share * resource.per // resource.bytes_per_cycle)
