"""The plug-in in ONNX Runtime itself: EPContext nodes give the bytes of the bundle's own runtime, and whatever does not fit is refused."""

import shutil
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests import float_networks
from tests.c_networks import compiled, pictures
from tests.runtime import small
from toolchain.cli import main
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import Bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.provider import provider
from toolchain.spec.errors import UserError

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-fPIC", "-fvisibility=hidden", "-shared")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
DEVICE = {"command": f"{sys.executable} -m toolchain device"}


def _exported(bundle: Bundle, folder: Path, *words: str) -> Path:
    """Writes the bundle, the model and the provider's library; the library's path."""
    write_bundle(folder / "model.bundle", bundle)
    assert main(["export", "onnx", str(folder / "model.bundle"), "-o", str(folder / "model.onnx"), *words]) == 0
    assert main(["export", "provider", str(folder / "model.bundle"), "-o", str(folder / "c")]) == 0
    library = folder / "provider.so"
    subprocess.run(["cc", *STRICT, *sorted((folder / "c").glob("*.c")), "-lm", "-lpthread", "-o", library], check=True)
    return library


@contextmanager
def _registered(library: Path) -> Generator[onnxruntime.SessionOptions]:
    """Options for a session, while ONNX Runtime knows the provider."""
    onnxruntime.register_execution_provider_library(str(library), str(library))
    try:
        yield onnxruntime.SessionOptions()
    finally:
        onnxruntime.unregister_execution_provider_library(str(library))


def _session(path: Path | bytes, options: onnxruntime.SessionOptions, given: dict[str, str] | None = None) -> onnxruntime.InferenceSession:
    options.log_severity_level = 3
    options.add_provider_for_devices([each for each in onnxruntime.get_ep_devices() if each.ep_vendor == "tilewright"], given or {})
    return onnxruntime.InferenceSession(path if isinstance(path, bytes) else str(path), options)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with bundle, model and provider."""
    return _exported(compiled().bundle, tmp_path_factory.mktemp("kinds")).parent


def test_regions_in_c_give_the_bytes_of_the_runtime(kinds: Path) -> None:
    """Four threads share a session."""
    samples = pictures(4)
    with _registered(kinds / "provider.so") as options:
        session = _session(kinds / "model.onnx", options)
        assert session.get_providers()[0] == provider(compiled().bundle, compiled().executor.machines).name
        with ThreadPoolExecutor(4) as pool:
            found = [held.result()[0] for held in [pool.submit(session.run, ["y"], {"x": x}) for x in samples]]
        del session
    assert np.concatenate(found).tobytes() == compiled().executor.run({"x": samples[:, 0]}).outputs["y"].tobytes()


def test_a_model_that_holds_its_bundle_and_an_operator_of_the_host(tmp_path: Path) -> None:
    """The Softmax at the end is ONNX Runtime's own."""
    built, x = compiled(softmax=True), pictures(1)[0]
    library = _exported(built.bundle, tmp_path, "--embed")
    (tmp_path / "model.bundle").unlink()
    with _registered(library) as options:
        (found,) = _session((tmp_path / "model.onnx").read_bytes(), options).run(["y"], {"x": x})
    assert found.tobytes() == built.executor.run({"x": x}).outputs["y"].tobytes()


def test_what_a_region_in_floating_point_gives(tmp_path: Path) -> None:
    built = float_networks.built()
    library, x = _exported(built.bundle, tmp_path), float_networks.samples(1)[0]
    with _registered(library) as options:
        found = _session(tmp_path / "model.onnx", options).run(["y", "y2"], {"x": x})
    outputs = built.executor.run({"x": x}).outputs
    assert [each.tobytes() for each in found] == [outputs["y"].tobytes(), outputs["y2"].tobytes()]


def test_regions_on_a_device_with_a_host_operator_between_them(tmp_path: Path) -> None:
    library, x = _exported(small.bundle(), tmp_path), small.images(1)
    with _registered(library) as options:
        session = _session(tmp_path / "model.onnx", options, DEVICE)
        found = dict(zip(("end.y", "conv3.y"), session.run(["end.y", "conv3.y"], {"x": x}), strict=True))
        del session
    expected = open_bundle(small.bundle(), None, EmulatorDevice()).run({"x": x}).outputs
    assert {name: array.tobytes() for name, array in found.items()} == {name: array.tobytes() for name, array in expected.items()}


def test_a_device_that_does_not_start_is_an_error_of_the_session(tmp_path: Path) -> None:
    library = _exported(small.bundle(), tmp_path)
    for given in ({}, {"command": "/nowhere/device"}, {"command": "x " * 100}):
        with _registered(library) as options, pytest.raises(Exception, match=r"tilewright: (a region does not open|the option 'command')"):
            _session(tmp_path / "model.onnx", options, given)


def _changed(folder: Path, change: str) -> bytes:
    """The model with one thing of it wrong."""
    proto = onnx.load(folder / "model.onnx")
    (node,) = [node for node in proto.graph.node if node.op_type == "EPContext"]
    held = {attribute.name: attribute for attribute in node.attribute}
    if change == "bytes":
        held["embed_mode"].i = 1
    elif change in ("notes", "partition_name", "ep_cache_context"):
        held[change].s = b"elsewhere"
    elif change == "main_context":
        held[change].i = 0
    elif change == "missing":
        node.attribute.remove(held["ep_cache_context"])
    else:
        node.input.append(node.input[0])
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("notes", "not compatible with any execution provider"),
        ("partition_name", "not compatible with any execution provider"),
        ("inputs", "not compatible with any execution provider"),
        ("ep_cache_context", "the bundle that the model names cannot be opened"),
        ("missing", "neither names nor holds its bundle"),
        ("bytes", "the model holds another bundle"),
        ("main_context", "no EPContext node says where its bundle is"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change: str, message: str, kinds: Path) -> None:
    with _registered(kinds / "provider.so") as options, pytest.raises(Exception, match=message):
        _session(_changed(kinds, change), options)


def test_tensors_of_another_size_are_refused_when_they_come(kinds: Path, tmp_path: Path) -> None:
    """The file says that a region takes a larger picture than it does."""
    proto = onnx.load(kinds / "model.onnx")
    for entry in (*proto.graph.input, *proto.graph.value_info):
        if len(entry.type.tensor_type.shape.dim) == 4:
            entry.type.tensor_type.shape.dim[3].dim_value += 1
    shutil.copy(kinds / "model.bundle", tmp_path)
    onnx.save(proto, tmp_path / "odd.onnx")
    with _registered(kinds / "provider.so") as options:
        session = _session(tmp_path / "odd.onnx", options)
        with pytest.raises(Exception, match="tilewright: a tensor of the model has another size or type"):
            session.run(None, {"x": np.zeros(session.get_inputs()[0].shape, np.float32)})
        del session


def test_a_model_without_a_machine_has_no_provider() -> None:
    made = small.bundle()
    nothing = Bundle(type(made.manifest)(**{**vars(made.manifest), "plan": (), "regions": ()}), made.members)
    with pytest.raises(UserError, match="E1114 nothing of the model runs on a machine"):
        provider(nothing, {})
