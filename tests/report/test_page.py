"""The page of a report: well formed, whole in itself, the same every time, and safe with whatever a model's names hold."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.report.networks import Case, cases
from toolchain.accuracy.closeness import Closeness, Inference, OutputCloseness
from toolchain.accuracy.measure import Measured
from toolchain.report.page import RunSpan, plan_line, report_page
from toolchain.report.summary import Summary, Told, summarise_model
from toolchain.runtime.timing import modelled
from toolchain.verify.verdict import Verified

VOID = ("meta",)
CLOSE = Closeness({}, "", None, {})
TASK = {"emulator": Measured("classification", 0.5, "50.00 % of first answers")}
INFERRED = Inference(4, "test", {}, TASK, True, 1, 10.0, 1.0, 2.0, 1000, CLOSE, "", "recorded")
VERIFIED = Verified(True, 4, CLOSE, (("conv <b>", 4.25), ("whole", None)))
HOSTILE = "</style><script>alert(1)</script><img src=x onerror=y>{{ 1 + 1 }}"


class Checker(HTMLParser):
    """Every element is closed in order; keeps the names of elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, tuple[RunSpan, ...]]:
    case = cases(tmp_path_factory.mktemp("cases"))["split on dpuv3"]
    found = summarise_model(case.built, case.job.folder / "graph", Told({"bundle": "here"}))
    return replace(found, exact=True, tensors=4), plan_line(case.built.machines, case.built.bundle.manifest)


def page(summary: Summary, line: tuple[RunSpan, ...]) -> str:
    return report_page(summary, line, INFERRED, VERIFIED)


def test_it_is_well_formed_and_needs_nothing_else(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    text = page(*told)
    checker = checked(text)
    assert not checker.seen & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not checker.attributes & {"src", "href", "srcset", "onclick", "onload"}
    assert not re.search(r"https?:|url\(|@import", text)
    assert text.endswith("</html>\n")
    assert page(*told) == text


def test_it_tells_what_the_summary_does(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    text = page(*told)
    for row in told[0].costs.rows:
        assert f'<td class="name">{row.name}</td>' in text
    assert all(reason.operators in text for reason in told[0].reasons)
    assert "50.00 % of first answers" in text
    assert "conv &lt;b&gt;" in text
    assert "Calibrated on made-up samples" in text
    assert "<code>verify</code> compares every tensor" in page(replace(told[0], exact=None), told[1])
    assert text.count("<rect") == sum(span.ms > 0 for span in told[1])


def test_names_of_a_model_stay_text(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    summary, line = told
    rows = tuple(replace(row, name=HOSTILE, operators=HOSTILE, reason=HOSTILE) for row in summary.costs.rows)
    reasons = tuple(replace(reason, change=HOSTILE, ways=(HOSTILE,), nodes=(HOSTILE,)) for reason in summary.reasons)
    hostile = replace(summary, model=HOSTILE, costs=replace(summary.costs, rows=rows), reasons=reasons, artefacts={HOSTILE: HOSTILE})
    text = page(hostile, tuple(replace(span, name=HOSTILE) for span in line))
    assert not checked(text).seen & {"script", "img"}
    assert "{{ 1 + 1 }}" in text
    assert "&lt;script&gt;" in text


def test_noise_is_a_warning(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    noisy = Closeness({"y": OutputCloseness(1.0, 1, 3, -5.0, 0.9)}, "t", 0.1, {"t": 0.1})
    made_up = page(replace(told[0], closeness=noisy), told[1])
    assert told[0].calibration == "made-up"
    assert '<b class="bad">-5.0 dB</b>' not in made_up
    assert "cannot be trusted" not in made_up
    text = page(replace(told[0], closeness=noisy, calibration="recorded"), told[1])
    assert '<b class="bad">-5.0 dB</b>' in text
    assert "stored tensors that are mostly noise: t 0.1 dB" in text
    assert "-5.0 dB at 3 of axis 1" in text
    quiet = Closeness({"y": OutputCloseness(None, 0, 0, None, 0.0)}, "", None, {})
    assert "<b>no noise</b>" in page(replace(told[0], closeness=quiet), told[1])


def test_what_is_not_exact_is_told_first(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    assert '<b class="bad">NO</b>' in page(replace(told[0], exact=False), told[1])


def test_nothing_on_the_machine_is_a_page_too(told: tuple[Summary, tuple[RunSpan, ...]]) -> None:
    costs = replace(told[0].costs, rows=(), borders=(), priced=False)
    text = page(replace(told[0], costs=costs, regions=(), reasons=(), constants=()), ())
    checked(text)
    assert "does not say what the host costs" in text


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return cases(tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("name", ["split on vta", "split on dpuv3", "nothing on vta"])
def test_spans_follow_each_other_to_the_end(name: str, known: dict[str, Case]) -> None:
    machines, manifest = known[name].built.machines, known[name].built.bundle.manifest
    line = plan_line(machines, manifest)
    assert line[0].start == 0
    assert [span.start for span in line[1:]] == pytest.approx([span.start + span.ms for span in line[:-1]])
    assert line[-1].start + line[-1].ms == pytest.approx(modelled(machines, manifest).total_ms)


def test_lanes_take_turns(known: dict[str, Case]) -> None:
    built = known["split on vta"].built
    found = [(span.lane, span.name) for span in plan_line(built.machines, built.bundle.manifest)]
    regions = [("border", "region0"), ("machine", "region0")], [("border", "region1"), ("machine", "region1")]
    assert found[1:3] == regions[0]
    assert found[4:6] == regions[1]
    assert [lane for lane, _ in found] == ["host", "border", "machine"] * 2 + ["host"]
