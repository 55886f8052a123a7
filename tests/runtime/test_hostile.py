"""Whatever a manifest says: the bundle is refused in one line, or it runs."""

import json
import re
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.small import bundle, images
from tests.steps_network import built
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.executor import load
from toolchain.runtime.step_session import open_steps
from toolchain.spec.errors import UserError

VALUES: list[Any] = [
    None, True, 0, 1, -1, 2, 7, 16, 4096, 1 << 20, 1 << 31, (1 << 62) + 1, 1 << 70, 0.5, -1e300, "", "x", "host", "region", "dram", "acc", "../x",
    "inp", "weights", "bias", "region0.two", "host0.onnx", [], {}, [1], [1, 3, 8, 8], {"a": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("bundle") / "small.bundle"
    write_bundle(path, bundle())
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(place for key, item in inner for place in places(item, (*path, key)))]


def got(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def alike(value: Any) -> list[Any]:
    """Values of the same type, which only a closer look can refuse."""
    return [other for other in VALUES if type(other) is type(value) and not isinstance(value, list | dict)]


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = deepcopy(new)


def verdict(path: Path) -> str:
    """The message, or nothing where the bundle ran."""
    try:
        load(path).run({"x": images(1)})
    except UserError as error:
        return str(error)
    return ""


def steps_verdict(path: Path) -> str:
    """The message, or nothing where three steps of the bundle ran."""
    try:
        session = open_steps(load(path))
        for _ in range(3):
            session.step({entry.name: np.zeros(entry.shape or (), entry.dtype) for entry in session.inputs})
            session.states()
    except UserError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Of a model with states."""
    path = tmp_path_factory.mktemp("bundle") / "steps.bundle"
    write_bundle(path, built("vta").bundle)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@settings(max_examples=90, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_tensor_in_place_of_a_state(stepped: dict[str, bytes], tmp_path: Path, data: st.DataObject) -> None:
    """Three steps either run, or the bundle is refused."""
    manifest = json.loads(stepped["manifest.json"])
    content = manifest["content"]
    tensors = {entry["name"] for side in ("inputs", "outputs") for entry in content[side]}
    tensors |= {name for host in content["hosts"] for side in ("inputs", "outputs") for name in host[side]}
    keys = [(number, key) for number, state in enumerate(content["states"]) for key in sorted(state)]
    for number, key in data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4)):
        content["states"][number][key] = data.draw(st.sampled_from(sorted(tensors | {"", *stepped})))
    with zipfile.ZipFile(tmp_path / "made", "w") as archive:
        for name, held in {**stepped, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, held)
    said = steps_verdict(tmp_path / "made")
    assert all(re.search(r"\bE[01]\d{3} ", line) for line in said.splitlines())


@settings(max_examples=45, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere(members: dict[str, bytes], tmp_path: Path, data: st.DataObject) -> None:
    manifest = json.loads(members["manifest.json"])
    found = [place for place in places(manifest) if place[0] != "members"]
    for place in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=2)):
        if place in places(manifest):
            put(manifest, place, data.draw(st.sampled_from(alike(got(manifest, place)) or VALUES)))
    with zipfile.ZipFile(tmp_path / "made", "w") as archive:
        for name, content in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, content)
    said = verdict(tmp_path / "made")
    assert all(re.search(r"\bE[01]\d{3} ", line) for line in said.splitlines())
