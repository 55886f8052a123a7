import numpy as np
import pytest

from tests.verify.regions import small
from toolchain.verify.subject import owners


def test_owners_follow_from_the_listing() -> None:
    subject, _ = small()
    assert np.array_equal(owners(subject.listing, subject.region), subject.owner)


@pytest.mark.parametrize(("label", "owner"), [("early", 0), ("early load", 0), ("earlyish load", -1), ("late x", 1), ("", -1), ("end", -1)])
def test_the_longest_name_wins(label: str, owner: int) -> None:
    assert owners([label], small()[0].region).tolist() == [owner]
