"""Footprints against what the reference engine touches, granule by granule; what control memories hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.footprint_oracle import assert_exact
from tests.random_programs import random_program, random_state
from tests.small_machines import small_machine
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.isa.decode import decode
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.vector import ControlContents, little_endian, sign_extended
from toolchain.isa.program import Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import ElementType, Memory, ScalarType


def contents() -> ControlContents:
    machine = tiny("num[a] = 3\nnum[a] = -2")
    program = decode(machine, streams([word(0, a=1), word(0, a=2)]))
    return ControlContents(Provenance(program, new_state(machine), np.arange(len(program))))


def test_the_last_fill_of_an_instruction_counts() -> None:
    controls = contents()
    fills = controls.fills(controls.program.machine.memory["num"])
    slots, positions = np.array([0, 1, 2, 1, 2, 2]), np.array([3, 3, 3, 0, 1, 2])
    found = fills.when.before(slots, positions)
    values = np.where(found >= 0, fills.value[found], 0)
    assert values.tolist() == [0, 0xFFFE, 0xFFFE, 0, 0, 0xFFFE]


@pytest.mark.parametrize("change", [{"depths": (1 << 31,)}, {"depths": (4, 4)}, {"element": ElementType(ScalarType(True, 64), (2,))}])
def test_what_cannot_be_followed_is_refused(change: dict[str, object]) -> None:
    controls = contents()
    wide: Memory = replace(controls.program.machine.memory["num"], **change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="E0608 the control memory 'num' has"):
        controls.fills(wide)


def test_bits_as_numbers() -> None:
    data = np.array([[0xFE, 0xFF], [1, 2]], np.uint8)
    raw = little_endian(data)
    assert raw.tolist() == [0xFFFE, 0x201]
    assert sign_extended(raw, ScalarType(True, 16)).tolist() == [-2, 0x201]
    assert sign_extended(raw, ScalarType(False, 4)).tolist() == [14, 1]
    assert sign_extended(np.array([-1]), ScalarType(False, 64)).tolist() == [-1]


DATA = Path(__file__).parents[2] / "data" / "vta_golden"

SHAPES = {
    "copy": "for i in range(n), j in range(b):\n    feat[a % 2, m + i * 3 + j] = loop[a - i * b]",
    "stray": "for i in range(n):\n    par[a + i * m] = par[b]",
    "bank": "for i in range(n):\n    feat[b + i, m] = loop[i]",
    "replica": "for i in range(n):\n    dram.row[b * 4 + (i % 2 * WAYS + way) * 4] = feat[i % 2, a + i]",
    "guarded": """\
for i in range(n), j in range(b % 8), k in range(4):
    if i + k >= 2 and j + k < n and (j > 0 or m > 0):
        loop[m + k * 2] = loop[m + k * 2 + 1]""",
    "carried": """\
x = a
top = 0
for i in range(n):
    x = x + i * b
    top = max(top, cfg[i % 2].b)
    feat[0, x] = loop[x + top]
feat[1, x + top] = loop[a]""",
    "branch": """\
x = a
if b > 30:
    x = x + b
else:
    x = x - n
for i in range(x % 5, x % 5 + n % 4):
    acc[i % 4][c] = loop[x * i][c] if m > 0 else 3""",
    "control": """\
if b < 24:
    for u in range(n % 4):
        ctl[b % 4] = dram.rec[m % 64 + u] if u != 1 else 0
else:
    for u in range(n % 5):
        k = ctl[u % 4]
        feat[k.lo % 2, k.hi * a] = loop[k.lo + k.hi]
        if k.lo > 3:
            acc[u % 4][c] = k.hi""",
    "number": """\
if a < 0:
    num[b % 4] = n * 3 - 7
