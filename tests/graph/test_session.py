"""Sessions: what ONNX Runtime rewrites must not change results."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.graph.onnx_builder import model, n, save
from toolchain.graph.session import ALIGN, _line, aligned, open_session, run_session
from toolchain.graph.store import open_model
from toolchain.spec.errors import UserError


def counting() -> bytes:
    """Counts to the number that it is given, one iteration after the other."""
    entry = helper.make_tensor_value_info
    ends = [entry("go", TensorProto.BOOL, []), entry("sum", TensorProto.FLOAT, [1])]
    body = helper.make_graph(
        [n("Identity", ["on"], ["go"]), n("Add", ["before", "one"], ["sum"])],
        "body",
        [entry("i", TensorProto.INT64, []), entry("on", TensorProto.BOOL, []), entry("before", TensorProto.FLOAT, [1])],
        ends,
    )
    nodes = [n("Cast", ["x"], ["times"], to=TensorProto.INT64), n("Loop", ["times", "", "zero"], ["y"], body=body)]
    constants = {"one": np.ones(1, np.float32), "zero": np.zeros(1, np.float32)}
    return model(nodes, {"x": [1]}, {"y": None}, constants).SerializeToString()


@pytest.fixture
def heard() -> Iterator[None]:
    """Interrupts raise KeyboardInterrupt: a worker of the test runner ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread")
def test_an_interrupt_ends_the_run() -> None:
    session = open_session(counting())
    assert run_session(session, {"x": np.array([3], np.float32)})["y"].tolist() == [3.0]
    began = time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run_session(session, {"x": np.array([5e7], np.float32)})
    assert time.monotonic() - began < 20  # all of it takes minutes
    assert run_session(session, {"x": np.array([4], np.float32)})["y"].tolist() == [4.0]


def _refused(folder: Path) -> Path:
    """A convolution of doubles, which the processor does not have."""
    first, last = (n("Cast", [a], [b], to=to) for a, b, to in (("x", "t", TensorProto.DOUBLE), ("u", "y", TensorProto.FLOAT)))
    nodes = [first, n("Conv", ["t", "w"], ["u"]), last]
    return save(model(nodes, {"x": [1, 1, 3, 3]}, {"y": None}, {"w": np.ones((1, 1, 1, 1))}), folder)


def test_a_refused_model_is_named_once_and_as_asked(tmp_path: Path) -> None:
    path = _refused(tmp_path)
    for place in (None, "mine.onnx"):
        with pytest.raises(UserError) as caught:
            open_session(path, place=place)
        (found,) = caught.value.diagnostics
        assert found.place == (place or str(path))
        assert found.message.startswith("ONNX Runtime refuses the model: ")
        assert str(tmp_path) not in found.message


def test_a_temporary_file_is_never_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        open_model(ir.load(_refused(tmp_path)), place="mine.onnx")
    assert str(caught.value).startswith("mine.onnx: E0910 ")
    assert "tilewright-" not in str(caught.value)


@pytest.mark.parametrize(
    "place",
    [
        "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::Raw(size_t, bool, onnxruntime::Stream*) ",
        "/onnxruntime_src/onnxruntime/core/providers/common.h:23 ",
        "/onnxruntime_src/include/onnxruntime/core/common/narrow.h:12 constexpr T onnxruntime::narrow(U) [with T = int; U = long int] ",
    ],
)
def test_places_in_the_sources_of_onnx_runtime_are_left_out(place: str) -> None:
    told = _line(RuntimeError(f"node 'c': {place}Failed to allocate memory\nStacktrace:\n #0 {place}"))
    assert told == "node 'c': Failed to allocate memory"


def test_a_run_that_stops_names_the_place(tmp_path: Path) -> None:
    session = open_session(save(model([n("Relu", ["x"], ["y"])], {"x": [1, 1, 3, 3]}, {"y": None}), tmp_path))
    with pytest.raises(UserError, match=r"^mine.onnx: E0910 ONNX Runtime could not run"):
        run_session(session, {"x": np.zeros((1, 2, 3, 3), np.float32)}, place="mine.onnx")


@pytest.mark.parametrize("optimise", [True, False])
def test_zeros_around_a_picture_count_in_a_max_pool(optimise: bool, tmp_path: Path) -> None:
    nodes = [n("Pad", ["x", "pads"], ["t"]), n("MaxPool", ["t"], ["y"], kernel_shape=[3, 3])]
    path = save(model(nodes, {"x": [1, 1, 3, 3]}, {"y": None}, {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}), tmp_path)
    found = run_session(open_session(path, optimise=optimise), {"x": np.full((1, 1, 3, 3), -1, np.float32)})["y"]
    assert found.tolist() == [[[[0, 0, 0], [0, -1, 0], [0, 0, 0]]]]


def test_waiting_threads_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session has threads of its own; where they spin, opening a bundle with sixty host segments takes ten times as long."""
    opened: list[Any] = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda _, options, **__: opened.append(options))
    open_session(b"")
    assert opened[0].get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_a_sequence_goes_in_as_a_list_and_a_scalar_as_an_array(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    place, output = helper.make_tensor_value_info("p", TensorProto.INT64, []), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([n("SequenceAt", ["s", "p"], ["y"])], "g", [sequence, place], [output])
    path = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path)
    given = {"s": [np.zeros(3, np.float32), np.ones(2, np.float32)], "p": np.arange(2)[1]}
    assert run_session(open_session(path), given)["y"].tolist() == [1, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(1, 17, 10, 4), (1, 17, 9, 9), (3, 5)])
def test_results_do_not_depend_on_where_operands_stand(shape: tuple[int, ...]) -> None:
    axes = np.arange(len(shape))[-2:] if len(shape) == 4 else np.array([1])
    proto = model([n("ReduceMean", ["x", "axes"], ["y"], keepdims=0)], {"x": shape}, {"y": None}, {"axes": axes})
    session = open_session(proto.SerializeToString(), optimise=False)
    values, found = np.random.default_rng(0).standard_normal(shape).astype(np.float32), set[bytes]()
    for offset in range(16):
        room = np.zeros(values.size + 16, np.float32)
        placed = room[offset : offset + values.size].reshape(shape)
        placed[...] = values
        found.add(run_session(session, {"x": placed})["y"].tobytes())
    turned = np.ascontiguousarray(np.moveaxis(values, 0, -1))
    found.add(run_session(session, {"x": np.moveaxis(turned, -1, 0)})["y"].tobytes())
    assert len(found) == 1


def test_arrays_of_every_kind_are_aligned() -> None:
    kinds = [np.float32(1), np.zeros((2, 3), bool)[:, ::2], np.arange(7, dtype=np.int8)[1:], np.zeros(3, np.float16)[1:]]
    for array in kinds:
        made = aligned(array)
        assert (made.ctypes.data % ALIGN, made.shape, made.dtype) == (0, array.shape, array.dtype)
        assert np.array_equal(made, array)
    for other in (np.array(["a", "b"], object), np.zeros((0, 3), np.int64), [np.zeros(3)], {1: 2.0}):
        assert aligned(other) is other
