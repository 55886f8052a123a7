"""Random programs of several cores that share memories, in an order in which their instructions could run one by one."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.isa.assembly import assemble
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_tokens import POST, WAIT, Moves, sync_encoding, sync_tokens
from toolchain.schedule.synchronisation.rewrite import Table, write
from toolchain.spec.errors import Source
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

TARGET = Path(__file__).resolve().parents[2] / "targets" / "stcp920.yaml"
CORES = TARGET.with_name("dnnvm.yaml")
Line = tuple[int, str]
"""A stream, and an instruction of it in assembly."""
WEIGHTS = 64
"""A line of L1 that no instruction writes."""
Pair = tuple[str, int, int]
"""A counter, who posts a token of it, and who takes that."""
Round = tuple[int, int]
"""The cores that store a line each, and those that load the lines of all, as bit masks."""


@cache
def chip(clusters: int, cores: int, depth: int = 255, events: int = 16) -> Machine:
    """The many-core machine with little memory, and as many events for each core."""
    params = {"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": str(clusters), "CORES": str(cores), "EVENT_DEPTH": str(depth)}
    text = TARGET.read_text()
    assert "event: {count: 16," in text
    return load_text(text.replace("event: {count: 16,", f"event: {{count: {events},"), "stcp920.yaml", overrides=params)


def cores_that_never_meet() -> Machine:
    """dnnvm's three cores where no counter says when others have stopped."""
    lines = CORES.read_text().splitlines()
    kept = [line for line in lines if not any(word in line for word in ("    stopped: {", "  rules:", "{wait: stopped,", "{post: stopped,"))]
    assert len(kept) == len(lines) - 4
    text = "\n".join(kept).replace("cores: {bits: 4, role: sync", "cores: {bits: 4, role: layout")
    return load_text(text.replace("amount: {bits: 2, role: sync", "amount: {bits: 2, role: layout"), str(CORES), "zu9")


def program(machine: Machine, lines: Sequence[Line]) -> tuple[Program, Ints]:
    """The lines and an end for each stream, without synchronisation, and the order of the lines."""
    whole = [*lines, *((stream, "END") for stream in range(machine.streams))]
    text = "\n".join(f".stream {stream}\n{line}" for stream, line in whole)
    streams = np.array([stream for stream, _ in whole])
    return assemble(machine, Source("test.asm", text)), np.argsort(np.argsort(streams, kind="stable"), kind="stable")


def memory(machine: Machine) -> State:
    """Lines with different contents wherever the programs read."""
    state, rng = new_state(machine), np.random.default_rng(1)
    for name in ("ddr", "llb", "l1"):
        state.memories[name][:, : 128 * 32] = rng.integers(0, 256, (len(state.memories[name]), 128 * 32), np.uint8)
    return state


@st.composite
def programs(draw: st.DrawFn, machine: Machine, most: int = 24) -> list[Line]:
    """Moves through every shared memory, and work of every unit on few lines, so that they meet."""
    cores = next(level.count for level in machine.levels if level.name == "core")
    line, stream, mask = st.integers(0, 3), st.integers(0, machine.streams - 1), st.integers(0, (1 << cores) - 1)
    kinds = (
        st.builds("LOAD space={} local={} remote={} cores={:b}".format, st.sampled_from(["ddr", "llb", "l1"]), line, line, mask),
        st.builds("STORE space={} local={} remote={} width={}".format, st.sampled_from(["ddr", "llb"]), line, line, st.integers(1, 2)),
        st.builds("{} llb_line={} ddr_line={} lines=1".format, st.sampled_from(["FETCH", "SPILL"]), line, line),
        st.builds("ADD a={} b={} target={} width=1".format, line, line, line),
        st.builds(f"MMA source={{}} acc={{}} weight={WEIGHTS} width=1 in_width=1".format, line, line),
        st.builds(f"REQUANT acc={{}} target={{}} params={WEIGHTS} width=1".format, line, line),
    )
    return draw(st.lists(st.tuples(stream, st.one_of(*kinds)), max_size=most))


