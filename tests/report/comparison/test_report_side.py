"""Reports as a build leaves them, and files that are none."""

import json
from pathlib import Path

import pytest

from tests.report.comparison.sides import report
from toolchain.report.comparison.report_side import machine_keys, report_side
from toolchain.spec.errors import UserError


def test_times_and_bytes_are_of_one_image(tmp_path: Path) -> None:
    side = report_side(report(tmp_path, images=4), "r", {})
    found = {name: figure.value for name, figure in side.figures.items()}
    assert (found["images a run"], found["cycles"], found["machine"], found["with the host"]) == (4, 125.0, 0.00125, 0.25)
    assert (found["ddr read"], found["ddr written"], found["fm, most in use"]) == (750.0, 125.0, 2000)
    assert (found["accuracy, emulator"], found["exact"], found["instructions"]) == (90.0, 1, 7)
    (part,) = side.parts
    assert (part.name, part.cycles, part.bytes, part.use, part.noise) == ("conv1", 125.0, 512.0, 50.0, 33.5)
    assert (side.title, side.machine) == ("net on toy", {"params.SIZE": "4"})


def test_a_summary_has_no_noise_yet(tmp_path: Path) -> None:
    data = json.loads(report(tmp_path).read_text())
    del data["noise"]
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(data | {"exact": None, "utilisation": None}))
    side = report_side(path, "s", {})
    assert side.parts[0].noise is None
    assert "exact" not in side.figures


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", "[" * 100_000, '{"model": 3}'])
def test_any_other_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError, match="E0007 this is no report of a build"):
        report_side(path, "x", {})


@pytest.mark.parametrize("wrong", [{"images": 0}, {"total_ms": "long"}, {"regions": [{}]}, {"machines": {"toy": {"k": 1}}}])
def test_a_wrong_value_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0007"):
        report_side(report(tmp_path, **wrong), "x", {})  # type: ignore[arg-type]


def test_keys_of_several_machines_have_their_names() -> None:
    assert machine_keys({"a": {"k": "1"}, "b": {"k": "2"}}) == {"a: k": "1", "b: k": "2"}
    assert machine_keys({}) == {}
