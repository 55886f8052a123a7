"""Advice to a user, for every reason why a node stays on the host: by the code of the reason, and by the network that it is in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from toolchain.passes.fuse import family_of
from toolchain.passes.pattern import Pattern
from toolchain.passes.templates import Template
from toolchain.report.placement import Placement
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import CUT, LIMIT, Why, change_of

KERNEL = "Write a kernel for {operation} (docs/kernels.md; `tilewright operation show {operation}` has what it computes)."
DESCRIBE = "If the machine can compute it, describe it as an operation and write a kernel for it (docs/your-first-operation.md, docs/kernels.md). "
RETRAIN: Mapping[str, str] = MappingProxyType(
    {
        "activation": "Train with one of the machine's own activations, {activations}: the layers around it then stay in one region.",
        "arithmetic": "Train with {activations} in the place of a gate (one tensor times another: SiLU, HardSwish, squeeze-and-excite): the layers "
        "around it then stay in one region.",
        "normalisation": "A batch normalisation folds into the layer before it and costs nothing; this one needs the values of each sample. " + CUT,
    }
)
"""For networks of convolutions, whose layers can be exchanged for others: by family of the operator."""
OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "move of data": "The machine stores tensors in its own order, and the host rearranges them. " + CUT,
        "recurrence": "Recurrent layers stay on the host; convolutions over time do not.",
        "product": LIMIT,
    }
)


@dataclass(frozen=True)
class Advisor:
    """machine: as commands take it, `NAME --set PARAM=VALUE`. activations: operators that a layer of the machine's takes in.
    convolutional: whether most of the network's multiply-accumulates are convolutions."""

    machine: str
    activations: tuple[str, ...] = ()
    convolutional: bool = True

    def advise(self, reason: Reason, operator: str) -> str:
        """One or two sentences on what to change. operator: of the node."""
        facts = {"machine": self.machine, "activations": _listed(self.activations)}
        if Why.NO_KERNEL.gave(reason):
            kernel, other = KERNEL.format(operation=reason.arguments["operation"]), self._retrain(operator, facts)
            return f"{kernel} Or else {other[0].lower()}{other[1:]}" if other and family_of(operator) != "normalisation" else kernel
        if Why.NO_TEMPLATE.gave(reason) or Why.NO_FACTORS.gave(reason):
            return self._retrain(operator, facts) or OTHERWISE.get(family_of(operator), DESCRIBE + CUT).format(**facts)
        return change_of(reason, facts)

    def _retrain(self, operator: str, facts: Mapping[str, str]) -> str:
        """Other layers for those of the operator's family; empty in a network that is not of convolutions."""
        family = family_of(operator)
        if not self.convolutional or family not in RETRAIN or (family != "normalisation" and not self.activations):
            return ""
        return RETRAIN[family].format(**facts)


def advisor_for(machine: str, templates: Sequence[Template], placement: Placement) -> Advisor:
    """machine: as commands take it. templates: of the machine."""
    convolved = sum(node.macs for node in placement.computed if node.operator in ("Conv", "ConvTranspose"))
    return Advisor(machine, tuple(activations(templates)), bool(convolved) and 2 * convolved >= placement.macs)


def activations(templates: Sequence[Template]) -> list[str]:
    """The operators that templates take as a layer's activation."""
    found = [name for template in templates for pattern in _patterns(template.pattern) if pattern.role == "activation" for name in pattern.operators]
    return list(dict.fromkeys(found))


def _patterns(pattern: Pattern) -> list[Pattern]:
    inner = [part for part in (*pattern.inputs, *pattern.alternatives) if isinstance(part, Pattern)]
    return [pattern, *(each for part in inner for each in _patterns(part))]


def _listed(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"
