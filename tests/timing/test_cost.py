"""Costs of real instructions, by hand: fields, latched registers as they stand at issue, traffic, resource instances.

Ports of banks: which banks an instruction reaches follows from its semantics, and units that want the same port share its cycles.

Milliseconds by declared rates.
"""

from dataclasses import is_dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_tokens import net
from tests.target_runs import load_golden, timed
from tests.timing.test_simulate import costs, run
from toolchain.graph.work import Work
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import find_target, load_machine, load_text
from toolchain.spec.model import Host, Machine, Quantity
from toolchain.timing.cost import BankPorts, copy_ms, operators_ms, work_ms
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import delay_reasons

TEXT = """
target: {name: banked, summary: three units that copy rows between banks}
params:
  FREE: {value: 0, range: [0, 1], doc: no limits}
topology:
  lane: {count: 2, lockstep: true}
memories:
  ram: {kind: dram, type: u8, depth: 64}
  buf: {kind: ring, scope: lane, type: i8, banks: 4, depth: 16 if bank < 2 else 8, PORTS}
units:
  a: {reads: [buf], writes: [buf]}
  b: {reads: [buf], writes: [buf]}
  c: {reads: [buf], writes: [buf]}
encoding:
  unit: 32
  formats:
    op:
      bits: 32
      fields:
        opcode: {bits: 2, role: opcode}
        unit: {bits: 2}
        src: {bits: 2}
        dst: {bits: 2}
        work: {bits: 8}
        banks: {bits: 2, default: 1}
        unused: {bits: 14, role: reserved, default: 0}
instructions:
  COPY:
    format: op
    match: {opcode: 1}
    unit: min(unit, 2)
    timing: copy
    semantics: |
      for k in range(banks), i in range(4):
          buf[(dst + k) % 4, i] = buf[(src + k) % 4, i + 4]
  END:
    format: op
    match: {opcode: 0}
    unit: a
    timing: none
    semantics: |
      pass
sync:
  counters: {}
timing:
  clock_khz: {value: 1000, source: test}
  classes:
    copy: {cycles: work, source: test}
    none: {cycles: 0, source: test}
program: {ends: END}
"""
PORTS = "ports: {read: 1 - FREE, write: 1 - FREE}"


def banked(ports: str = PORTS, free: bool = False) -> Machine:
    return load_text(TEXT.replace("PORTS", ports), "banked.yaml", overrides={"FREE": str(int(free))})


def ends(machine: Machine, *lines: str) -> Timeline:
    return timed(assemble(machine, Source("test.asm", "\n".join((*lines, "END unit=0 src=0 dst=0 work=0")))))


def copy(unit: int, source: int, to: int, work: int, banks: int = 1) -> str:
    return f"COPY unit={unit} src={source} dst={to} work={work} banks={banks}"


@pytest.mark.parametrize(
    ("second", "cycles"),
    [
        (copy(1, 2, 3, 10), [30, 10]),  # other banks
        (copy(1, 0, 3, 10), [40, 20]),  # the same bank to read: turns until the shorter one is done
        (copy(1, 2, 1, 10), [40, 20]),  # the same bank to write
        (copy(1, 1, 0, 10), [30, 10]),  # each reads what the other writes: a port of its own for either
        (copy(1, 3, 2, 10, 2), [40, 20]),  # of two banks, the one that is round the end of the memory
    ],
)
def test_units_share_the_cycles_of_a_bank(second: str, cycles: list[int]) -> None:
    first = copy(0, 0, 1, 30)
    assert ends(banked(), first, second).result.end[:2].tolist() == cycles
    assert ends(banked(free=True), first, second).result.end[:2].tolist() == [30, 10]


def test_a_port_for_reads_and_writes() -> None:
    lines = copy(0, 0, 1, 30), copy(1, 1, 2, 10)
    assert ends(banked("ports: {either: 1}"), *lines).result.end[:2].tolist() == [40, 20]
    assert ends(banked("ports: {either: 2}"), *lines).result.end[:2].tolist() == [30, 10]


def test_the_first_of_a_priority_is_not_held_up() -> None:
    found = ends(banked("ports: {read: 1, priority: [b]}"), copy(0, 0, 1, 30), copy(1, 0, 2, 10), copy(2, 0, 3, 5))
    assert found.result.end[:3].tolist() == [45, 10, 20]
    assert found.contended[:3].tolist() == [15, 0, 15]
    assert delay_reasons(found, 0) == [("contended", "15 cycles, another unit is at its banks")]


