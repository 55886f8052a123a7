"""Measured beside modelled: a device that is as quick as the model deviates nowhere, a slower one where it is slower. Of profiles as text every row
comes back, and any other text is refused with its line.

The table for a terminal.
"""

import csv
import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.browser import unpacked
from tests.report.measured import profile, region
from tests.report.test_timeline_data import starts
from toolchain.report.measured_times import SHOWN, Beside, Profile, beside, headline, measured_spans, overlay, profile_text, read_profile
from toolchain.report.timeline_data import page_data
from toolchain.spec.errors import Source, UserError


def _beside(given: Profile) -> Beside:
    return beside(given, measured_spans(given, given.events, region()), region())


@given(st.integers(-(10**6), 10**6), st.booleans(), st.sampled_from(["cycles", "ns"]))
def test_a_device_with_another_zero_deviates_nowhere(offset: int, ends: bool, unit: str) -> None:
    found = _beside(profile(float(offset), ends, unit))
    assert found.deviations == ()
    assert found.offset == pytest.approx(offset, abs=0.01)
    assert found.measured == pytest.approx(found.modelled, abs=0.01)
    assert [each.operation for each in found.operations] == ["conv1", "conv2"]
    assert all(each.measured == pytest.approx(each.modelled, abs=0.01) and each.later == pytest.approx(0, abs=0.01) for each in found.operations)


@given(st.data())
def test_the_instruction_that_lost_time_is_found(data: st.DataObject) -> None:
    """From one instruction on, everything that starts later comes later still."""
    start = region().timeline.result.start
    slow, cycles = data.draw(st.integers(1, len(start) - 1)), data.draw(st.integers(1, 10**5))
    begins = float(np.unique(start)[min(slow, len(np.unique(start)) - 1)])
    found = _beside(profile(np.where(start >= begins, float(cycles), 0.0)))
    queues = {int(queue) for queue, time in zip(region().timeline.program.queue, start, strict=True) if time >= begins}
    assert len(found.deviations) == len(queues)
    assert {each.lost for each in found.deviations} == {float(cycles)}
    assert min(each.modelled for each in found.deviations) == begins
    assert found.measured - found.modelled == cycles


def test_counters_are_summed_by_operation() -> None:
    found = _beside(profile())
    owner = region().owner
    assert found.counters == ("stalls",)
    assert [each.counters for each in found.operations] == [(float(np.flatnonzero(owner == number).sum()),) for number in (0, 1)]


def test_operations_that_were_timed_as_a_whole() -> None:
    text = "operation,start_cycles,end_cycles\nconv2,1000,1500\nconv1,100,600\n"
    found = _beside(read_profile(Source("p.csv", text)))
    assert (found.whole, found.spans, found.of) == (True, 2, 2)
    assert [(each.operation, each.measured) for each in found.operations] == [("conv1", 500.0), ("conv2", 500.0)]
    result, owner = region().timeline.result, region().owner
    modelled = [float(result.start[owner == number].min()) for number in (0, 1)]
    assert found.operations[1].later == 900 - (modelled[1] - modelled[0])
    assert "2 of 2 operations measured; 1,400 cycles" in headline(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instruction,start_ns\n0,1\n0,2\n", "p.csv:3:1: E1128 this was timed twice in one profile"),
        ("instruction,start_ns\n99999,1\n", "p.csv:2:1: E1128 'region0' has no instruction 99999 in stream 0"),
        ("stream,instruction,start_ns\n1,0,1\n", "p.csv:2:1: E1128 'region0' has no instruction 0 in stream 1"),
        ("operation,start_ns\nconv3,1\n", "p.csv:2:1: E1128 'region0' has no operation 'conv3'; did you mean 'conv"),
        ("operation,start_ns\n,1\n", "p.csv:2:1: E1128 'region0' has no operation ''"),
    ],
)
def test_what_the_program_has_not_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        _beside(read_profile(Source("p.csv", text)))
    assert str(caught.value).startswith(message)


def test_lanes_for_both_and_columns_for_all() -> None:
    given, modelled = profile(50.0), region()
    drawn = overlay(modelled, measured_spans(given, given.events, modelled))
    data = page_data("t", modelled.timeline, modelled.legend, overlay=drawn)
    n = len(modelled.timeline.program)
    assert [lane[0] for lane in data["lanes"]] == ["modelled"] * 3 + ["measured"] * 3
    assert {len(unpacked(column)) for column in data["columns"].values()} == {2 * n}
    start, lane = starts(data), unpacked(data["columns"]["lane"])
    assert np.allclose(start[:n], start[n:], atol=0.002)
    assert (lane[n:] == lane[:n] + 3).all()
    assert data["text"][:n] == data["text"][n:]
    assert data["causes"][n] == ["measured: starts +0 cycles from the model"]


def test_an_end_that_was_not_measured_is_as_long_as_in_the_model() -> None:
    given, modelled = profile(ends=False), region()
    drawn = overlay(modelled, measured_spans(given, given.events, modelled))
    result = modelled.timeline.result
    assert np.allclose(drawn.end - drawn.start, result.end - result.start)


def test_an_operation_is_drawn_between_its_own_ends() -> None:
    given, modelled = read_profile(Source("p.csv", "operation,start_cycles,end_cycles\nconv1,0,5000\n")), region()
    drawn = overlay(modelled, measured_spans(given, given.events, modelled))
    assert drawn.index.tolist() == np.flatnonzero(modelled.owner == 0).tolist()
    assert float(drawn.end.max() - drawn.start.min()) == 5000.0


