"""Whatever a manifest says: the bundle is refused in one line, or it runs."""

import json
import math
import re
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.c_networks import plain
from tests.runtime.small import bundle, images
from tests.steps_network import built
from toolchain.runtime.bundle import read_bundle, trusted_bundle, write_bundle
from toolchain.runtime.executor import load
from toolchain.runtime.linked import c_library
from toolchain.runtime.provider import ep_context_model, provider
from toolchain.runtime.stand_alone import stand_alone
from toolchain.runtime.step_session import open_steps
from toolchain.runtime.timing import modelled
from toolchain.spec.errors import UserError

VALUES: list[Any] = [
    None, True, 0, 1, -1, 2, 7, 16, 4096, 1 << 20, 1 << 31, (1 << 62) + 1, 1 << 70, 0.5, -1e300, "", "x", "host", "region", "dram", "acc", "../x",
    "inp", "weights", "bias", "region0.two", "host0.onnx", [], {}, [1], [1, 3, 8, 8], {"a": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("bundle") / "small.bundle"
    write_bundle(path, bundle())
    return read_archive(path)


def read_archive(path: Path) -> dict[str, bytes]:
    """All members, the manifest among them."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_archive(path: Path, members: Mapping[str, bytes], manifest: Any) -> None:
    """The members with another manifest, as nothing checks it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, held)


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
    return read_archive(path)


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
    write_archive(tmp_path / "made", stepped, manifest)
    said = steps_verdict(tmp_path / "made")
    assert all(re.search(r"\bE[01]\d{3} ", line) for line in said.splitlines())


HOSTILE = ("*/ EVIL /*", "../EVIL", "/tmp/EVIL", 'a"; EVIL(); //', "\n#define EVIL 1\n", "EVIL\0", "EVIL" * 400)


@pytest.fixture(scope="module", params=["clib", "vta"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that a machine computes as a whole, so that it can be exported."""
    path = tmp_path_factory.mktemp("bundle") / "whole.bundle"
    write_bundle(path, plain(request.param).bundle)
    return path


def exports(path: Path) -> tuple[dict[str, bytes], list[UserError]]:
    """All files that the bundle can be exported as, by name, and why some forms were refused."""
    files, refused = dict[str, bytes](), list[UserError]()
    try:
        bundle, machines = trusted_bundle(path)
        modelled(machines, bundle.manifest)
    except UserError as error:
        return files, [error]
    makers = (
        lambda: c_library(bundle, machines).files,
        lambda: stand_alone(bundle, machines),
        lambda: provider(bundle, machines).files,
        lambda: {"context": ep_context_model(bundle, "x", "").SerializeToString()},
    )
    for make in makers:
        try:
            files |= make()
        except UserError as error:
            refused.append(error)
    return files, refused


def test_a_bundle_as_it_was_built_is_exported_in_all_forms(whole: Path) -> None:
    files, refused = exports(whole)
    assert {"program.c", "provider.c", "context"} <= files.keys()
    assert [str(error) for error in refused if "runs on a device" not in str(error)] == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_no_export_has_text_of_its_own_or_leaves_its_folder(whole: Path, tmp_path: Path, seed: int) -> None:
    """A value or a key of the manifest is another one."""
    members = read_archive(whole)
    manifest, rng = json.loads(members["manifest.json"]), Random(seed)
    content = manifest["content"]
    place = rng.choice(places(content))
    new = rng.choice([*HOSTILE, *(alike(got(content, place)) or VALUES)])
    if isinstance(place[-1], str) and isinstance(new, str) and rng.random() < 0.3:
        inner = got(content, place[:-1])
        inner[new] = inner.pop(place[-1])
    else:
        put(content, place, new)
    write_archive(tmp_path / "made", members, manifest)
    files, refused = exports(tmp_path / "made")
    assert all(re.search(r"\bE[01]\d{3} ", str(error)) for error in refused)
    for name, text in files.items():
        assert re.fullmatch(r"[\w.-]+", name)
        assert name == "context" or not re.search(rb"\*/ EVIL|EVIL\(\)|#define EVIL 1|[./]/EVIL", text)


def change_node(rng: Random, node: onnx.NodeProto) -> None:
    """Something of a conversion that is no longer as it was."""
    other = rng.choice(("nope", "", "*/ EVIL", *node.input, *node.output))
    kind = rng.randrange(0 if node.attribute else 2, 8)
    if kind == 0:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif kind == 1:
        attribute = rng.choice(node.attribute)
        name = attribute.name
        attribute.Clear()
        attribute.name, attribute.type = name, rng.choice((1, 2, 3, 7))
        attribute.f, attribute.i, attribute.s = rng.choice((0.0, -1.0, math.nan, math.inf, 1e38)), rng.choice((0, -1, 1 << 40)), b"x"
    elif kind == 2:
        node.input[0] = other
    elif kind == 3:
        node.output[0] = other
    elif kind == 4:
        node.op_type = rng.choice(("", "Relu", "quantize", "dequantize"))
    elif kind == 5:
        node.domain = rng.choice(("", "x", "tilewright.integer"))
    elif kind == 6:
        node.output.append(other)
    else:
        node.input.append(other)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_a_damaged_host_segment_is_refused_or_left_to_who_runs_it(whole: Path, tmp_path: Path, seed: int) -> None:
    """Its bytes are those that the manifest says, but a node is another one."""
    held, rng = read_bundle(whole), Random(seed)
    protos = {segment.model: onnx.load_from_string(held.members[segment.model]) for segment in held.manifest.hosts}
    name, proto = rng.choice([(name, proto) for name, proto in protos.items() if proto.graph.node])
    change_node(rng, rng.choice(proto.graph.node))
    write_bundle(tmp_path / "made", replace(held, members={**held.members, name: proto.SerializeToString()}))
    files, refused = exports(tmp_path / "made")
    assert all(re.search(r"\bE11\d{2} ", str(error)) for error in refused)
    assert not any(b"*/ EVIL" in text for name, text in files.items() if name != "context")


@settings(max_examples=45, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere(members: dict[str, bytes], tmp_path: Path, data: st.DataObject) -> None:
    manifest = json.loads(members["manifest.json"])
    found = [place for place in places(manifest) if place[0] != "members"]
    for place in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=2)):
        if place in places(manifest):
            put(manifest, place, data.draw(st.sampled_from(alike(got(manifest, place)) or VALUES)))
    write_archive(tmp_path / "made", members, manifest)
    said = verdict(tmp_path / "made")
    assert all(re.search(r"\bE[01]\d{3} ", line) for line in said.splitlines())
