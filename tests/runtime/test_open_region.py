"""C out of a bundle runs only for those who say that they trust it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import toolchain
from tests.c_networks import compiled, pictures
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.executor import load
from toolchain.spec.errors import UserError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def test_c_is_compiled_only_where_it_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "kinds.bundle"
    write_bundle(path, compiled().bundle)
    with pytest.raises(UserError, match="E1113 region 'region0' is C code, which would be compiled and run on this computer"):
        load(path)
    with pytest.raises(UserError, match="E1113"):
        toolchain.load(path)
    (sample,) = pictures(1)
    expected = compiled().executor.run({"x": sample}).outputs["y"]
    assert np.array_equal(load(path, native=True).run({"x": sample}).outputs["y"], expected)
    assert np.array_equal(toolchain.load(path, native=True).run({"x": sample})["y"], expected)
