"""Sections numerics, program and host.

Sections operators, fusion and pipeline: read with parameters in place, printed, hashed, without effect on programs.

The section of a machine's file becomes numerics; what makes no sense is refused with its place.

The section costs: terms of one machine by its parameters, and mistakes at their places.
"""

import pytest

from tests.spec.small import GOOD, edited, small
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import find_target, load_machine, load_text, read_text
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Fraction, Numerics, Range
from toolchain.spec.render import diff, render, unparse

SHORT = """quantisation:
  weight: [-127, 127]
  activation: [-32 * LANES, 127]
  bias: [-2147483648, 2147483647]
  scale: power_of_two
  rounding: half_up
  shift: [0, 31]
"""
START = GOOD.count("\n")


def test_container_follows_the_streams() -> None:
    assert small((", container: object", "")).program.container == "object"
    assert small((", container: object", ""), ("count: 2, streams", "count: 1, streams")).program.container == "raw"
    with pytest.raises(UserError, match="E0116 several streams"):
        small(("container: object", "container: raw"))


def test_host_costs_have_sources() -> None:
    host = small().host
    assert host is not None
    assert (host.gmac_per_s["default"].value, host.launch_us.value, host.gb_per_s.source) == (1.5, 10.0, "measured")


@pytest.mark.parametrize("low", ["-129", "128"])
def test_saturation_limits_lie_in_the_type(low: str) -> None:
    with pytest.raises(UserError, match="E0105 low"):
        small(("low: -127", f"low: {low}"))
    with pytest.raises(UserError, match="E0105 low = 5 is above high = 3"):
        small(("low: -127", "low: 5, high: 3"))


SECTIONS = """operators:
  conv2d:
    - {that: kh <= LANES * 4, message: the kernel is too large}
fusion:
  - {name: sum, computes: add, pattern: {op: Add, inputs: [x, z]}}
pipeline:
  - fold_constants
  - fuse: {keep: [add]}
"""


def test_conditions_have_parameters_in_place() -> None:
    (condition,) = load_text(GOOD + SECTIONS, "m.yaml").operators["conv2d"]
    assert (unparse(condition.that), condition.message) == ("kh <= 16", "the kernel is too large")


def test_they_are_printed_compared_and_hashed_but_are_no_architecture() -> None:
    plain, full = small(), load_text(GOOD + SECTIONS, "m.yaml")
    assert fingerprint(plain) == fingerprint(full)
    assert set(section_hashes(full)) - set(section_hashes(plain)) == {"operators", "fusion", "pipeline"}
    data = render(full)
    assert data["pipeline"] == ["fold_constants", {"fuse": {"keep": ["add"]}}]
    assert data["fusion"][0]["pattern"] == {"op": "Add", "inputs": ["x", "z"]}
    assert "operators.conv2d[0].that: (nothing) -> kh <= 16" in diff(plain, full)


def test_places_are_kept_for_whoever_reads_them() -> None:
    pipeline = load_text(GOOD + SECTIONS, "m.yaml").pipeline
    assert pipeline is not None
    assert pipeline.node.children()[1].span.line == GOOD.count("\n") + 8


def numerics(text: str) -> Numerics | None:
    return load_text(GOOD + text, "m.yaml").quantisation


def test_the_shortest_section_is_the_default_with_parameters_in_place() -> None:
    assert numerics(SHORT) == Numerics()


def test_a_machine_may_have_none() -> None:
    assert small().quantisation is None


@pytest.mark.parametrize("numerator", [20, 21])
def test_a_mean_may_be_cut_off_or_rounded(numerator: int) -> None:
    """1024 / 49 is 20.9."""
    found = numerics(SHORT + f"  average: {{table: {{7x7: [{numerator}, 10]}}}}\n")
    assert found is not None
    assert found.average.table == ((7, 7, Fraction(numerator, 10)),)


def test_a_full_section() -> None:
    text = SHORT.replace("power_of_two", "multiplier") + (
        "  per_channel: true\n  multiplier_bits: 15\n  order: shift_first\n  bias_shift: [0, 16]\n  align: [0, 6]\n  accumulator_bits: 6 * LANES\n"
        "  average: {bits: 9, table: {3x3: [7, 6], 3x6: [7, 7]}}\n  leaky: [26, 8]\n  one_scale: [add]\n"
    )
    found = numerics(text)
    assert found is not None
    assert found.average == AverageRule(((3, 3, Fraction(7, 6)), (3, 6, Fraction(7, 7))), 9)
    assert (found.form, found.per_channel, found.multiplier_bits, found.order) == ("multiplier", True, 15, "shift_first")
    assert (found.bias_shift, found.align, found.accumulator_bits, found.leaky) == (Range(0, 16), Range(0, 6), 24, Fraction(26, 8))
    assert set(found.one_scale) == {"add"}