def test_a_table_of_operations_and_the_largest_deviations() -> None:
    late = np.arange(len(region().timeline.program)) * 10.0
    given = profile(late)
    found = beside(given, measured_spans(given, given.events, region()), region())
    lines = profile_text(found).splitlines()
    count = len(region().timeline.program)
    assert lines[0].startswith(
        f"region0 on vta: {count} of {count} instructions measured; {found.measured:,.0f} cycles, {found.modelled:,.0f} by the model"
    )
    assert lines[2].split() == ["operation", "measured", "modelled", "cycles", "ratio", "starts", "later", "stalls"]
    assert [line.split()[0] for line in lines[3:5]] == ["conv1", "conv2"]
    assert lines[6].startswith("largest deviations")
    assert lines[-1] == f"and {len(found.deviations) - SHOWN} more"
    lost = [float(line.split()[-1]) for line in lines[7 : 7 + SHOWN]]
    assert lost == sorted(lost, reverse=True)


def test_a_device_as_quick_as_the_model() -> None:
    given = profile(7.0, ends=False)
    text = profile_text(beside(given, measured_spans(given, given.events, region()), region()))
    assert "measured, starts alone;" in text
    assert "its clock shows 7 at the model's 0" in text
    assert text.endswith("\nall start when the model says\n")


TIMES = st.decimals(-(10**12), 10**12, places=3)
ROWS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 10**6), TIMES, st.decimals(0, 10**6, places=3), st.integers(-9, 10**9)), min_size=1)


@given(ROWS, st.sampled_from(["cycles", "ns"]), st.sampled_from(["\n", "\r\n"]))
def test_rows_come_back(rows: list[tuple[int, int, object, object, int]], unit: str, ending: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=ending)
    writer.writerow(["cache_misses", f"end_{unit}", "stream", "instruction", f"start_{unit}"])
    for stream, instruction, start, length, misses in rows:
        writer.writerow([misses, start + length, stream, instruction, start])  # type: ignore[operator]
    found = read_profile(Source("p.csv", out.getvalue()))
    assert (found.unit, found.counters) == (unit, ("cache_misses",))
    expected = [(s, i, float(t), float(t + n), (float(m),)) for s, i, t, n, m in rows]  # type: ignore[operator, arg-type]
    assert [(e.stream, e.instruction, e.start, e.end, e.counters) for e in found.events] == expected
    assert [e.line for e in found.events] == list(range(2, len(rows) + 2))


def test_regions_operations_and_empty_ends() -> None:
    found = read_profile(Source("p.csv", "region,operation,start_ns,end_ns\nregion0,conv,5,\n\nregion1,pool,7.5,9\n"))
    assert [(e.line, e.region, e.operation, e.instruction, e.start, e.end) for e in found.events] == [
        (2, "region0", "conv", -1, 5.0, None),
        (4, "region1", "pool", -1, 7.5, 9.0),
    ]
    assert [len(found.of_region(name, only=False)) for name in ("region0", "region1", "")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv:1:1: E1128 one of the columns start_cycles and start_ns is needed"),
        ("instruction,start_cycles,start_ns\n0,1,2\n", "p.csv:1:1: E1128 one of the columns start_cycles and start_ns is needed"),
        ("start_ns\n1\n", "p.csv:1:1: E1128 one of the columns instruction and operation is needed"),
        ("instruction,operation,start_ns\n0,a,1\n", "p.csv:1:1: E1128 one of the columns instruction and operation is needed"),
        ("instruction,start_ns,start_ns\n0,1,1\n", "p.csv:1:1: E1128 the column 'start_ns' is there twice"),
        ("instruction,start_ns,end_cycles\n0,1,1\n", "p.csv:1:1: E1128 'end_cycles' is no column of a profile; did you mean"),
        ("instruction,start_ns,\x1b[1m\n0,1,1\n", "p.csv:1:1: E1128 '\\x1b[1m' is no column of a profile"),
        ("instruction,start_ns\n", "p.csv:1:1: E1128 the profile has no row"),
        ("instruction,start_ns\n0,1,2\n", "p.csv:2:1: E1128 the row has 3 cells, the table 2 columns"),
        ("instruction,start_ns\n-1,1\n", "p.csv:2:1: E1128 '-1' in column instruction is no number from 0 on"),
        ("instruction,start_ns\n1_0,1\n", "p.csv:2:1: E1128 '1_0' in column instruction"),
        ("instruction,start_ns\n0,nan\n", "p.csv:2:1: E1128 'nan' in column start_ns is no number below 1e+15"),
        ("instruction,start_ns\n0,1000000000000000\n", "p.csv:2:1: E1128 '1000000000000000' in column start_ns"),
        ("instruction,start_ns,end_ns\n0,3,2\n", "p.csv:2:1: E1128 it ends before it starts"),
        ("instruction,start_ns,misses\n0,3,\n", "p.csv:2:1: E1128 '' in column misses is no number"),
        ('instruction,start_ns\n"0,3\n', "p.csv:2:1: E1128 the row is no CSV: unexpected end of data"),
    ],
)
def test_what_is_no_profile_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_profile(Source("p.csv", text))
    assert str(caught.value).startswith(message)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UserError):
        assert read_profile(Source("p.csv", text)).events
