"""Signed bundles: the signature of a trusted key opens them, and nothing else does.

A plan with a fault is refused in words; each state goes on where its conversions are left out.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import small
from tests.steps_network import built
from toolchain.cli import main
from toolchain.runtime.bundle import read_bundle, write_bundle
from toolchain.runtime.bundle_checks import VARIABLE, plan_faults, trusted_keys
from toolchain.runtime.contents import Bundle, HostSegment, PlanStep
from toolchain.runtime.executor import load
from toolchain.spec.errors import UserError

minisign = pytest.importorskip("minisign")


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle with its signature; the user trusts its key and another one."""
    path, own, other = tmp_path / "small.bundle", minisign.KeyPair.generate(), minisign.KeyPair.generate()
    write_bundle(path, small.bundle())
    (tmp_path / "small.bundle.minisig").write_bytes(bytes(own.secret_key.sign(path.read_bytes())))
    for name, pair in (("own.pub", own), ("other.pub", other)):
        (tmp_path / name).write_bytes(bytes(pair.public_key))
    monkeypatch.setenv(VARIABLE, os.pathsep.join(str(tmp_path / name) for name in ("other.pub", "own.pub")))
    return path


def _refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(path)
    return str(caught.value)


def test_a_signature_of_a_trusted_key_opens_the_bundle(signed: Path) -> None:
    assert load(signed).manifest == read_bundle(signed).manifest
    assert [key.name for key in trusted_keys()] == ["other.pub", "own.pub"]


def test_another_key_or_byte_does_not(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"{signed}: E1129 the bundle was changed after it was signed, or signed with a key that is not trusted here"
    data = bytearray(signed.read_bytes())
    for place in (0, len(data) // 2, len(data) - 1):
        data[place] ^= 1
        signed.write_bytes(data)
        assert _refused(signed) == message
        data[place] ^= 1
    signed.write_bytes(data)
    assert load(signed)
    monkeypatch.setenv(VARIABLE, str(signed.with_name("other.pub")))
    assert _refused(signed) == message


def test_without_a_signature_or_with_none_that_is_one(signed: Path) -> None:
    beside = signed.with_name("small.bundle.minisig")
    for damaged in (b"", b"\xff\xfe\n" * 4, beside.read_bytes()[:-9], b"untrusted comment: x\nAAAA\ntrusted comment: y\nAAAA\n"):
        beside.write_bytes(damaged)
        assert _refused(signed) == f"{beside}: E1129 this is no signature in minisign's format"
    beside.unlink()
    assert _refused(signed).startswith(f"{signed}: E1129 the bundle is not signed: there is no file small.bundle.minisig beside it")


def test_a_key_that_is_none_is_no_way_in(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = signed.with_name("wrong.pub")
    wrong.write_bytes(b"no key\n")
    monkeypatch.setenv(VARIABLE, str(wrong))
    assert _refused(signed).startswith(f"{wrong}: E1129 this is no public key in minisign's format")
    monkeypatch.setenv(VARIABLE, str(signed.with_name("none.pub")))
    assert "E0001" in _refused(signed)


def test_commands_ask_for_it_too(signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "onnx", str(signed), "-o", str(tmp_path / "small.onnx")]) == 0
    signed.with_name("small.bundle.minisig").unlink()
    for words in (["export", "onnx"], ["export", "c"], ["export", "elf"], ["export", "provider"], ["cosim", "write"]):
        assert main([*words, str(signed), "-o", str(tmp_path / "out")]) == 1
        assert "E1129 the bundle is not signed" in capsys.readouterr().err
    for words in (["compare", str(signed)], ["bundle", "show"], ["bundle", "disasm"]):
        assert main([*words, str(signed)]) == 1
        assert "E1129 the bundle is not signed" in capsys.readouterr().err


def test_without_the_variable_no_bundle_needs_one(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    signed.with_name("small.bundle.minisig").unlink()
    assert load(signed)


def test_without_the_library_nothing_is_loaded(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minisign", None)
    assert "the library that does it is missing; pip install 'tilewright[signatures]'" in _refused(signed)


@pytest.mark.skipif(shutil.which("minisign") is None, reason="needs minisign: apt-get install minisign")
def test_the_program_itself_signs_for_it(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = signed.parent
    subprocess.run(["minisign", "-G", "-W", "-p", "acme.pub", "-s", "acme.key"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["minisign", "-S", "-m", signed.name, "-s", "acme.key"], cwd=folder, check=True, capture_output=True)
    monkeypatch.setenv(VARIABLE, str(folder / "acme.pub"))
    assert load(signed)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"input": "y"}, "the state 'y' is no input and output of one shape and type"),
        ({"output": "y"}, "the state 'h' is no input and output of one shape and type"),
        ({"taken": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"start": "region0.two"}, "the start of the state 'h' has another size"),
        ({"start": "data-none.bin"}, "there is no member 'data-none.bin'"),
        ({"taken": "h"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "next_h"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "next_count"}, "two states are one tensor"),
        ({"made": "y"}, "the state 'h' is none of the tensors that the last step converts"),
        ({"made": "from_h.int8"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "y.int8"}, "the state 'h' is none of the tensors that the last step converts"),
        ({"taken": "x.int8"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"input": "count", "output": "next_count", "taken": "count", "made": "next_count"}, "two states are one tensor"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, str], fault: str) -> None:
    held = built("vta").bundle
    assert list(plan_faults(held)) == []
    state, other = held.manifest.states
    manifest = replace(held.manifest, states=(replace(state, **changes), other))
    members = {**held.members, "region0.two": b"12"}
    assert fault in list(plan_faults(Bundle(manifest, members)))


@pytest.mark.parametrize("read", ["h", "next_h"])
def test_a_state_that_goes_round_is_not_read_in_the_models_own_type(read: str) -> None:
    held = built("vta").bundle
    reader = HostSegment(held.manifest.hosts[0].model, (read,), ("seen",), {})
    plan = (*held.manifest.plan, PlanStep("host", len(held.manifest.hosts)))
    manifest = replace(held.manifest, hosts=(*held.manifest.hosts, reader), plan=plan)
    assert list(plan_faults(replace(held, manifest=manifest))) == ["the state 'h' is read in the model's own type between steps"]


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 32), "bfloat16"), ((1, 0), "float32"), ((1 << 20, 1 << 10), "float32"), ((1, -1), "float32"), (None, "x")]
)
def test_a_state_is_numbers_of_a_known_size(shape: tuple[int, ...] | None, dtype: str) -> None:
    held = built("vta").bundle
    sides = {
        side: tuple(replace(e, shape=shape, dtype=dtype) if e.name in ("h", "next_h") else e for e in getattr(held.manifest, side))
        for side in ("inputs", "outputs")
    }
    assert "the state 'h' is no input and output of one shape and type" in list(plan_faults(replace(held, manifest=replace(held.manifest, **sides))))


