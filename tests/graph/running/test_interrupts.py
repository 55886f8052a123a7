"""An interrupt ends a run of ONNX Runtime where it is, and the next run is whole again."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.onnx_builder import model
from toolchain.graph.running.session import open_session, run_session

n = helper.make_node


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
