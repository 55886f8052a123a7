"""A matrix product through the command queue: exact however often the queue is full and kernels are swapped, tokens pushed or derived. First pushed
is first popped, also across flushes, and a flush that has answered leaves no token to wait for."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.matrix_product import Product, make_queue, multiply
from tests.runtime.small import network
from toolchain.emulator import engine_named
from toolchain.isa.sync_tokens import POST, WAIT
from toolchain.runtime.command_queue import CommandQueue, Limits, QueuedInstruction, TokenBook
from toolchain.runtime.device_memory import EmulatedQueueDevice
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

UOPS = "8"
"""log2 bytes of a micro-op buffer that holds four of the product's six kernels."""


@pytest.mark.parametrize("explicit", [True, False])
def test_a_product_of_two_contexts_is_exact_in_one_flush(explicit: bool) -> None:
    queue = make_queue(explicit=explicit)
    assert np.array_equal(multiply(queue, Product()), Product().expected())
    assert queue.counts.flushes == 1
    assert queue.records is not None
    assert queue.records.fetches == len(queue.records.made) == 6


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("limits", [Limits(4), Limits(12), Limits(1000, each=5)])
def test_short_queues_and_swapped_kernels_change_nothing(explicit: bool, limits: Limits) -> None:
    queue = make_queue(limits, explicit, LOG_UOP_BUFF=UOPS)
    assert np.array_equal(multiply(queue, Product()), Product().expected())
    assert queue.counts.flushes >= 5
    assert queue.records is not None
    assert len(queue.records.stored) == 6 < queue.records.fetches


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 40), st.one_of(st.none(), st.integers(2, 9)), st.booleans(), st.sampled_from(["8", "15"]))
def test_any_limits_give_the_same(commands: int, each: int | None, explicit: bool, uops: str) -> None:
    product = Product(8, 2, 4, (4, 1, 2))
    queue = make_queue(Limits(commands, each), explicit, LOG_UOP_BUFF=uops)
    assert np.array_equal(multiply(queue, product), product.expected())


def test_the_reference_engine_agrees() -> None:
    product, machine = Product(4, 2, 2, (2, 1, 1)), load_machine("vta")
    queue = CommandQueue(EmulatedQueueDevice(machine, engine="reference"), load_kernels(machine), Limits(9), explicit=True)
    assert np.array_equal(multiply(queue, product), product.expected())


@pytest.mark.parametrize("forget", ["load compute", "compute load", "compute store", "store compute"])
def test_a_dependence_that_is_left_out_is_a_race(forget: str) -> None:
    with pytest.raises(UserError, match="E060"):
        multiply(make_queue(), Product(), forget)


def test_finite_hardware_queues_do_not_deadlock() -> None:
    queue = make_queue(Limits(200), explicit=True, QUEUE_DEPTH="4", TOKEN_DEPTH="2")
    assert np.array_equal(multiply(queue, Product()), Product().expected())


def test_equal_kernels_are_one() -> None:
    queue = make_queue()
    first, second = (queue.kernel([{"dst": 1, "src": 2}, {"dst": 3}]) for _ in range(2))
    assert first is second
    assert queue.memory.used == 0


def test_host_copies_wait_for_what_is_queued() -> None:
    queue = make_queue(explicit=False)
    source, target = queue.allocate(16), queue.allocate(16)
    queue.copy_in(source, bytes(range(16)))
    queue.push("LOAD", memory_type="acc8", sram_base=0, dram_base=source.at("dram.out"), y_size=1, x_size=1, x_stride=1)
    queue.push("STORE", memory_type="out", sram_base=0, dram_base=target.at("dram.out"), y_size=1, x_size=1, x_stride=1)
    queue.copy_in(source, bytes(16))
    assert queue.copy_out(target, 3, 4) == bytes([3, 4, 5, 6])
    queue.free(source)
    queue.synchronize()
    assert queue.counts.flushes == 1


def refusal(action: object) -> str:
    with pytest.raises(UserError) as caught:
        action()  # type: ignore[operator]
    assert len(caught.value.diagnostics) == 1
    return str(caught.value)