def test_several_ports_serve_as_many_units() -> None:
    lines = copy(0, 0, 1, 30), copy(1, 0, 2, 30), copy(2, 0, 3, 30)
    assert ends(banked("ports: {read: 2}"), *lines).result.end[:3].tolist() == [45, 45, 45]
    assert ends(banked("ports: {read: 3}"), *lines).result.end[:3].tolist() == [30, 30, 30]


def test_banks_come_from_footprints() -> None:
    """Lockstep lanes are alike and count once."""
    banks = ends(banked("ports: {read: 1}"), copy(0, 3, 1, 30, 3)).costs.banks
    assert banks is not None
    assert banks.number[banks.first[0] : banks.first[1]].tolist() == [0, 1, 3]
    assert ends(banked(free=True), copy(0, 3, 1, 30, 3)).costs.banks is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8), st.randoms())
@settings(max_examples=30, deadline=None)
def test_costs_and_footprints_move_with_their_instructions(copies: list[tuple[int, int, int, int]], random: Random) -> None:
    lines = [copy(unit, source, to, work, 1 + (source < 3)) for unit, source, to, work in copies]
    order = random.sample(range(len(lines)), len(lines))
    before, after = ends(banked(), *lines), ends(banked(), *(lines[index] for index in order))
    whole = np.array([*order, len(order)])
    moved, costs = before.footprints.reordered(after.program, whole), before.costs.reordered(whole)
    assert_same(moved, after.footprints)
    assert_same(costs, after.costs)


def assert_same(one: object, other: object) -> None:
    """Arrays of the same numbers, in all fields."""
    for name, value in vars(one).items():
        wanted = getattr(other, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, wanted)
        elif is_dataclass(value) and not isinstance(value, Program):
            assert_same(value, wanted)
        else:
            assert value is wanted or value == wanted


@pytest.mark.parametrize(
    ("ports", "code"), [("ports: {read: 0 - 1}", "E0139"), ("ports: {read: 1, priority: [d]}", "E0107"), ("ports: {reads: 1}", "E0108")]
)
def test_refused(ports: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        banked(ports)
    assert code in [d.code for d in caught.value.diagnostics]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_cycle_of_a_port_is_used_once(data: st.DataObject) -> None:
    """Units that share one port and nothing else take as long together as one after the other; none takes less than alone."""
    work = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    ranks = data.draw(st.lists(st.integers(0, 2), min_size=len(work), max_size=len(work)))
    n, zeros = len(work), np.zeros(len(work), np.int64)
    banks = BankPorts(np.arange(n + 1), zeros, np.array(ranks, np.int64), np.ones(1, np.int64), 3)
    found = run(net(list(range(n)), n, [{}] * n, [{}] * n, [], []), replace(costs(work), banks=banks))
    assert found.end.max() == pytest.approx(sum(work))
    assert (found.end >= np.array(work) - 1e-9).all()


GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))
"""Programs whose fields are read here without the toolchain."""


def vta_columns(data: bytes) -> np.ndarray:
    """[n, 2] of uint64: the two halves of each instruction."""
    return np.frombuffer(data, "<u8").reshape(-1, 2)


@pytest.mark.parametrize("path", GOLDEN[:8], ids=lambda p: p.stem)
def test_vta_steps_are_those_of_its_fields(path: Path) -> None:
    low = vta_columns(np.load(path)["insns"].tobytes())[:, 0]
    opcode = low & np.uint64(7)
    steps = ((low >> np.uint64(35)) & np.uint64(0x3FFF)) * ((low >> np.uint64(49)) & np.uint64(0x3FFF))
    steps *= ((low >> np.uint64(21)) & np.uint64(0x3FFF)) - ((low >> np.uint64(8)) & np.uint64(0x1FFF))
    machine = load_machine("vta")
    costs = timed(decode(machine, [load_golden(path)])).costs
    assert costs.cycles.tolist() == np.where(opcode == 2, steps, np.where(opcode == 4, 2 * steps, 0)).tolist()
    assert (costs.latency == np.where((opcode == 2) | (opcode == 4), 4, 0)).all()


def test_a_load_takes_its_bytes_through_the_port() -> None:
    machine = load_machine("vta")
    program = assemble(machine, Source("t.asm", "LOAD memory_type=inp sram_base=0 dram_base=256 y_size=3 x_size=5 x_stride=9 x_pad_0=1\nFINISH\n"))
    costs = timed(program).costs
    assert (costs.bytes.tolist(), costs.work.tolist(), costs.first.tolist()) == ([240], [30], [0, 1, 1])
    assert costs.setup.tolist() == [32 + 3, 0]  # a cycle for each element of padding


