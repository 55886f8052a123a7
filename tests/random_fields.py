"""Random programs for any machine by its encoding alone: field values of all sizes that its constraints and routing allow."""

from pathlib import Path

import numpy as np

from tests.coded_machine import coded_machine
from toolchain.isa.checks import build_program, violations
from toolchain.isa.encode import encode_streams, matched_value
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Field, Instruction, Machine

TARGETS = sorted(path.stem for path in (Path(__file__).resolve().parents[1] / "targets").glob("*.yaml"))
VARIANTS = {
    "vta_4x8": load_machine("vta", overrides={"LOG_BATCH": "2", "LOG_BLOCK": "3"}),
    "dnnvm_zu9": load_machine("dnnvm", "zu9"),
}
PROGRAMMED = {name: machine for name in TARGETS if (machine := load_machine(name)).instructions}
MACHINES = PROGRAMMED | VARIANTS | {"coded": coded_machine(), "coded_pairs": coded_machine(True, 3)}
TRIES = 40


def random_program(machine: Machine, seed: int, most: int = 60) -> Program:
    """Up to about `most` instructions a stream and the end; a stream of several may be empty."""
    rng = np.random.default_rng(seed)
    ends = next((k for k, i in enumerate(machine.instructions) if i.name == machine.program.ends), -1)
    kinds, streams = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for stream in range(machine.streams):
        if machine.streams == 1 or rng.random() < 0.5:
            chosen = rng.choice([k for k in range(len(machine.instructions)) if k != ends], rng.integers(ends < 0, most))
            kinds.append((np.append(chosen, ends) if ends >= 0 else chosen).astype(np.int64))
            streams.append(np.full(len(kinds[-1]), stream))
    kind, stream = np.concatenate(kinds), np.concatenate(streams)
    pools = [_pool(machine, k, rng) for k in range(len(machine.instructions))]
    keep = np.array([len(next(iter(pools[k].values()))) > 0 for k in kind.tolist()], np.bool_)
    kind, stream = kind[keep], stream[keep]
    columns = tuple(_sampled(pool, int((kind == k).sum()), rng) for k, pool in enumerate(pools))
    data, offset = encode_streams(machine, kind, stream, columns)
    return build_program(machine, data, kind, stream, offset, columns)


def _sampled(pool: dict[str, Ints], count: int, rng: np.random.Generator) -> dict[str, Ints]:
    rows = rng.integers(0, len(next(iter(pool.values()))), count) if count else np.empty(0, np.int64)
    return {name: column[rows] for name, column in pool.items()}


def _pool(machine: Machine, kind: int, rng: np.random.Generator) -> dict[str, Ints]:
    """Legal instructions of one kind, on any stream: field -> int64."""
    instruction = machine.instructions[kind]
    columns = {f.name: _values(instruction, f, rng) for f in instruction.fields}
    rows = np.arange(TRIES)
    while len(rows) and (bad := _illegal(machine, kind, {name: column[rows] for name, column in columns.items()})):
        rows = np.delete(rows, bad)
    return {name: column[rows] for name, column in columns.items()}


def _values(instruction: Instruction, field: Field, rng: np.random.Generator) -> Ints:
    """Each value the default, zero, an end of the range, small, or anything."""
    if field.name in instruction.match:
        return np.full(TRIES, matched_value(instruction, field), np.int64)
    usual = min(max(0 if field.default is None else field.default, field.low), field.high)
    anything = rng.integers(field.low, field.high, TRIES, endpoint=True)
    small = np.clip(rng.integers(0, 5, TRIES), field.low, field.high)
    return np.choose(rng.choice(5, TRIES, p=[0.55, 0.05, 0.05, 0.25, 0.1]), [usual, field.low, field.high, small, anything]).astype(np.int64)


def _illegal(machine: Machine, kind: int, columns: dict[str, Ints]) -> list[int]:
    """Some of the rows that the machine refuses; none when all are legal."""
    count = len(next(iter(columns.values())))
    none = [{f.name: np.empty(0, np.int64) for f in instruction.fields} for instruction in machine.instructions]
    zeros = np.zeros(count, np.int64)
    try:
        program = build_program(machine, (), zeros + kind, zeros, zeros, (*none[:kind], columns, *none[kind + 1 :]))
        return sorted({v.index for v in violations(program)})
    except UserError:
        halves = (range(count // 2), range(count // 2, count))
        parts = [(half, {name: column[half] for name, column in columns.items()}) for half in halves]
        return [0] if count == 1 else [half[row] for half, part in parts if len(half) for row in _illegal(machine, kind, part)]
