import numpy as np
import pytest

from tests.verify.regions import small
from toolchain.verify.subject import owners


def test_owners_follow_from_the_listing() -> None:
    subject, _ = small()
    assert np.array_equal(owners(subject.listing, subject.region), subject.owner)


def test_a_restart_is_like_the_first_start() -> None:
    subject, expected = small()
    inputs = {"image": expected["image"]}
    state = subject.state(inputs)
    start = subject.restarts(state, inputs)
    state.memories["dram"][:] = 1
    again, fresh = start(), subject.state(inputs)
    assert all(np.array_equal(again.memories[name], fresh.memories[name]) for name in fresh.memories)
    assert all(np.array_equal(again.host[name], fresh.host[name]) for name in fresh.host)


@pytest.mark.parametrize(("label", "owner"), [("early", 0), ("early load", 0), ("earlyish load", -1), ("late x", 1), ("", -1), ("end", -1)])
def test_the_longest_name_wins(label: str, owner: int) -> None:
    assert owners([label], small()[0].region).tolist() == [owner]