def test_multipliers_that_round_twice_and_zero_points() -> None:
    text = SHORT.replace("power_of_two", "multiplier").replace("[-32 * LANES, 127]", "[0, 255]") + (
        "  zero_points: true\n  first_rounding: {shift: 31, rounding: half_even}\n"
    )
    found = numerics(text)
    assert found is not None
    assert (found.first_rounding, found.zero_points, found.stored) == (FirstRounding(31, "half_even"), True, "uint8")
    assert (found.magnitude, found.reach) == (255, 255)
    assert (Numerics().stored, Numerics().magnitude, Numerics(activation=Range(-127, 127)).reach) == ("int8", 128, 128)


def test_a_floating_format_in_place_of_integers_where_it_holds() -> None:
    sums = "  floats: {when: LANES == 4, sums: {conv2d: {blocks: [i // LANES], terms: [i % LANES]}}}\n"
    near = "tolerance: {absolute: 0.01, relative: 0.01, because: halves}\n"
    found, plain = numerics(SHORT + sums + near), numerics(SHORT + sums.replace("== 4", "== 5"))
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        numerics(SHORT + sums)
    assert plain == Numerics()
    assert found is not None
    assert found.floats is not None
    assert (found.form, found.stored) == ("none", "float16")
    assert {name: [len(order.exprs) for order in orders] for name, orders in found.floats.sums} == {"conv2d": [2]}
    assert not found.floats.orders("add")[0].terms


def test_the_format_of_tensors_may_be_chosen() -> None:
    near = "tolerance: [{when: LANES == 5, absolute: 1, relative: 0, because: fives}, {absolute: 2, relative: 0.1, because: fours}]\n"
    found = numerics(f"{SHORT}  floats: {{when: LANES == 4, format: bf16 if LANES == 4 else f16}}\n{near}")
    assert found is not None
    assert found.floats is not None
    assert (found.floats.format, found.stored, found.bytes) == ("bf16", "bfloat16", 2)
    with pytest.raises(UserError, match="E0116 tensors are f16 or bf16, not f32"):
        numerics(f"{SHORT}  floats: {{when: LANES == 4, format: f32}}\n{near}")
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        numerics(f"{SHORT}  floats: {{when: LANES == 4}}\ntolerance: [{{when: LANES == 5, absolute: 1, relative: 0, because: fives}}]\n")