def test_what_cannot_be_queued_is_said_in_one_line() -> None:
    queue = make_queue(explicit=True, LOG_UOP_BUFF=UOPS)
    load = {"memory_type": "inp", "dram_base": 256, "y_size": 1, "x_size": 1, "x_stride": 1}
    assert "E1122 unknown instruction 'LAOD'; did you mean 'LOAD'" in refusal(lambda: queue.push("LAOD"))
    assert "E1122 LOAD lacks a value for 'sram_base'" in refusal(lambda: queue.push("LOAD", **load))
    assert "E1122" in refusal(lambda: queue.push("LOAD", **load, sram_base="here"))
    assert "E1122 sram_base is 65536" in refusal(lambda: queue.push("LOAD", **load, sram_base=65536))
    assert "E1122 LOAD has no field 'sram'" in refusal(lambda: queue.push("LOAD", **load, sram_base=0, sram=1))
    assert "E1123" in refusal(lambda: queue.kernel([{"dest": 0}]))
    assert "E1123" in refusal(lambda: queue.kernel([]))
    assert "E1006" in refusal(lambda: queue.kernel([{"dst": 1 << 11}]))
    assert "E1124" in refusal(lambda: queue.push_dependence("load", "store"))
    assert "E1124" in refusal(lambda: queue.pop_dependence("lood", "store"))
    assert "E1124" in refusal(lambda: make_queue(explicit=False).push_dependence("load", "compute"))
    large = queue.kernel([{"dst": k} for k in range(65)])
    alu = dict.fromkeys(("dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in"), 0)
    more = {"alu_opcode": "add", "iter_out": 1, "iter_in": 1, "use_imm": 1, "imm": 1}
    assert "E1004" in refusal(lambda: queue.push("ALU", uop_bgn=large.first, uop_end=large.stop, **more, **alu))


def test_a_token_that_nobody_pushes_is_said() -> None:
    queue = make_queue()
    load = {"memory_type": "inp", "sram_base": 0, "dram_base": 256, "y_size": 1, "x_size": 1, "x_stride": 1}
    queue.pop_dependence("compute", "load")
    queue.push("LOAD", **load)
    assert "E1127" in refusal(queue.synchronize)
    queue.push_dependence("load", "compute")
    assert "E1125" in refusal(lambda: queue.push_dependence("load", "compute"))


def test_a_machine_of_many_streams_is_refused() -> None:
    machine = load_machine("stcp920")
    assert "E1126" in refusal(lambda: CommandQueue(EmulatedQueueDevice(machine), {}))


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("target", "limits"), [("vta", Limits(12)), ("dpuv3", Limits(9)), ("dpuv3", Limits(1000, each=3))])
def test_any_machine_s_program_runs_command_by_command(target: str, limits: Limits) -> None:
    """A compiled region's instructions, pushed one after the other: what is latched and what is on chip lives through the flushes."""
    machine, _, regions = network(target)
    compiled = regions["region0"]
    x, y = compiled.map.inputs[0], compiled.map.outputs[0]
    image = np.random.default_rng(1).integers(-64, 64, tuple(compiled.map.tensors[x].shape), np.int8)
    wanted = compiled.state({x: image})
    engine_named("fast")(compiled.program, wanted, compiled.checked.order)
    device, given = EmulatedQueueDevice(machine), compiled.state({x: image})
    for mine, theirs in ((device.state.memories, given.memories), (device.state.host, given.host)):
        for name, array in theirs.items():
            mine[name][:] = array
    queue = CommandQueue(device, load_kernels(machine), limits)
    queue.allocate(max(segment.address + segment.bytes for segment in compiled.map.segments.values()))
    for index in range(len(compiled.program)):
        instruction = machine.instructions[int(compiled.program.kind[index])]
        if instruction.name != machine.program.ends:
            fields = [f.name for f in instruction.fields if f.name not in instruction.match]
            queue.push(instruction.name, **{name: compiled.program.field(index, name) for name in fields})
    queue.synchronize()
    assert queue.counts.flushes > 3
    assert np.array_equal(compiled.map.read(machine, device.state, y), compiled.result(wanted, y))


