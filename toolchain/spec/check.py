"""Checks of a whole machine."""

from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node


def check(machine: Machine, root: Node) -> None:
    del machine, root
