"""C out of a bundle runs only for those who say that they trust it."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import toolchain
from tests.c_networks import clib, compiled, pictures
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import load, open_bundle
from toolchain.runtime.open_region import ALIGN, c_of, compile_c
from toolchain.spec.errors import UserError

needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_c
def test_memory_is_aligned_and_holds_the_constants() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    found = c_of(bundle, region, clib().machine)
    assert found.memory.ctypes.data % ALIGN == 0
    held = region.map.segments["constants"]
    assert found.memory[held.address : held.address + held.bytes].tobytes() == bundle.members[region.constants["constants"]]


@needs_c
def test_what_does_not_fit_is_told() -> None:
    bundle, machine = compiled().bundle, clib().machine
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match="E1104 the C of region 'region0' has no function 'other'"):
        c_of(bundle, replace(region, function="other"), machine)
    segments = {**region.map.segments, "swap": replace(region.map.segments["swap"], bytes=1 << 40)}
    with pytest.raises(UserError, match="E1104 the segment 'swap' of region 'region0' is outside 'memory' of clib"):
        c_of(bundle, replace(region, map=replace(region.map, segments=segments)), machine)


@needs_c
def test_c_that_does_not_compile() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match=r"E0710 .* refused generated code"):
        compile_c(clib().machine, "region0", region.map, "region0", b"int region0(", {}, {})


@needs_c
def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = compiled().bundle
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    with pytest.raises(UserError, match="E0711 there is no C compiler"):
        open_bundle(bundle, clib().machine, EmulatorDevice())


@needs_c
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
