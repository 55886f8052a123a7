"""A plan with a fault is refused in words; each state goes on where its conversions are left out."""

from dataclasses import replace

import pytest

from tests.steps_network import built
from toolchain.runtime.contents import Bundle, HostSegment, PlanStep
from toolchain.runtime.plan_faults import plan_faults


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"input": "y"}, "the state 'y' is no input and output of one shape and type"),
        ({"output": "y"}, "the state 'h' is no input and output of one shape and type"),
        ({"taken": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "nothing"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"start": "region0.two"}, "the start of the state 'h' has another size"),
        ({"start": "data-none.bin"}, "there is no member 'data-none.bin'"),
        ({"taken": "h"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "next_h"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "next_count"}, "two states are one tensor"),
        ({"made": "y"}, "the state 'h' is none of the tensors that the last step converts"),
        ({"made": "from_h.int8"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"made": "y.int8"}, "the state 'h' is none of the tensors that the last step converts"),
        ({"taken": "x.int8"}, "the state 'h' is handed on as a tensor that no step makes"),
        ({"input": "count", "output": "next_count", "taken": "count", "made": "next_count"}, "two states are one tensor"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, str], fault: str) -> None:
    held = built("vta").bundle
    assert list(plan_faults(held)) == []
    state, other = held.manifest.states
    manifest = replace(held.manifest, states=(replace(state, **changes), other))
    members = {**held.members, "region0.two": b"12"}
    assert fault in list(plan_faults(Bundle(manifest, members)))


@pytest.mark.parametrize("read", ["h", "next_h"])
def test_a_state_that_goes_round_is_not_read_in_the_models_own_type(read: str) -> None:
    held = built("vta").bundle
    reader = HostSegment(held.manifest.hosts[0].model, (read,), ("seen",), {})
    plan = (*held.manifest.plan, PlanStep("host", len(held.manifest.hosts)))
    manifest = replace(held.manifest, hosts=(*held.manifest.hosts, reader), plan=plan)
    assert list(plan_faults(replace(held, manifest=manifest))) == ["the state 'h' is read in the model's own type between steps"]


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 32), "bfloat16"), ((1, 0), "float32"), ((1 << 20, 1 << 10), "float32"), ((1, -1), "float32"), (None, "x")]
)
def test_a_state_is_numbers_of_a_known_size(shape: tuple[int, ...] | None, dtype: str) -> None:
    held = built("vta").bundle
    sides = {
        side: tuple(replace(e, shape=shape, dtype=dtype) if e.name in ("h", "next_h") else e for e in getattr(held.manifest, side))
        for side in ("inputs", "outputs")
    }
    assert "the state 'h' is no input and output of one shape and type" in list(plan_faults(replace(held, manifest=replace(held.manifest, **sides))))