def test_orders_of_a_sum_by_numbers_of_the_operation() -> None:
    several = "[{terms: [v, i], blocks: [u], where: kw < 8, over: {v: [-1, 7]}}, {terms: [i]}]"
    found = numerics(
        f"{SHORT}  floats: {{when: LANES == 4, sums: {{conv2d: {several}}}}}\ntolerance: {{absolute: 1, relative: 0, because: halves}}\n"
    )
    assert found is not None
    assert found.floats is not None
    first, other = found.floats.orders("conv2d")
    assert ([index for index, _ in first.over], len(first.exprs), first.where is None) == (["v"], 6, False)
    assert (other.over, other.where) == ((), None)
    with pytest.raises(UserError, match="E0116"):
        numerics(f"{SHORT}  floats: {{when: LANES == 4, sums: {{conv2d: []}}}}\n")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("rounding: half_up", "rounding: half_upp", "E0116"),
        ("shift: [0, 31]", "shift: [31, 0]", f"m.yaml:{START + 7}:10: E0116 'shift' must be [least, greatest], from 0 to 63"),
        ("weight: [-127, 127]", "weight: [1, 127]", f"m.yaml:{START + 2}:11: E0116 'weight' must be [least, greatest], around zero, within 8 bits"),
        ("-32 * LANES", "-33 * LANES", "E0116 'activation'"),
        ("-32 * LANES", "-32 * LANE", f"m.yaml:{START + 3}:22: E0107 unknown name 'LANE'"),
        ("weight: [-127, 127]", "weight: [-127, 128]", "E0116 'weight'"),
        ("weight: [-127, 127]", "weight: 3", f"m.yaml:{START + 2}:11: E0116"),
        ("  scale: power_of_two\n", "", "E0109 missing key 'scale'"),
        ("scale:", "scales:", "E0108 unknown key 'scales'"),
        ("shift: [0, 31]", "shift: [0, 31]\n  accumulator_bits: 64", "E0116 'accumulator_bits' is 64, it must be from 8 to 32"),
        ("shift: [0, 31]", "shift: [0, 31]\n  leaky: [26, 64]", "E0116 'leaky'"),
        (
            "shift: [0, 31]",
            "shift: [0, 31]\n  average: {table: {3x6: [7, 8]}}",
            "E0116 7 / 2**8 is no mean over 3x6: with that shift, 14 is nearest",
        ),
        ("shift: [0, 31]", "shift: [0, 31]\n  average: {table: {7x7: [19, 10]}}", "E0116 19 / 2**10 is no mean over 7x7"),
        ("shift: [0, 31]", "shift: [0, 31]\n  average: {table: {7x7: [22, 10]}}", "E0116 22 / 2**10 is no mean over 7x7"),
        ("[-32 * LANES, 127]", "[0, 255]", "E0116 'activation' must be [least, greatest], around zero, within 8 bits"),
        ("[-32 * LANES, 127]", "[-1, 255]\n  zero_points: true", "E0116 'activation' must be [least, greatest], of int8 or of uint8"),
        ("shift: [0, 31]", "shift: [0, 31]\n  first_rounding: {shift: 3, rounding: floor}", "E0116 'first_rounding' belongs to 'scale: multiplier'"),
        ("scale: power_of_two", "scale: multiplier\n  first_rounding: {shift: 63, rounding: floor}", "E0116 the shift of 'first_rounding' is 63"),
        ("scale: power_of_two", "scale: multiplier\n  first_rounding: {shift: 3}", "E0109 missing key 'rounding'"),
    ],
)
def test_what_makes_no_sense_is_refused(before: str, after: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        numerics(SHORT.replace(before, after))
    assert words in str(caught.value)


CLOCK = next(line for line in GOOD.splitlines() if "clock_khz:" in line)

TEXT = read_text(find_target("vta")).partition("\ncosts:")[0]


def test_a_peak_may_be_declared_and_counts_as_timing() -> None:
    plain, peak = small(), small((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4 * 16, source: one block a cycle}}"))
    assert plain.timing.peak_macs is None
    assert (peak.timing.peak_macs, peak.timing.peak_source) == (64, "one block a cycle")
    assert fingerprint(plain) == fingerprint(peak)
    assert section_hashes(plain)["timing"] != section_hashes(peak)["timing"]


def test_a_peak_needs_a_source() -> None:
    with pytest.raises(UserError, match="source"):
        load_text(edited((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4}}")), "m.yaml")


def with_costs(*lines: str) -> str:
    return "\n".join([TEXT, "costs:", *lines, ""])


def faults(*lines: str) -> str:
    with pytest.raises(UserError) as caught:
        load_text(with_costs(*lines), "m.yaml")
    return str(caught.value)


def test_counts_follow_the_parameters() -> None:
    areas = []
    for block in ("4", "5"):
        costs = load_machine("vta", overrides={"LOG_BLOCK": block}).costs
        assert costs is not None
        areas.append({term.name: term.count for term in costs.area_um2})
    assert [each["multipliers"] for each in areas] == [256, 1024]
    assert areas[0]["sram"] == areas[1]["sram"] == 8 * (2**15 + 2**15 + 2**18 + 2**17)
    assert [each["out_buffer"] for each in areas] == [0, 0]


def test_a_machine_without_the_section_has_no_costs_and_the_same_architecture() -> None:
    bare = load_text(TEXT, "m.yaml")
    assert bare.costs is None
    assert fingerprint(bare) == fingerprint(load_machine("vta"))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["  area_um2: {a: {each: 1, count: BLOCK - 99, source: s}}"], "E0105 count = -83 is below 0"),
        (["  energy_pj: {a: {each: 1, per: [dram.red], source: s}}"], "E0107 a run has no count 'dram.red'; did you mean 'dram.read'?"),
        (["  area_um2: {a: {each: 1, count: BLOK, source: s}}"], "E0107 unknown name 'BLOK'"),
        (["  area_um2: {a: {each: 1}}"], "E0109 missing key 'source'"),
        (["  area_um2: {a: {each: 0, source: s}}"], "E0116"),
        (["  area_mm2: {a: {each: 1, source: s}}"], "E0108 unknown key 'area_mm2' in costs; did you mean 'area_um2'?"),
        (["  energy_pj: {a: {each: 1, source: s}}"], "E0109 missing key 'per'"),
        (["  {}"], "E0116 this must not be empty"),
    ],
)
def test_mistakes_have_their_place(lines: list[str], told: str) -> None:
    found = faults(*lines)
    assert told in found
    assert found.startswith("m.yaml:")


def test_assumed_terms_are_assumptions() -> None:
    assert any(text.startswith("costs.area_um2.sram: a cell of") for text in load_machine("vta").assumptions)
