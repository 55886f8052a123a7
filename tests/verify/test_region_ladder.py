"""What is right is found right; a deliberate fault is named with its tensor, its element and the instruction behind it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.verify.regions import small, with_byte, with_field
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.region_ladder import climb_region, unequal
from toolchain.verify.verdict import RegionVerdict

FEW = SampleSize(instructions=6, elements=1, whole=0)


def kind(compiled: CompiledRegion, name: str) -> int:
    """The last instruction of a kind."""
    return max(k for k in range(len(compiled.program)) if compiled.program.machine.instructions[int(compiled.program.kind[k])].name == name)


def labelled(compiled: CompiledRegion, start: str) -> int:
    return next(k for k, label in enumerate(compiled.listing) if label.startswith(start))


def test_a_right_program_is_exact() -> None:
    compiled, expected = small()
    verdict = climb_region(compiled, expected, FEW)
    assert verdict.exact
    assert [(item.tensor, item.after, item.elements) for item in verdict.compared] == [("image", "", 600), ("result", "conv", 510)]
    assert verdict.sampled.instructions == 6


def climb_faulty(compiled: CompiledRegion) -> RegionVerdict:
    verdict = climb_region(compiled, small()[1], FEW)
    assert not verdict.exact
    assert [item.tensor for item in unequal([verdict])] == ["result"]
    return verdict


def test_a_changed_field_is_found_where_it_shows() -> None:
    compiled, expected = small()
    alu = labelled(compiled, "conv finish")
    verdict = climb_faulty(with_field(compiled, alu, "imm", compiled.program.field(alu, "imm") - 1))
    found = verdict.difference
    assert found is not None
    assert found.writer is not None
    assert found.expected == expected["result"][found.coordinates] != found.found
    assert found.nodes == ("node_a", "node_b")
    assert found.writer.label.startswith("conv store y n=0:1 oc=0:1")
    assert any(text.startswith(f"#{alu} ALU") for text in found.writer.before)


def test_a_store_to_the_wrong_place_leaves_an_element_that_nobody_wrote() -> None:
    compiled, _ = small()
    store = kind(compiled, "STORE")
    moved = with_field(compiled, store, "dram_base", compiled.program.field(store, "dram_base") + 30)
    verdict = climb_faulty(moved)
    assert verdict.difference is not None
    assert verdict.difference.coordinates[:2] == (0, 16)


def test_a_flipped_constant_is_found_in_its_channel() -> None:
    compiled, expected = small()
    weights = compiled.map.tensors["image"].offset + compiled.map.tensors["image"].bytes
    flipped = with_byte(compiled, -(-weights // 4096) * 4096 + 16 * 3)
    found = climb_faulty(flipped).difference
    assert found is not None
    state = flipped.state({"image": expected["image"]})
    assert found.coordinates[1] == 3
    assert found.differing <= 30
    assert not np.array_equal(state.memories["dram"], compiled.state({"image": expected["image"]}).memories["dram"])


def test_a_missing_token_is_a_hazard() -> None:
    compiled, expected = small()
    waiting = max(k for k in range(len(compiled.program)) if "pop_prev" in compiled.program.columns[int(compiled.program.kind[k])])
    hurried = next(k for k in range(waiting) if compiled.listing[k].startswith("conv compute") and compiled.program.field(k, "pop_prev"))
    verdict = climb_region(with_field(compiled, hurried, "pop_prev", 0), expected, FEW)
    assert not verdict.exact
    assert any("race" in text or "token" in text for text in verdict.hazards)


@pytest.mark.parametrize(("missing", "reason"), [("result", "the integer network has no tensor of this name")])
def test_what_cannot_be_compared_is_told(missing: str, reason: str) -> None:
    compiled, expected = small()
    verdict = climb_region(compiled, {name: array for name, array in expected.items() if name != missing}, FEW)
    assert not verdict.exact
    assert verdict.unseen == ((missing, reason),)


def test_an_output_that_is_overwritten_later_is_found() -> None:
    compiled, expected = small()
    last = int(np.flatnonzero(compiled.owner == 0)[-1])
    early = compiled.owner.copy()
    early[last] = -1
    verdict = climb_region(replace(compiled, owner=early), expected, FEW)
    assert verdict.difference is not None
    assert verdict.difference.coordinates[:2] == (0, 16)
