"""The reference engine on parts of a program, and memories compared where they were touched."""

import mmap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from tests.verify.regions import small
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import LARGE, State, new_state
from toolchain.emulator import Engine, engine_named, native, numpy_engine, reference
from toolchain.isa.decode import decode
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify import reference_sample
from toolchain.verify.reference_sample import SampleSize, disagreements, draw_instructions, recompute, sample_reference
from toolchain.verify.verdict import Sampled

BYTES = 1 << 24
MACHINE = load_machine("vta", overrides={"LOG_DRAM": "24"})
PLACES = st.lists(st.integers(0, BYTES - 1), max_size=6)


def dram() -> reference_sample.Bytes:
    return new_state(MACHINE).memories["dram"]


@given(PLACES)
def test_everything_that_is_not_zero_lies_in_a_range(places: list[int]) -> None:
    memory = dram()
    memory[0, places] = 1
    ranges = reference_sample.touched(memory)
    assert [start for start, _ in ranges] == sorted({start for start, _ in ranges})
    assert all(any(start <= place < stop for start, stop in ranges) for place in places)


@pytest.mark.skipif(len(reference_sample.touched(dram())) > 0, reason="the system does not tell which pages are used")
def test_a_byte_costs_a_page() -> None:
    memory = dram()
    memory[0, BYTES // 2] = 1
    assert reference_sample.touched(memory) == [(BYTES // 2, BYTES // 2 + mmap.PAGESIZE)]


@given(PLACES, PLACES, st.booleans())
def test_the_first_difference_is_the_first(one: list[int], other: list[int], told: bool) -> None:
    a, b = dram(), dram()
    a[0, one], b[0, other] = 1, 1
    with pytest.MonkeyPatch.context() as patch:
        if not told:
            patch.setattr(reference_sample, "PAGES", "/no/such/file")
        found = reference_sample.first_difference(a, b)
    lone = sorted(set(one) ^ set(other))
    assert found == ((0, lone[0]) if lone else None)


def test_small_memories_are_compared_whole() -> None:
    a, b = (np.zeros((3, 100), np.uint8) for _ in range(2))
    assert a.size < LARGE
    assert reference_sample.touched(a) == [(0, 300)]
    assert reference_sample.first_difference(a, b) is None
    a[2, 99] = 7
    assert reference_sample.first_difference(a, b) == (2, 99)


GOLDEN = Path(__file__).parents[1] / "data" / "vta_golden"
INPUT, RESULT, PARAMETERS = 0, 1 << 24, 3 << 24


def unchanged(a: State, b: State) -> bool:
    return all(np.array_equal(a.memories[name], b.memories[name]) for name in a.memories)


@pytest.mark.parametrize("name", ["c01_conv3x3_s2", "r01_ordered", "u10_alu_shr_vec"])
def test_samples_of_vta_programs_agree_with_the_whole(name: str) -> None:
    machine = load_machine("vta", overrides={"LOG_DRAM": "16"})
    with np.load(GOLDEN / f"{name}.npz") as data:
        program, before = decode(machine, [data["insns"].tobytes()]), data["dram_before"].ravel()
    state = new_state(machine)
    state.memories["dram"][0, : before.size] = before
    order = issue_order(program)
    for step, index in enumerate(order.tolist()):
        sampled = recompute(program, state, index, elements=3, seed=index)
        whole = recompute(program, state, index) if step % 5 == 0 else ()
        reference.run(program, state, order[step : step + 1])
        assert disagreements(state, sampled) == ()
        assert disagreements(state, whole) == ()


def in_text_order(semantics: str, *words: bytes) -> tuple[Program, State]:
    machine = tiny(semantics)
    state = new_state(machine)
    state.memories["acc"][:] = np.arange(state.memories["acc"].size).reshape(state.memories["acc"].shape) % 7
    return decode(machine, streams(list(words))), state


CHAIN = "for i in range(1, 4):\n    acc[i][o] = acc[i - 1][o] + i\n"


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_computes_what_its_elements_depend_on(seed: int) -> None:
    program, state = in_text_order(CHAIN, word(0))
    before, sampled = state.copy(), recompute(program, state, 0, elements=1, seed=seed)
    assert unchanged(before, state)
    assert len(sampled) == 1
    reference.run(program, state, np.array([0]))
    assert disagreements(state, sampled) == ()


def test_a_wrong_element_is_found() -> None:
    program, state = in_text_order(CHAIN, word(0))
    written = recompute(program, state, 0)
    assert len(written) == 6
    reference.run(program, state, np.array([0]))
    state.memories["acc"][1, 40] ^= 1
    assert [(w.element.memory, w.element.instance, w.element.start) for w in disagreements(state, written)] == [("acc", 1, 32)]


def test_registers_stay_as_they_are() -> None:
    program, state = in_text_order("pass\n", word(1, b=1, m=5))
    assert recompute(program, state, 0) == ()
    assert not state.written["cfg"].any()


def test_a_sample_larger_than_what_is_written_is_everything() -> None:
    program, state = in_text_order("for i in range(n):\n    sat[i % 4][o] = i\n", word(0, n=3))
    assert recompute(program, state, 0, elements=100) == recompute(program, state, 0)


def test_running_names_keep_their_values_in_skipped_iterations() -> None:
    program, state = in_text_order("t = 0\nfor i in range(n):\n    t = t + i\n    sat[i % 4][o] = clip(t)\n", word(0, n=4))
    sampled = [recompute(program, state, 0, elements=1, seed=seed) for seed in range(6)]
    reference.run(program, state, np.array([0]))
    assert [disagreements(state, one) for one in sampled] == [()] * 6


@pytest.mark.parametrize("seed", range(4))
def test_replicas_that_write_nothing_of_the_sample_are_left_out(seed: int) -> None:
    """Executed, the second replica would read outside of its memory."""
    semantics = "for i in range(n):\n    acc[i % 4][o] = one[OFFSET]\n"
    where = {w.element.instance for w in recompute(*in_text_order(semantics.replace("OFFSET", "0"), word(0, n=4)), 0, 1, seed)}
    program, state = in_text_order(semantics.replace("OFFSET", "4 * way"), word(0, n=4))
    if where == {0}:
        assert [w.element.instance for w in recompute(program, state, 0, 1, seed)] == [0]
    else:
        with pytest.raises(UserError, match="E0701"):
            recompute(program, state, 0, 1, seed)


ACROSS = "for i in range(n):\n    loop[way][c] = feat[0, i][c]\n    acc[i % 4][o] = loop[1 - way][o]\n"


@pytest.mark.parametrize("seed", range(6))
def test_replicas_that_the_sample_reads_from_are_executed(seed: int) -> None:
    program, state = in_text_order(ACROSS, word(0, n=4))
    state.memories["feat"][:] = np.arange(state.memories["feat"].size).reshape(state.memories["feat"].shape) % 101
    sampled = recompute(program, state, 0, elements=1, seed=seed)
    reference.run(program, state, np.array([0]))
    assert disagreements(state, sampled) == ()


def vendor_program(folder: Path) -> tuple[Program, State, np.ndarray]:
    """conv1 + pool1 with its parameters and images 0, 1, 0, 1; the last value is the vendor's output, by PE."""
    machine = load_machine("dpuv3", overrides={"LOG_DDR": "26"})
    words = [int(line, 16) for line in (folder / "conv1_pool1_fused.hex").read_text().split()]
    program, state = decode(machine, [np.array(words, "<u4").tobytes()]), new_state(machine)
    with np.load(folder / "conv1_pool1_golden.npz") as data:
        images, params, golden = data["input_nhwc"][[0, 1, 0, 1]], data["params_plain"], data["golden_nhwc"][[0, 1, 0, 1]]
    words16 = np.zeros((*images.shape[1:3], 4, 16), np.int8)
    words16[..., : images.shape[3]] = images.transpose(1, 2, 0, 3)
    state.memories["ddr"][0, INPUT : INPUT + words16.size] = words16.ravel().view(np.uint8)
    state.memories["ddr"][0, PARAMETERS : PARAMETERS + params.size] = params.view(np.uint8)
    state.host["base"][0] = [INPUT, RESULT, 2 << 24, PARAMETERS]
    return program, state, golden


def test_vendor_convolution_and_pooling_by_samples(vendor_streams: Path) -> None:
    """Sampled LOADs, CONVs, POOLs and SAVEs by the reference engine, in a run whose result is the vendor's."""
    program, state, golden = vendor_program(vendor_streams)
    order = issue_order(program)
    wanted = np.random.default_rng(7).choice(len(order), 24, replace=False)
    done, checked = 0, 0
    for step in sorted(wanted.tolist()):
        numpy_engine.run(program, state, order[done:step])
        sampled = recompute(program, state, int(order[step]), elements=2, seed=step)
        numpy_engine.run(program, state, order[step : step + 1])
        assert disagreements(state, sampled) == ()
        done, checked = step + 1, checked + len(sampled)
    numpy_engine.run(program, state, order[done:])
    height, width, channels = golden.shape[1:]
    stored = state.memories["ddr"][0, RESULT : RESULT + golden.size].view(np.int8)
    result = stored.reshape(height, width, channels // 16, 4, 16).transpose(3, 0, 1, 2, 4).reshape(golden.shape)
    assert int((result != golden).sum()) == 0
    assert checked > 40


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_vendor_network_by_samples(vendor_streams: Path) -> None:
    """Every kind of instruction of a whole network on random data: the C engine against the reference."""
    machine = load_machine("dpuv3", overrides={"LOG_DDR": "28"})
    words = [int(line, 16) for line in (vendor_streams / "resnet50_hand.hex").read_text().split()]
    program, state, bits = decode(machine, [np.array(words, "<u4").tobytes()]), new_state(machine), np.random.default_rng(3)
    ddr = state.memories["ddr"][0]
    ddr[: 1 << 22] = bits.integers(0, 256, 1 << 22, np.uint8)
    ddr[3 << 26 : (3 << 26) + (32 << 20)] = bits.integers(0, 256, 32 << 20, np.uint8)
    state.host["base"][0] = [0, 1 << 26, 2 << 26, 3 << 26]
    order, done = issue_order(program), 0
    kinds = np.array([machine.instructions[kind].name for kind in program.kind[order]])
    drawn = [bits.permutation(np.flatnonzero(kinds == name))[:3] for name in ("LOAD", "CONV", "ELEW", "POOL", "SAVE")]
    for step in sorted(np.concatenate(drawn).tolist()):
        native.run(program, state, order[done:step])
        sampled = recompute(program, state, int(order[step]), elements=2, seed=step)
        native.run(program, state, order[step : step + 1])
        assert len(sampled) == 2
        assert disagreements(state, sampled) == ()
        done = step + 1


WHOLE, FEW = SampleSize(whole=1 << 40), SampleSize(instructions=8, elements=2, whole=0)


def sampled(size: SampleSize) -> Sampled:
    tested, expected = small()
    image = {"image": expected["image"]}
    prints = prepare_program(tested.program, tested.state(image)).footprints
    return sample_reference(tested.program, tested.order, prints, tested.listing, lambda: tested.state(image), size)


def test_every_kind_is_drawn_and_the_same_again() -> None:
    program = small()[0].program
    drawn = draw_instructions(program, FEW)
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 8
    assert set(program.kind[drawn].tolist()) == set(program.kind.tolist())
    assert drawn == draw_instructions(program, FEW)
    assert drawn != draw_instructions(program, replace(FEW, seed=1))
    assert len(draw_instructions(program, replace(FEW, instructions=1000))) == len(program)


def test_regions_share_and_each_has_every_kind() -> None:
    program, size = small()[0].program, SampleSize(instructions=24, whole=1000)
    assert size.share(0, 1) == size
    shares = [size.share(number, 10) for number in range(10)]
    assert {(own.instructions, own.whole, own.elements) for own in shares} == {(3, 100, size.elements)}
    drawn = [draw_instructions(program, own) for own in shares]
    assert all(set(program.kind[own].tolist()) == set(program.kind.tolist()) for own in drawn)
    assert len({tuple(own) for own in drawn}) > 1


@pytest.mark.parametrize("size", [WHOLE, FEW])
def test_engines_agree(size: SampleSize) -> None:
    found = sampled(size)
    assert found.disagreement is None
    assert (found.instructions == found.of) == (size is WHOLE)


@pytest.mark.parametrize("size", [WHOLE, replace(FEW, instructions=1000)])
def test_an_engine_that_is_wrong_is_found(size: SampleSize, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Program, state: State, order: Ints) -> None:
        engine_named("fast")(program, state, order)
        if (len(order) and small()[0].listing[int(order[-1])].startswith("early finish")) or len(order) == len(program):
            memory = state.memories["acc"].reshape(-1)
            memory ^= np.uint8(1)

    def named(name: str) -> Engine:
        return wrong if name == "fast" else engine_named(name)

    monkeypatch.setattr(reference_sample, "engine_named", named)
    found = sampled(size).disagreement
    assert found is not None
    assert "of acc[instance 0]" in found.memory
    assert found.reference != found.fast
