"""The loops that instructions run by themselves, as their semantics say it."""

import pytest

from toolchain.isa.semantics.loop_nest import LoopNest, loop_nest
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.load import find_target, load_machine, load_text

FACTORS = {name: (f"{name}_factor_out", f"{name}_factor_in") for name in ("dst", "src", "wgt")}
TEXT = find_target("vta").read_text()


def nest_of(text: str, instruction: str = "GEMM") -> LoopNest | None:
    return loop_nest(machine_semantics(load_text(text, "vta.yaml"))[instruction])


@pytest.mark.parametrize("config", ["sim", "hls"])
def test_factors_and_records(config: str) -> None:
    semantics = machine_semantics(load_machine("vta", config))
    gemm = LoopNest(("iter_out", "iter_in"), "uop", "uop_bgn", "uop_end", FACTORS)
    alu = LoopNest(("iter_out", "iter_in"), "uop", "uop_bgn", "uop_end", {name: FACTORS[name] for name in ("dst", "src")})
    assert (loop_nest(semantics["GEMM"]), loop_nest(semantics["ALU"])) == (gemm, alu)
    assert {name for name, found in semantics.items() if loop_nest(found) is None} == {"LOAD", "STORE", "FINISH"}


def test_an_address_that_starts_at_a_field() -> None:
    text = TEXT
    for name in ("dst", "src", "wgt"):
        text = text.replace(f"k.{name} + i * ", f"{name}_factor_in + i * ").replace(f" + j * {name}_factor_in", f" + j * {name}_factor_out")
    text = text.replace(
        "for i in range(iter_out), j in range(iter_in), u in range(uop_bgn, uop_end):\n          k = uop[u]",
        "for i in range(iter_out), j in range(iter_in):",
    )
    factors = {f"{name}_factor_in": (f"{name}_factor_out", f"{name}_factor_out") for name in FACTORS}
    assert nest_of(text) == LoopNest(("iter_out", "iter_in"), "", "", "", factors)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d = k.dst + i * dst_factor_out", "d = k.dst + 2 * i * dst_factor_out"),
        ("d = k.dst + i * dst_factor_out", "d = k.dst + i"),
        ("d = k.dst + i", "d = k.dst + i * i"),
        ("j in range(iter_in), u", "j in range(iter_in + 1), u"),
        ("u in range(uop_bgn, uop_end)", "u in range(uop_bgn, uop_end + 1)"),
        ("w = k.wgt + i", "w = k.wgt + k.wgt + i"),
    ],
)
def test_anything_else_is_no_such_nest(old: str, new: str) -> None:
    assert old in TEXT
    assert nest_of(TEXT.replace(old, new, 1)) is None
