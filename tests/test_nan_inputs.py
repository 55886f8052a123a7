"""NaN in an input that becomes integers is refused on every way by which a user's numbers reach a machine; none runs as if they were zeros."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import toolchain
from bench.in_process import Target
from tests import lengths_network, steps_network
from tests.c_networks import compiled, kinds_network, pictures, plain
from tests.compiled_network import compile_network
from tests.runtime.test_linked import _exported as exported_library
from tests.runtime.test_linked import _shared as shared
from tests.runtime.test_linked import _text as text_of
from tests.runtime.test_provider import _exported as exported_provider
from tests.runtime.test_provider import _registered as registered
from tests.runtime.test_provider import _session as opened
from tests.runtime.test_provider import evaluated
from toolchain.api.backend import backend_for
from toolchain.api.model import prepare_picture
from toolchain.cli import main
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import Interface
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.process_device import ProcessDevice
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import lengths_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import fulfil

Numbers = NDArray[Any]
DEVICE = (sys.executable, "-m", "toolchain", "device")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def spoilt(count: int = 2) -> Numbers:
    """Samples [count, 1, 3, 12, 10], the last with two places that hold no number."""
    found = pictures(count)
    found[-1, 0, 2, 1, 1] = found[-1, 0, 0, 3, 4] = np.nan
    return found


def stored(folder: Path) -> Path:
    write_bundle(folder / "kinds.bundle", compiled().bundle)
    return folder / "kinds.bundle"


def by_the_executor(_: Path) -> None:
    compiled().executor.run({"x": spoilt()[:, 0]})


def by_single_samples(_: Path) -> None:
    compiled().executor.run_samples({"x": spoilt()})


def by_a_device_in_another_process(_: Path) -> None:
    built = plain("vta")
    open_bundle(built.bundle, [*built.executor.machines.values()], ProcessDevice(DEVICE)).run({"x": spoilt()[:, 0]})


def by_a_loaded_bundle(folder: Path) -> None:
    toolchain.load(stored(folder), native=True).run({"x": spoilt()[:, 0]})


def by_lists(folder: Path) -> None:
    toolchain.load(stored(folder), native=True).run({"x": spoilt()[:, 0].tolist()})


def by_each(folder: Path) -> None:
    toolchain.load(stored(folder), native=True).run_each([{"x": x} for x in spoilt()])


def by_onnx_backend(_: Path) -> None:
    backend_for("clib").prepare(kinds_network()).run(spoilt(1)[0])


def by_several_lengths(folder: Path) -> None:
    path, data = lengths_network.rows(folder / "rows.onnx"), np.random.default_rng(1).normal(size=(4, 1, 8, lengths_network.WIDTH))
    np.savez(folder / "data.npz", x=data.astype(np.float32))
    given = {"target": "vta", "model": str(path), "calibration": str(folder / "data.npz"), "lengths": "length:4,8", "place": "all", "effort": "0"}
    joined = make_plan(given, folder / "build").joined[0]
    fulfil(joined, lambda _: None)
    toolchain.load(lengths_file(joined.job)).run({"x": np.full((1, 5, lengths_network.WIDTH), np.nan, np.float32)})


def by_a_picture(_: Path) -> None:
    prepare_picture(np.full((6, 8, 3), np.nan), Interface("x", (1, 3, 6, 8), "uint8"))


def by_a_step(_: Path) -> None:
    steps_network.built("vta").session().step({"x": np.full((1, steps_network.GIVEN), np.nan, np.float32)})


def by_a_state(_: Path) -> None:
    steps_network.built("vta").session().reset({"h": np.full((1, steps_network.HELD), np.nan, np.float32)})


PYTHON = (
    by_the_executor, by_single_samples, by_a_device_in_another_process, by_a_loaded_bundle, by_lists, by_each, by_onnx_backend, by_several_lengths,
    by_a_picture, by_a_step, by_a_state,
)  # fmt: skip


@pytest.mark.parametrize("way", PYTHON)
def test_python_raises(way: Callable[[Path], None], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^E1134 the input '\w+' holds NaN at \["):
        way(tmp_path)


def test_the_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", x=spoilt()[:, 0])
    assert main(["bundle", "run", str(stored(tmp_path)), str(tmp_path / "in.npz"), "--native"]) == 1
    assert (
        "E1134 the input 'x' holds NaN at [1, 0, 3, 4], and becomes integers, which have no such number; so does 1 more place"
        in capsys.readouterr().err
    )


def a_program(folder: Path) -> str:
    assert main(["export", "c", str(stored(folder)), "-o", str(folder / "c")]) == 0
    words = ["cc", "-std=c99", "-O0", *sorted((folder / "c").glob("*.c")), "-lm", "-o", folder / "model"]
    subprocess.run(words, check=True)
    return ended([folder / "model", folder / "kinds.bundle"])


def an_elf_file(folder: Path) -> str:
    assert main(["export", "elf", str(stored(folder)), "-o", str(folder / "model")]) == 0
    return ended([folder / "model"])


def ended(words: list[Path]) -> str:
    """The first sample is good and is answered."""
    done = subprocess.run(words, input=spoilt().tobytes(), capture_output=True, check=False)
    assert (done.returncode, len(done.stdout)) == (1, 5 * 4)
    return done.stderr.decode()


def a_library(folder: Path) -> str:
    name, model, made, x = exported_library(compiled(), folder / "c"), ctypes.c_void_p(), (ctypes.c_float * 5)(), spoilt(1)
    library, data = shared(folder / "c", name), (folder / "c/model.bundle").read_bytes()
    assert library[f"{name}_open"](ctypes.byref(model), data, ctypes.c_size_t(len(data))) == 0
    code = library[f"{name}_run"](model, ctypes.c_size_t(1), x.ctypes.data_as(ctypes.c_void_p), made)
    library[f"{name}_close"](model)
    return text_of(library, name, code)


def a_provider(folder: Path) -> str:
    """A session goes on after the failed run."""
    good, bad = spoilt()
    with registered(exported_provider(compiled().bundle, folder)) as options:
        session = opened(folder / "model.onnx", options)
        told = refused(session, bad)
        (found,) = session.run(["y"], {"x": good})
        del session
    assert found.tobytes() == compiled().executor.run({"x": good}).outputs["y"].tobytes()
    assert "idx=2 must be within" in told
    return told


def refused(session: onnxruntime.InferenceSession, x: Numbers) -> str:
    """The error's text, empty where there is none: the frames of an error would keep the session beyond its provider."""
    try:
        session.run(["y"], {"x": x})
    except InvalidArgument as error:
        return str(error)
    return ""


