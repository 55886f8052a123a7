"""The cost of each length of a model, and the bytes that one file for all saves, as text."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.report.tables import scaled
from toolchain.spec.typed_json import Tree, to_json


@dataclass(frozen=True)
class LengthCost:
    """sizes: in words. cycles and milliseconds: of one run by the machine's file; machine_ms: on the machine, total_ms: with the host's part, None
    where its costs are not known. bytes: of a bundle of this length alone."""

    sizes: str
    cycles: float
    machine_ms: float
    total_ms: float | None
    bytes: int


def lengths_report(model: str, machines: str, costs: Sequence[LengthCost], joined: int, refusal: str, place: str) -> str:
    """joined: bytes of the one file, which is at `place`. refusal: why samples between lengths are not run, empty where they are."""
    width = max(len(cost.sizes) for cost in costs)
    lines = [f"{model} on {machines} in {len(costs)} lengths"]
    for cost in costs:
        whole = "" if cost.total_ms is None else f"; {cost.total_ms:.3f} ms with the host's part"
        lines.append(f"  {cost.sizes:{width}}  {cost.cycles:,.0f} cycles, {cost.machine_ms:.3f} ms on the machine{whole}")
    alone = sum(cost.bytes for cost in costs)
    lines.append(f"  bundle      {place}: {scaled(joined, 'B')}; one for each length {scaled(alone, 'B')} together")
    told = f"only these lengths are run: {refusal}" if refusal else "filled up with zeros to the next, which changes no result of the model's file"
    return "\n".join([*lines, f"  {'warning' if refusal else 'between'}: {told}"])


def lengths_data(costs: Sequence[LengthCost], joined: int, refusal: str) -> Tree:
    """The same by name."""
    return {"lengths": [to_json(cost) for cost in costs], "bytes": joined, "refusal": refusal}
