"""The oracle is trusted only after it was asked."""

import numpy as np
import pytest

from toolchain.graph import canary
from toolchain.spec.errors import UserError


def test_this_machine_is_exact() -> None:
    canary.check_oracle.__wrapped__()


def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "run_session", lambda *_: {"y": np.zeros((4, 8), np.int32)})
    with pytest.raises(UserError, match="E0914"):
        canary.check_oracle.__wrapped__()