def in_rounds(cores: int, rounds: Sequence[Round]) -> list[Line]:
    """Cores that hand lines to each other, round after round."""
    lines: list[Line] = []
    for writers, readers in rounds:
        lines += [(core, f"STORE space=llb local=0 remote={core}") for core in range(cores) if writers >> core & 1]
        lines += [(core, f"LOAD space=llb local=0 remote=0 width={cores}") for core in range(cores) if readers >> core & 1]
    return lines


def token_pairs(made: Program) -> Iterator[Pair]:
    """Every token; each counter has one taker, and its tokens are taken as they are posted in some order of execution."""
    tokens = sync_tokens(made)
    rank = np.argsort(issue_order(made, None, tokens))
    for counter, name in enumerate(tokens.names):
        posts, takes = (_movers(moves, counter, rank) for moves in (tokens.posts, tokens.waits))
        yield from ((name, poster, taker) for poster, taker in zip(posts, takes, strict=True))


def _movers(moves: Moves, counter: int, rank: Ints) -> list[int]:
    """By token of a counter, the instruction that moves it."""
    mine = moves.counter == counter
    owners = np.repeat(np.arange(len(moves.start) - 1), np.diff(moves.start))[mine]
    by = np.argsort(rank[owners])
    found: list[int] = np.repeat(owners[by], moves.amount[mine][by]).tolist()
    return found


def without(made: Program, pair: Pair) -> Program:
    """The program without one of its tokens."""
    name, poster, taker = pair
    machine, counter = made.machine, name.partition(" ")[0]
    source, gone, fields = np.arange(len(made)), {taker}, dict[int, Mapping[str, int]]()
    if not counter.startswith("event"):
        gone = set[int]()
        for action, index in ((POST, poster), (WAIT, taker)):
            kind = int(made.kind[index])
            bit = sync_encoding(machine).bits[kind, int(made.unit[index]), action, counter]
            held = fields.get(index, {field.name: made.field(index, field.name) for field in machine.instructions[kind].fields})
            fields[index] = {**held, bit.field: held[bit.field] & ~(1 << bit.bit)}
    else:
        fields = _silent(made, poster, int(name.rpartition(" ")[2]))
        gone |= {poster} - fields.keys()
        held = {field.name: made.field(taker, field.name) for field in machine.instructions[int(made.kind[taker])].fields}
        if held["amount"] > 1:  # others' tokens too
            gone.remove(taker)
            fields = {**fields, taker: {**held, "amount": held["amount"] - 1}}
    source[list(fields)] = -1
    kept = np.array([i for i in range(len(made)) if i not in gone])
    place = {int(i): number for number, i in enumerate(kept)}
    table = Table(source[kept], made.kind[kept], made.unit[kept], made.stream[kept], {place[i]: held for i, held in fields.items()}, ())
    return write(made, table, sync_encoding(machine))[0]


def _silent(made: Program, poster: int, core: int) -> dict[int, Mapping[str, int]]:
    """A signal that leaves out one core, none where it has no other."""
    held = {field.name: made.field(poster, field.name) for field in made.machine.instructions[int(made.kind[poster])].fields}
    cores = next(level.count for level in made.machine.levels if level.name == "core")
    cluster, number = divmod(core, cores)
    held["clusters"] = held["clusters"] or 1  # the own one, where there is only one
    assert held["clusters"] >> cluster & 1
    assert held["cores"] >> number & 1
    if held["clusters"] == 1 << cluster:
        left = {**held, "cores": held["cores"] & ~(1 << number)}
    else:
        assert held["cores"] == 1 << number, "a signal to a rectangle of several clusters is not cut"
        left = {**held, "clusters": held["clusters"] & ~(1 << cluster)}
    return {poster: left} if left["cores"] and left["clusters"] else {}
