"""Measured spans as lanes of a timeline."""

from pathlib import Path

import numpy as np

from tests.report.profile.measured import profile, region
from tests.report.test_timeline_data import unpacked
from toolchain.report.profile.beside import measured_spans
from toolchain.report.profile.page import overlay, write_profile_page
from toolchain.report.profile.read import read_profile
from toolchain.report.timeline_data import page_data
from toolchain.spec.errors import Source


def test_lanes_for_both_and_columns_for_all() -> None:
    given, modelled = profile(50.0), region()
    drawn = overlay(modelled, measured_spans(given, given.events, modelled))
    data = page_data("t", modelled.timeline, modelled.legend, overlay=drawn)
    n = len(modelled.timeline.program)
    assert [lane[0] for lane in data["lanes"]] == ["modelled"] * 3 + ["measured"] * 3
    assert {len(unpacked(column)) for column in data["columns"].values()} == {2 * n}
    start, lane = unpacked(data["columns"]["start"]), unpacked(data["columns"]["lane"])
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


def test_the_page_is_written(tmp_path: Path) -> None:
    given = profile()
    write_profile_page(tmp_path / "p.html", "measured & modelled", region(), measured_spans(given, given.events, region()))
    text = (tmp_path / "p.html").read_text()
    assert "<h1>measured &amp; modelled</h1>" in text
    assert '["measured","load","measured"]' in text
