"""Mistakes in the Verilog of examples/rtl: all of them in one program, which makes the one that `+mutant=NUMBER` names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosimulation.verilator import Sources


@dataclass(frozen=True)
class Mutant:
    """An expression of a file, once in it, and the wrong one in its place."""

    name: str
    file: str
    right: str
    wrong: str


WRONG_BYTES = (
    Mutant("rounds down", "requantise.v", "33'sd1 <<< (shift - 1)", "33'sd0"),
    Mutant("no upper bound", "requantise.v", "rounded > most ? most : rounded", "rounded"),
    Mutant("pixels below the picture", "window.v", "h < $signed({4'd0, height})", "h <= $signed({4'd0, height})"),
    Mutant("padding is read", "lane.v", "!inside", "1'b0"),
    Mutant("the maximum begins with zero", "compute.v", "{4{-32'sd128}}", "128'd0"),
    Mutant("a sum is read too early", "accumulators.v", "write && write_address == compute_address", "1'b0"),
    Mutant("no instruction waits", "tokens.v", "count == 0", "1'b0"),
    Mutant("load posts when it has asked", "load.v", "answer ? known[2:0] : 3'b000", "asked && request_last ? posts : 3'b000"),
)
WRONG_BYTES_BY_CHANCE = Mutant(
    "store posts when it has sent", "store.v", "answer ? known : 3'b000", "asked && request_last ? now[`ANY_POST] : 3'b000"
)
"""Reads of DRAM take longer than writes, so the right value is there in time, unless latencies are others."""
WRONG_TIME = Mutant("load goes first", "port.v", "store_request && !held_by_load", "store_request && !(held_by_load || load_request)")
MUTANTS = (*WRONG_BYTES, WRONG_BYTES_BY_CHANCE, WRONG_TIME)
CHOICE = '    integer mutant;\n    initial if (!$value$plusargs("mutant=%d", mutant)) mutant = 0;\n'


def number(mutant: Mutant) -> int:
    return 1 + MUTANTS.index(mutant)


def mutated(sources: Sources, mutants: Sequence[Mutant] = MUTANTS) -> Sources:
    """The sources with all mistakes in them; without `+mutant` they make none."""
    files = dict(sources.files)
    for mutant in mutants:
        before, found, after = files[mutant.file].partition(mutant.right)
        assert found, mutant.name
        assert mutant.right not in after, mutant.name
        files[mutant.file] = f"{before}((mutant == {number(mutant)}) ? ({mutant.wrong}) : ({mutant.right})){after}"
    for name in {mutant.file for mutant in mutants}:
        ports, end, body = files[name].partition("\n);\n")
        files[name] = f"{ports}{end}{CHOICE}{body}"
    return replace(sources, files=files)
