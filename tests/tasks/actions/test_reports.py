"""Reports as files."""

import json
from pathlib import Path

from toolchain.tasks.actions.reports import write_json, write_report


def test_text_and_json_stand_side_by_side(tmp_path: Path) -> None:
    text, data = write_report(tmp_path / "report.txt", "one\ntwo\n\n", {"two": 2, "one": [1]})
    assert text.read_bytes() == b"one\ntwo\n"
    assert data == tmp_path / "report.json"
    assert data.read_text().endswith("}\n")
    assert json.loads(data.read_text()) == {"two": 2, "one": [1]}
    assert write_json(tmp_path / "other.json", {"two": 2, "one": [1]}).read_bytes() == data.read_bytes()