for i in range(n % 4 if a > 0 else 0):
    feat[0, num[i] + num[b % 4]] = loop[a]""",
    "elsewhere": "for i in range(n % 4):\n    par.core(i % 2)[b % 4] = par.core(1 - core)[i]",
    "nowhere": "par.core(n - 1)[b % 4] = par[1]",
    "still": "for i in range(n), j in range(b):\n    loop[a + i * (m % 2)] = loop[a + j * (m % 3 - 1)]",
    "registers": "for i in range(cfg[0].n), j in range(cfg[b % 2].b % 4):\n    feat[0, cfg[j % 2].a + arg[i % 2] + i] = loop[arg[b % 2] + j]",
    "wide": "for i in range(n):\n    loop.wide[m + i * 4] = loop.wide[a * 4]",
    "triangle": "for i in range(n), j in range(i, i + b % 4):\n    if j % 3 != 1:\n        feat[0, i * j] = loop[j]",
    "accumulate": "for i in range(n), j in range(2):\n    acc[(i + j) % 4][c] += dot(par[j][o, c], par[b % 4][o, c])",
}


def golden_program(name: str) -> tuple[Program, State]:
    machine = small_machine("vta")
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as data:
        program, state = decode(machine, [data["insns"].tobytes()], name), new_state(machine)
        before = data["dram_before"].ravel()
    state.memories["dram"][0, : len(before)] = before
    return program, state


NIGHTLY = ("r01_ordered", "r13_shuffled")
"""Programs of the kind of r00 and r12, of a second seed."""
GOLDEN = [pytest.param(p.stem, marks=pytest.mark.nightly if p.stem in NIGHTLY else ()) for p in sorted(DATA.glob("[ur]*.npz"))]


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", GOLDEN)
def test_exact_on_golden_programs(name: str) -> None:
    program, state = golden_program(name)
    assert not len(assert_exact(program, state, issue_order(program)).faults)


FIELDS = st.tuples(
    st.sampled_from((0, 0, 0, 1)), st.integers(-128, 127), st.integers(0, 63), st.integers(1, 16), st.integers(-9, 9) | st.integers(-2048, 2047)
)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=12, deadline=None)
@given(st.lists(FIELDS, max_size=5), st.lists(FIELDS, max_size=5), st.integers(0, 2**32 - 1))
def test_exact_on_random_programs(shape: str, first: list[tuple[int, ...]], second: list[tuple[int, ...]], seed: int) -> None:
    machine = MACHINES[shape]
    program = decode(machine, streams([word(*f) for f in first], [word(*f) for f in second]))
    state, rng = new_state(machine), np.random.default_rng(seed)
    for memory in state.memories.values():
        memory[:] = rng.integers(0, 256, memory.shape)
    state.host["arg"][:] = rng.integers(-5, 5, state.host["arg"].shape)
    for latched in state.latched.values():
        latched[:] = rng.integers(0, 4, latched.shape)
    assert_exact(program, state, issue_order(program, seed))


MACHINES = {name: tiny(text) for name, text in SHAPES.items()}


RIPPLE = str(Path(__file__).parents[2] / "data" / "machines" / "ripple.yaml")


@pytest.mark.parametrize(
    ("target", "length", "seed"),
    [("vta", 12, 0), ("vta", 12, 1), ("dpuv3", 8, 0), ("dnnvm", 12, 0), ("dnnvm:zu9", 8, 1), ("stcp920", 5, 0), (RIPPLE, 12, 0), (RIPPLE, 12, 1)],
)
def test_exact_on_random_programs_of_every_machine(target: str, length: int, seed: int) -> None:
    machine = small_machine(target)
    program = random_program(machine, seed, length)
    assert_exact(program, random_state(machine, seed), issue_order(program, seed))


def test_vendor_program_is_exact_on_a_sample(vendor_streams: Path) -> None:
    machine = load_machine("dpuv3", overrides={"LOG_DDR": "24"})
    words = np.array([int(w, 16) for w in (vendor_streams / "conv1_pool1_fused.hex").read_text().split()], np.uint32)
    program = decode(machine, [words.tobytes()])
    state, order = new_state(machine), issue_order(program)
    assert_exact(program, state, order, order.tolist()[:12])
