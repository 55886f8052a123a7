"""A bundle finds its machine, with its configuration and parameters, and no other."""

from dataclasses import replace

import pytest

from toolchain.runtime.machine import bundle_machine, bundle_machines, target_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


@pytest.mark.parametrize(
    ("config", "overrides"),
    [("", {}), ("ultra96", {}), ("", {"LOG_BLOCK": "5", "LOG_INP_BUFF": "16", "LOG_WGT_BUFF": "20", "LOG_ACC_BUFF": "18"}), ("hls", {"SHR": "full"})],
)
def test_a_machine_is_found_again(config: str, overrides: dict[str, str]) -> None:
    machine = load_machine("vta", config, overrides)
    found = bundle_machine(target_of(machine), "x")
    assert (found.name, found.config, found.params) == (machine.name, machine.config, machine.params)


def refusal(machine: str, given: str, **overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        bundle_machine(target_of(load_machine(machine)), "a.bundle", load_machine(given, overrides=overrides))
    return str(caught.value)


def test_another_machine_is_refused() -> None:
    assert refusal("vta", "dpuv3") == "a.bundle: E1105 the bundle was made for vta, this is dpuv3; build the model again"
    said = refusal("vta", "vta", LOG_UOP_BUFF="14")
    assert said.startswith("a.bundle: E1105 the bundle was made for another form of vta; LOG_UOP")
    assert "E1105 the bundle was made for vta, this is vta:ultra96" in refusal("vta", "vta:ultra96", LOG_UOP_BUFF="14")


def test_several_machines_are_found_in_their_order() -> None:
    targets = [target_of(load_machine(name)) for name in ("dpuv3", "vta")]
    assert [*bundle_machines(targets, "a.bundle")] == ["dpuv3", "vta"]
    assert bundle_machines(targets, "", [load_machine("dpuv3"), "vta"])["vta"].name == "vta"
    with pytest.raises(UserError, match=r"a\.bundle: E1105 the bundle is for 2 machines \(dpuv3, vta\), given are 1; give them in this order"):
        bundle_machines(targets, "a.bundle", "vta")
    with pytest.raises(UserError, match="E1105 the bundle was made for dpuv3, this is vta"):
        bundle_machines(targets, "a.bundle", ["vta", "dpuv3"])


def test_parameters_that_the_machine_refuses_are_one_line() -> None:
    target = target_of(load_machine("vta"))
    with pytest.raises(UserError, match=r"a\.bundle: E1105 the bundle was made for a vta that cannot be: LOG_BLOCK = 99 is outside") as caught:
        bundle_machine(replace(target, params={**target.params, "LOG_BLOCK": 99}), "a.bundle")
    assert "\n" not in str(caught.value)


def test_timing_alone_is_no_other_machine() -> None:
    assert bundle_machine(target_of(load_machine("vta")), "", load_machine("vta", overrides={"CLOCK_KHZ": "5"})).params["CLOCK_KHZ"] == 5


def test_names_are_never_paths() -> None:
    target = target_of(load_machine("vta"))
    for name in ("../targets/vta", "/etc/passwd", "vta.yaml", ""):
        with pytest.raises(UserError, match="E1104"):
            bundle_machine(replace(target, name=name), "x")
    with pytest.raises(UserError, match="E0001 unknown target 'vtaa'; did you mean 'vta'"):
        bundle_machine(replace(target, name="vtaa"), "x")


def test_the_host_s_costs_are_the_bundle_s() -> None:
    machine = load_machine("vta")
    assert machine.host
    slower = replace(machine.host, launch_us=replace(machine.host.launch_us, value=1e6))
    assert bundle_machine(target_of(replace(machine, host=slower)), "", machine).host == slower
    assert bundle_machine(target_of(machine), "", machine) is machine
