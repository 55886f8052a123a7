"""The oracle is trusted only after it was asked."""

import numpy as np
import pytest

from toolchain.graph.integers import ort_selftest
from toolchain.spec.errors import UserError


def test_this_machine_is_exact() -> None:
    ort_selftest.check_oracle.__wrapped__()


def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_selftest, "run_session", lambda *_: {"y": np.zeros((4, 8), np.int32)})
    with pytest.raises(UserError, match="E0914"):
        ort_selftest.check_oracle.__wrapped__()
