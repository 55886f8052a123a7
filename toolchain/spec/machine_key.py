"""The key under which whatever is derived from a machine is kept."""

from dataclasses import dataclass

from toolchain.spec.model import Machine


@dataclass(frozen=True, slots=True, eq=False)
class MachineKey:
    """A machine compared by identity: its mappings have no hash, and one Machine object never changes."""

    machine: Machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineKey) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)
