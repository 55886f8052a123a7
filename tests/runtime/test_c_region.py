"""A region as compiled C: loaded where there is a compiler, refused with a code where something does not fit."""

import shutil
from dataclasses import replace

import pytest

from tests.c_networks import clib, compiled
from toolchain.runtime.c_region import ALIGN, compile_c
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.open_region import c_of
from toolchain.spec.errors import UserError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def test_memory_is_aligned_and_holds_the_constants() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    found = c_of(bundle, region, clib().machine)
    assert found.memory.ctypes.data % ALIGN == 0
    held = region.map.segments["constants"]
    assert found.memory[held.address : held.address + held.bytes].tobytes() == bundle.members[region.constants["constants"]]


def test_what_does_not_fit_is_told() -> None:
    bundle, machine = compiled().bundle, clib().machine
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match="E1104 the C of region 'region0' has no function 'other'"):
        c_of(bundle, replace(region, function="other"), machine)
    segments = {**region.map.segments, "swap": replace(region.map.segments["swap"], bytes=1 << 40)}
    with pytest.raises(UserError, match="E1104 the segment 'swap' of region 'region0' is outside 'memory' of clib"):
        c_of(bundle, replace(region, map=replace(region.map, segments=segments)), machine)


def test_c_that_does_not_compile() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match=r"E0710 .* refused generated code"):
        compile_c(clib().machine, "region0", region.map, "region0", b"int region0(", {}, {})


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = compiled().bundle
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    with pytest.raises(UserError, match="E0711 there is no C compiler"):
        open_bundle(bundle, clib().machine, EmulatorDevice())
