"""Files that stages write and read back: the same bytes each time, and one line for an edited one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.accuracy.closeness import read_inference
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import read_result, write_json, write_report
from toolchain.verify.verdict import read_verified


def test_text_and_json_stand_side_by_side(tmp_path: Path) -> None:
    text, data = write_report(tmp_path / "report.txt", "one\ntwo\n\n", {"two": 2, "one": [1]})
    assert text.read_bytes() == b"one\ntwo\n"
    assert data == tmp_path / "report.json"
    assert data.read_text().endswith("}\n")
    assert json.loads(data.read_text()) == {"two": 2, "one": [1]}
    assert write_json(tmp_path / "other.json", {"two": 2, "one": [1]}).read_bytes() == data.read_bytes()


@pytest.mark.parametrize("read", [read_inference, read_verified])
@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", "{}", '{"errors": 1}', '{"errors": [{"tensor": "t", "sqnr": "x"}]}', "[" * 100_000])
def test_an_edited_result_is_one_line(read: Callable[[str], object], text: str, tmp_path: Path) -> None:
    path = tmp_path / "infer.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"infer.json: E1206 this is not as the task wrote it; delete the file, and ask again$"):
        read_result(path, read)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match="E1206"):
        read_result(path, json.loads)


def test_a_result_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_text('{"exact": true}')
    assert read_result(path, json.loads) == {"exact": True}
