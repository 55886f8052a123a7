import json
from pathlib import Path

import pytest

from toolchain.spec.errors import UserError
from toolchain.tasks import machines
from toolchain.tasks.machines import load_target

ROOT = Path(__file__).resolve().parents[2]
VTA = (ROOT / "targets" / "vta.yaml").read_text()


def _written(tmp_path: Path, text: str) -> str:
    (tmp_path / "vta.yaml").write_text(text)
    return str(tmp_path / "vta.yaml")


def test_what_a_build_needs_to_know(tmp_path: Path) -> None:
    found = load_target("vta:ultra96", (("LOG_BLOCK", "4"),), tmp_path)
    assert (found.name, found.config, found.label) == ("vta", "ultra96", "vta.ultra96+LOG_BLOCK-4")
    assert found.folder == found.path.parent / "vta"
    assert "digits" in found.models
    assert {"timing", "encoding", "layouts"} <= set(found.sections)


def test_a_known_machine_is_not_elaborated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_target("vta", (), tmp_path)

    def refuse(*_: object) -> None:
        pytest.fail("elaborated again")

    monkeypatch.setattr(machines, "_elaborated", refuse)
    assert load_target("vta", (), tmp_path) == first


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    first = load_target("vta", (), tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_text()
    good = json.loads(whole)
    values = (None, 5, "5", [5], {"a": 5}, {"a": None}, {"timing": 5})
    wrong = [json.dumps({**good, key: value}) for key in good for value in values if type(value) is not type(good[key]) or isinstance(value, dict)]
    for text in ("", "[]", "{}", "5", "null", "[" * 100_000, whole[:100], json.dumps({**good, "more": 1}), *wrong):
        kept.write_text(text)
        assert load_target("vta", (), tmp_path) == first
        assert kept.read_text() == whole


def test_a_timing_number_changes_only_the_timing(tmp_path: Path) -> None:
    before = load_target(_written(tmp_path, VTA), (), tmp_path).sections
    after = load_target(_written(tmp_path, VTA.replace("GEMM_LATENCY: {value: 4", "GEMM_LATENCY: {value: 5")), (), tmp_path).sections
    assert [name for name in before if before[name] != after[name]] == ["timing"]


def test_a_comment_changes_nothing(tmp_path: Path) -> None:
    before = load_target(_written(tmp_path, VTA), (), tmp_path).sections
    assert load_target(_written(tmp_path, VTA + "\n# a word\n"), (), tmp_path).sections == before


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load_target("vta", (), tmp_path / "file" / "cache").name == "vta"


def test_an_unknown_parameter_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0104 unknown parameter 'LOG_BLOK'"):
        load_target("vta", (("LOG_BLOK", "4"),), tmp_path)


def test_kernels_stand_beside_the_machine_or_on_the_search_path(tmp_path: Path) -> None:
    given = _written(tmp_path, VTA)
    assert load_target(given, (), tmp_path / "cache").folder.resolve() == ROOT / "targets" / "vta"
    (tmp_path / "vta").mkdir()
    (tmp_path / "vta" / "kernels.yaml").write_text("kernels: {}\n")
    assert load_target(given, (), tmp_path / "cache").folder == tmp_path / "vta"