INIT = "CONVINIT 0000 0000 kernel_h {k} kernel_w {k} channel_group_in {g} channel_group_out 2 stride_h 1 stride_w 1 jump_read 1 jump_write 2"
INIT += " jump_read_endl 64 jump_write_endl 64 wgt_jump_read_endl 64 stride_out 1 act_type 0 shift_cut 0 channel_offset 0 prelu_shift_p 0"
CONV = "CONV 0000 0000 length {n} valid_pixel_parallel 8 bank_id_out 8 pad_right 15 pad_bottom 15 bank_id_in 0 bank_addr_in 0 pad_left 0 pad_top 0"
CONV += " bank_addr_out 0 bank_addr_weights 0 bias_offset 0 bank_addr_bias 4000 stride_offset_out 0 prelu_offset 0 prelu_shift_n 0 bank_addr_prelu 0"


def test_registers_count_as_they_stand_at_issue() -> None:
    text = "\n".join([INIT.format(k=3, g=1), CONV.format(n=10), INIT.format(k=1, g=4), CONV.format(n=10), CONV.format(n=7), "END 0000 0000"])
    program = assemble(load_machine("dpuv3"), Source("t.asm", text + "\n"))
    assert timed(program).costs.cycles.tolist() == [1, 10 * 9 * 2, 1, 10 * 4 * 2, 7 * 4 * 2, 1]


def test_a_negative_cost_is_refused() -> None:
    text = find_target("vta").read_text().replace("max(uop_end - uop_bgn, 0)", "(uop_end - uop_bgn)")
    program = assemble(load_text(text, "vta.yaml"), Source("t.asm", "GEMM uop_bgn=4 uop_end=2 iter_out=1 iter_in=3 " + FACTORS + "\nFINISH\n"))
    with pytest.raises(UserError, match=r"E0510 timing class 'gemm' gives -6 for #0 GEMM at 0x0; a cost cannot be negative"):
        timed(program)


FACTORS = "dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0"


def test_each_cluster_has_its_own_port() -> None:
    machine = load_machine("stcp920", overrides={"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": "2", "CORES": "2"})
    ports = timed(assemble(machine, Source("t.asm", "".join(f".stream {k}\nEND\n" for k in range(4))))).costs.ports
    assert ports.names == ("ddr_port", "llb_port[0]", "llb_port[1]")


RATES = {"conv2d": Quantity(2.0, "test"), "dense": Quantity(4.0, "test"), "default": Quantity(1.0, "test")}
HOST = Host(RATES, *(Quantity(value, "test") for value in (4.0, 3.0, 5.0, 8.0)))


@pytest.mark.parametrize(("kind", "ms"), [("conv2d", 4.0), ("Conv", 4.0), ("MatMul", 2.0), ("LSTM", 2.0), ("Einsum", 8.0)])
def test_products_cost_by_their_rate(kind: str, ms: float) -> None:
    assert operators_ms(kind, 8_000_000, 1, HOST) == pytest.approx(ms)
    assert operators_ms(kind, 0, 8_000_000, HOST) == pytest.approx(2.0)


def test_work_costs_as_its_parts_do() -> None:
    work = {"Conv": Work(2, 8_000_000, 1), "Relu": Work(1, 0, 8_000_000)}
    assert work_ms(work, HOST) == pytest.approx(4.0 + 2.0)
    assert work_ms({}, HOST) == 0


def test_a_step_of_a_loop_costs_its_start() -> None:
    work = {"Scan": Work(1, 0, 8_000_000, 500), "LSTM": Work(0, 8_000_000, 1)}
    assert work_ms(work, HOST) == pytest.approx(2.0 + 2.0)
    assert work_ms(work, replace(HOST, step_us=Quantity(6.0, "test"))) == pytest.approx(4.0 + 3.0)


def test_a_copy_costs_a_start_its_bytes_and_its_rearrangement() -> None:
    layout = load_machine("dpuv3").layouts[0]
    assert copy_ms(8_000_000, None, HOST) == pytest.approx(0.005 + 1.0)
    assert copy_ms(8_000_000, replace(layout, gb_per_s=Quantity(2.0, "test")), HOST) == pytest.approx(0.005 + 1.0 + 4.0)
    assert copy_ms(8_000_000, replace(layout, gb_per_s=None), HOST) == pytest.approx(0.005 + 1.0)