@needs_compiler
@pytest.mark.parametrize("way", [a_program, an_elf_file, a_library, a_provider])
def test_code_that_was_exported_fails_with_a_text(way: Callable[[Path], str], tmp_path: Path) -> None:
    assert "holds NaN" in way(tmp_path)


def test_another_engine_of_the_onnx_model_fails(tmp_path: Path) -> None:
    assert main(["export", "onnx", str(stored(tmp_path)), "-o", str(tmp_path / "model.onnx")]) == 0
    model, (good, bad) = onnx.load(tmp_path / "model.onnx"), spoilt()
    assert np.array_equal(evaluated(model, compiled().executor, good)["y"], compiled().executor.run({"x": good}).outputs["y"])
    with pytest.raises(IndexError):
        evaluated(model, compiled().executor, bad)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_inputs_of_every_width_also_behind_a_cast(kind: int, tmp_path: Path) -> None:
    """A cast between floats keeps NaN, so the integers behind it are as wrong."""
    dtype, shape = helper.tensor_dtype_to_np_dtype(kind), [1, 4, 2, 16]
    nodes = [helper.make_node("Cast", ["x"], ["c"], "cast", to=TensorProto.FLOAT)]
    nodes.append(helper.make_node("MaxPool", ["c"], ["y"], "pool", kernel_shape=[1, 2], strides=[1, 2]))
    ends = ([helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 2, 8])])
    proto = helper.make_model(helper.make_graph(nodes, "cast", *ends), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.linspace(-32, 31, 128).reshape(shape).astype(dtype)
    built = compile_network(proto, "cast", Target("clib"), x[None])
    assert built.regions == 1
    with registered(exported_provider(built.bundle, tmp_path)) as options:
        session = opened(tmp_path / "model.onnx", options)
        (found,), wanted = session.run(["y"], {"x": x}), built.executor.run({"x": x}).outputs["y"]
        x[0, 3, 1, 15] = np.nan
        told = refused(session, x)
        del session
    assert found.tobytes() == wanted.tobytes()
    assert "E1134: the input 'x' holds NaN" in told
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[0, 3, 1, 15\]"):
        built.executor.run({"x": x})
