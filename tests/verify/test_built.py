import numpy as np

from tests.verify.regions import small


def test_a_restart_is_like_the_first_start() -> None:
    tested, expected = small()
    inputs = {"image": expected["image"]}
    state = tested.state(inputs)
    start = tested.restarts(state)
    state.memories["dram"][:] = 1
    again, fresh = start(), tested.state(inputs)
    assert all(np.array_equal(again.memories[name], fresh.memories[name]) for name in fresh.memories)
    assert all(np.array_equal(again.host[name], fresh.host[name]) for name in fresh.host)
