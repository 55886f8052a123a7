"""Checks of a whole machine, after every section could be read."""

from toolchain.spec.checks.encoding import check_encoding
from toolchain.spec.checks.expressions import check_expressions
from toolchain.spec.checks.names import check_names
from toolchain.spec.checks.sync import check_sync
from toolchain.spec.checks.timing import check_timing
from toolchain.spec.findings import Findings
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node


def check(machine: Machine, root: Node) -> None:
    """Raises UserError with everything that is wrong, in order of place."""
    findings = Findings()
    for part in (check_names, check_encoding, check_expressions, check_sync, check_timing):
        findings.note(part(machine, root))
    findings.settle()
