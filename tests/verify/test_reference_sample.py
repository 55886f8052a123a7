from dataclasses import replace

import numpy as np
import pytest

from tests.verify.regions import small
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.state import State
from toolchain.emulator.engines import Engine, engine_named
from toolchain.isa.program import Ints, Program
from toolchain.verify import reference_sample
from toolchain.verify.reference_sample import SampleSize, draw_instructions, sample_reference
from toolchain.verify.verdict import Sampled

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
