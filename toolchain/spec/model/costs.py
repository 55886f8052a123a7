"""Area, energy and power that a machine's file states, term by term, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass

RUN_COUNTS = ("macs", "cycles")
"""Counts of a run that energy may be stated for, beside the bytes read from and written to each memory."""


@dataclass(frozen=True, slots=True)
class CostTerm:
    """each: of one piece, in the unit of the list that it stands in. count: how many pieces the machine has. per: the counts of a run that it is
    spent for, added up: `macs` (the model's own on the machine), `cycles`, `MEMORY.read` and `MEMORY.written` (bytes of all instances)."""

    name: str
    each: float
    count: int
    source: str
    per: tuple[str, ...] = ()
    assumed: bool = False
    doc: str = ""

    @property
    def amount(self) -> float:
        """The total of the machine, or for one of the counts in `per`."""
        return self.each * self.count


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """area_um2: square micrometres of the chip. energy_pj: picojoules that a run spends. static_uw: microwatts that flow at any time."""

    area_um2: tuple[CostTerm, ...] = ()
    energy_pj: tuple[CostTerm, ...] = ()
    static_uw: tuple[CostTerm, ...] = ()

    @property
    def area_mm2(self) -> float:
        """Square millimetres of all terms."""
        return sum(term.amount for term in self.area_um2) / 1e6

    def energy_uj(self, counts: Mapping[str, float], ms: float) -> float:
        """Microjoules of a run. counts: by the names that `per` lists. ms: of the run. Raises KeyError for a count that is not given."""
        spent = sum(term.amount * sum(counts[name] for name in term.per) for term in self.energy_pj)
        return spent / 1e6 + sum(term.amount for term in self.static_uw) * ms / 1e3
