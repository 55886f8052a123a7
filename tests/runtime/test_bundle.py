"""Bundles are the same bytes for the same model, and whatever is wrong with one is said in one line.

A bundle finds its machine, with its configuration and parameters, and no other.
"""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.small import bundle
from toolchain.runtime.bundle import MAX_BYTES, bundle_machine, bundle_machines, data_name, read_bundle, target_of, write_bundle
from toolchain.runtime.contents import PlanStep
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


@pytest.mark.parametrize(
    ("config", "overrides"),
    [("", {}), ("ultra96", {}), ("", {"LOG_BLOCK": "5", "LOG_INP_BUFF": "16", "LOG_WGT_BUFF": "20", "LOG_ACC_BUFF": "18"}), ("hls", {"SHR": "full"})],
)
def test_a_machine_is_found_again(config: str, overrides: dict[str, str]) -> None:
    machine = load_machine("vta", config, overrides)
    found = bundle_machine(target_of(machine), "x")
    assert (found.name, found.config, found.params) == (machine.name, machine.config, machine.params)


def refusal(machine: str, given: str, **overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        bundle_machine(target_of(load_machine(machine)), "a.bundle", load_machine(given, overrides=overrides))
    return str(caught.value)


def test_another_machine_is_refused() -> None:
    assert refusal("vta", "dpuv3") == "a.bundle: E1105 the bundle was made for vta, this is dpuv3; build the model again"
    said = refusal("vta", "vta", LOG_UOP_BUFF="14")
    assert said.startswith("a.bundle: E1105 the bundle was made for another form of vta; LOG_UOP")
    assert "E1105 the bundle was made for vta, this is vta:ultra96" in refusal("vta", "vta:ultra96", LOG_UOP_BUFF="14")


def test_several_machines_are_found_in_their_order() -> None:
    targets = [target_of(load_machine(name)) for name in ("dpuv3", "vta")]
    assert [*bundle_machines(targets, "a.bundle")] == ["dpuv3", "vta"]
    assert bundle_machines(targets, "", [load_machine("dpuv3"), "vta"])["vta"].name == "vta"
    with pytest.raises(UserError, match=r"a\.bundle: E1105 the bundle is for 2 machines \(dpuv3, vta\), given are 1; give them in this order"):
        bundle_machines(targets, "a.bundle", "vta")
    with pytest.raises(UserError, match="E1105 the bundle was made for dpuv3, this is vta"):
        bundle_machines(targets, "a.bundle", ["vta", "dpuv3"])


def test_parameters_that_the_machine_refuses_are_one_line() -> None:
    target = target_of(load_machine("vta"))
    with pytest.raises(UserError, match=r"a\.bundle: E1105 the bundle was made for a vta that cannot be: LOG_BLOCK = 99 is outside") as caught:
        bundle_machine(replace(target, params={**target.params, "LOG_BLOCK": 99}), "a.bundle")
    assert "\n" not in str(caught.value)


def test_timing_alone_is_no_other_machine() -> None:
    assert bundle_machine(target_of(load_machine("vta")), "", load_machine("vta", overrides={"CLOCK_KHZ": "5"})).params["CLOCK_KHZ"] == 5


def test_names_are_never_paths() -> None:
    target = target_of(load_machine("vta"))
    for name in ("../targets/vta", "/etc/passwd", "vta.yaml", ""):
        with pytest.raises(UserError, match="E1104"):
            bundle_machine(replace(target, name=name), "x")
    with pytest.raises(UserError, match=r"E0001 the bundle was made for vtaa, which is not among the machines here; put vtaa.yaml"):
        bundle_machine(replace(target, name="vtaa"), "x")


def test_the_host_s_costs_are_the_bundle_s() -> None:
    machine = load_machine("vta")
    assert machine.host
    slower = replace(machine.host, launch_us=replace(machine.host.launch_us, value=1e6))
    assert bundle_machine(target_of(replace(machine, host=slower)), "", machine).host == slower
    assert bundle_machine(target_of(machine), "", machine) is machine


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bundle") / "small.bundle"
    write_bundle(found, bundle())
    return found


TWICE = '{"format": "tilewright-bundle", "format": "tilewright-bundle"}'


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_bundle(path)
    assert len(caught.value.diagnostics) == 1
    assert "\n" not in str(caught.value)
    return str(caught.value)


def packed(folder: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    found = folder / "made.bundle"
    with zipfile.ZipFile(found, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return found


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(path: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The bundle with another manifest."""
    held = members(path)
    manifest = json.loads(held["manifest.json"])
    change(manifest)
    return packed(folder, {**held, "manifest.json": json.dumps(manifest).encode()})


def test_what_is_written_is_read(path: Path) -> None:
    assert read_bundle(path) == bundle()


def test_equal_models_are_equal_bytes(path: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "again", read_bundle(path))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_nothing_of_the_time_or_place_is_inside(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist()[1:] == sorted(archive.namelist()[1:])
    assert str(Path.cwd()).encode() not in path.read_bytes()


def test_constants_are_named_by_what_they_hold(path: Path) -> None:
    named = {name: data for name, data in members(path).items() if name.startswith("data-")}
    assert named
    assert all(data_name(data) == name for name, data in named.items())


def test_a_file_that_is_missing_or_none(tmp_path: Path) -> None:
    assert "E0001" in refused(tmp_path / "none")
    assert "E0001" in refused(tmp_path)
    (tmp_path / "text").write_text("hello")
    assert "E1101" in refused(tmp_path / "text")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "E1103" in refused(tmp_path / "huge")


@pytest.mark.parametrize("name", ["../escape.bin", "/etc/passwd", "manifest.json/x", "data-00.bin", "region0.py", "REGION0.two", "host0.onnx\n", " "])
def test_members_that_do_not_belong(path: Path, tmp_path: Path, name: str) -> None:
    assert "E1102" in refused(packed(tmp_path, {**members(path), name: b"x"}))


def test_compressed_members(path: Path, tmp_path: Path) -> None:
    assert "E1102" in refused(packed(tmp_path, members(path), zipfile.ZIP_DEFLATED))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_are_there_twice(path: Path, tmp_path: Path) -> None:
    found = packed(tmp_path, members(path))
    with zipfile.ZipFile(found, "a") as archive:
        archive.writestr("host0.onnx", b"x")
    assert "E1102" in refused(found)


def test_missing_and_superfluous_members(path: Path, tmp_path: Path) -> None:
    held = members(path)
    for name in held:
        assert "E1102" in refused(packed(tmp_path, {n: d for n, d in held.items() if n != name}))
    assert "E1102" in refused(packed(tmp_path, {**held, "host99.onnx": b""}))


def test_a_member_that_was_exchanged(path: Path, tmp_path: Path) -> None:
    held = members(path)
    for name in held.keys() - {"manifest.json"}:
        other = bytes(len(held[name])) if any(held[name]) else b"\1" * len(held[name])
        assert "E1106" in refused(packed(tmp_path, {**held, name: other}))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": NaN}', "[" * 100000, TWICE, "\ud800"])
def test_manifests_that_are_none(path: Path, tmp_path: Path, text: str) -> None:
    data = text.encode(errors="surrogatepass")
    assert "E1104" in refused(packed(tmp_path, {**members(path), "manifest.json": data}))


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "version": lambda m: m.update(version=1),
    "extra": lambda m: m["content"].update(more=1),
    "lacking": lambda m: m["content"].pop("plan"),
    "type": lambda m: m["content"]["regions"][0].update(samples="1"),
    "flag": lambda m: m["content"]["regions"][0].update(samples=True),
    "count": lambda m: m["content"]["regions"][0].update(samples=0),
    "endless": lambda m: m["content"]["regions"][0].update(cycles=10**400),
    "shape": lambda m: m["content"]["inputs"][0].update(shape=[1 << 60, 1 << 60]),
    "dtype": lambda m: m["content"]["inputs"][0].update(dtype=""),
    "preparation": lambda m: m["content"]["inputs"][0].update(preparation={"layout": "nchw", "mean": [0.0], "std": [0.0], "scale": 1.0}),
    "channels": lambda m: m["content"]["inputs"][0].update(preparation={"layout": "nchw", "mean": [0.0, 1.0], "std": [1.0], "scale": 1.0}),
    "layout": lambda m: m["content"]["inputs"][0].update(preparation={"layout": "chwn", "mean": [0.0], "std": [1.0], "scale": 1.0}),
    "step": lambda m: m["content"]["plan"].append({"kind": "region", "index": 9}),
    "kind": lambda m: m["content"]["plan"].append({"kind": "shell", "index": 0}),
    "order": lambda m: m["content"]["plan"].reverse(),
    "output": lambda m: m["content"]["outputs"][0].update(name="nowhere"),
    "member": lambda m: m["content"]["hosts"][0].update(model="../x"),
    "segment": lambda m: next(iter(m["content"]["regions"][0]["map"]["segments"].values())).update(bytes=-1),
    "tensor": lambda m: next(iter(m["content"]["regions"][0]["map"]["tensors"].values())).update(offset=1 << 40),
    "port": lambda m: m["content"]["regions"][0]["inputs"][0].update(tensor="none"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests_that_say_what_cannot_be(path: Path, tmp_path: Path, name: str) -> None:
    assert "E1104" in refused(changed(path, tmp_path, CHANGES[name]))


def test_a_plan_that_cannot_run_is_not_written(tmp_path: Path) -> None:
    held = bundle()
    with pytest.raises(UserError, match="E1104"):
        write_bundle(tmp_path / "x", replace(held, manifest=replace(held.manifest, plan=(PlanStep("host", 5),))))
    assert not list(tmp_path.iterdir())


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_one_line(path: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(path.read_bytes())
    region = data.draw(st.sampled_from([(0, 200), (0, len(whole)), (max(0, len(whole) - 600), len(whole))]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(region[0], region[1] - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "damaged").write_bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    assert said(tmp_path / "damaged").count("\n") == 0


def said(path: Path) -> str:
    """The error of a bundle; nothing where it is as good as before."""
    try:
        found = read_bundle(path)
    except UserError as error:
        return str(error)
    return "" if found == bundle() else "\n"


Targets = list[dict[str, Any]]
WRONG_TARGETS: dict[str, tuple[Callable[[Targets], Targets], str]] = {
    "none": (lambda held: held[:0], "it names no machine, or one twice"),
    "twice": (lambda held: held * 2, "it names no machine, or one twice"),
    "other": (lambda held: [{**held[0], "name": "other"}], "region 'region0' is for 'vta', which is none of its machines"),
}


@pytest.mark.parametrize("case", WRONG_TARGETS)
def test_every_region_is_for_one_of_the_machines(case: str, path: Path, tmp_path: Path) -> None:
    wrong, fault = WRONG_TARGETS[case]

    def change(manifest: dict[str, Any]) -> None:
        manifest["content"]["targets"] = wrong(manifest["content"]["targets"])

    assert fault in refused(changed(path, tmp_path, change))