@pytest.mark.parametrize("change", [
    {"name": "a b"}, {"name": ""}, {"name": "x_block; int evil; //"}, {"function": "../../evil"}, {"function": "f(); //"},
    {"files": {"../evil.c": "m"}}, {"files": {"/tmp/evil.c": "m"}}, {"files": {"a\n.c": "m"}}, {"files": {"..": "m"}},
])  # fmt: skip
def test_names_that_programs_and_folders_cannot_hold(change: dict[str, Any]) -> None:
    """An exported program declares a region by its name, and its files stand in the folder that the user gave."""
    held = small.bundle()
    region = replace(held.manifest.regions[0], **change)
    bundle = replace(held, manifest=replace(held.manifest, regions=(region, *held.manifest.regions[1:])))
    assert any(fault.endswith("are no names") for fault in plan_faults(bundle))
    assert not any(fault.endswith("are no names") for fault in plan_faults(held))


def test_files_are_members_and_constants_stand_in_dram() -> None:
    """An export would read files that are not there, and place constants that no copy of the host reaches."""
    held = built("vta").bundle
    region = held.manifest.regions[0]
    (name, segment), *_ = ((name, region.map.segments[name]) for name in region.constants)
    inside = replace(region.map, segments={**region.map.segments, name: replace(segment, memory="inp")})
    for change, fault in (
        ({"files": {"a.c": ""}}, "files of region 'region0' are no members"),
        ({"map": inside}, "stand in another memory than 'dram'"),
    ):
        changed = replace(region, **change)
        found = list(plan_faults(replace(held, manifest=replace(held.manifest, regions=(changed, *held.manifest.regions[1:])))))
        assert any(each.endswith(fault) for each in found), found