MACHINE = load_machine("vta")
UNITS = [unit.name for unit in MACHINE.units]
KINDS = {"load": "LOAD", "compute": "GEMM", "store": "STORE"}


@dataclass
class Queue:
    """Commands beside their book; `done` are those of earlier flushes."""

    commands: list[QueuedInstruction] = field(default_factory=list[QueuedInstruction])

    def __post_init__(self) -> None:
        self.book = TokenBook(MACHINE, self.commands)

    def add(self, unit: str) -> QueuedInstruction:
        kind = [i.name for i in MACHINE.instructions].index(KINDS[unit])
        command = QueuedInstruction(kind, UNITS.index(unit), {f.name: 0 for f in MACHINE.instructions[kind].fields})
        self.book.queued(command)
        self.commands.append(command)
        return command

    def flush(self) -> list[QueuedInstruction]:
        self.book.settle()
        done = list(self.commands)
        self.commands.clear()
        return done

    def has(self, command: QueuedInstruction, action: str, source: str, target: str) -> bool:
        channel = self.book.known.channels[UNITS.index(source), UNITS.index(target)]
        bit = self.book.known.bits[command.kind, command.unit, action, channel.counter]
        return bool(command.values[bit.field] >> bit.bit & 1)


def test_a_push_and_a_pop_set_two_bits() -> None:
    queue = Queue()
    load = queue.add("load")
    queue.book.push("load", "compute")
    queue.book.pop("load", "compute")
    other = queue.add("store")
    gemm = queue.add("compute")
    assert queue.has(load, POST, "load", "compute")
    assert queue.has(gemm, WAIT, "load", "compute")
    assert not any(other.values.values())
    assert queue.flush() == [load, other, gemm]
    assert queue.has(load, POST, "load", "compute")


def test_a_flush_answers_what_is_open() -> None:
    queue = Queue()
    load = queue.add("load")
    queue.book.push("load", "compute")
    queue.flush()
    assert not queue.has(load, POST, "load", "compute")
    queue.book.pop("load", "compute")
    assert not queue.has(queue.add("compute"), WAIT, "load", "compute")
    queue.book.pop("load", "compute")
    queue.add("compute")
    with pytest.raises(UserError, match="E1127"):
        queue.flush()


def test_a_pop_that_waits_for_its_command_is_answered_too() -> None:
    queue = Queue()
    queue.add("load")
    queue.book.push("load", "compute")
    queue.book.pop("load", "compute")
    queue.flush()
    assert not queue.has(queue.add("compute"), WAIT, "load", "compute")
    queue.book.pop("load", "compute")
    with pytest.raises(UserError, match="E1127"):
        queue.book.settle()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["load", "compute", "push", "pop", "flush"]), max_size=40))
def test_posts_and_waits_are_even_in_every_flush(actions: list[str]) -> None:
    """Whatever legal order: a flush has as many posts as waits, the k-th post before the k-th wait, and no pop is lost."""
    queue, open_, bits = Queue(), 0, 0
    for action in [*actions, "flush"]:
        if action in ("load", "compute"):
            queue.add(action)
        elif action == "push" and any(c.unit == UNITS.index("load") and not queue.has(c, POST, "load", "compute") for c in queue.commands[-1:]):
            queue.book.push("load", "compute")
            open_ += 1
        elif action == "pop" and open_ and not queue.book.links[UNITS.index("load"), UNITS.index("compute")].pending:
            queue.book.pop("load", "compute")
            open_ -= 1
        elif action == "flush":
            done = queue.flush()
            level = 0
            for command in done:
                if command.unit == UNITS.index("compute"):
                    level -= queue.has(command, WAIT, "load", "compute")
                elif command.unit == UNITS.index("load"):
                    level += queue.has(command, POST, "load", "compute")
                assert level >= 0
            assert level == 0
            bits += 1
    assert bits
