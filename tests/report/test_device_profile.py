"""Profiles as text: every row comes back, and whatever is none is refused with its line."""

import csv
import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.report.device_profile import read_profile
from toolchain.spec.errors import Source, UserError

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
