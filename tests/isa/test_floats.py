"""A floating machine through everything that is made from its description: assembly, footprints, the manual, `target check`."""

from pathlib import Path

import numpy as np
import pytest

from tests.float_machine import float_machine, float_program, float_state, float_text
from tests.footprint_oracle import assert_exact
from toolchain.analysis.order import issue_order
from toolchain.cli import main
from toolchain.isa.assembly import assemble, disassemble
from toolchain.report.manual import manual_markdown
from toolchain.spec.errors import Source


@pytest.mark.parametrize("kind", ["f32", "f8e4m3"])
def test_assembly_and_footprints(kind: str) -> None:
    machine = float_machine(kind)
    program = float_program(machine, 5, 40)
    again = assemble(machine, Source("asm", disassemble(program)))
    assert again.streams == program.streams
    prints = assert_exact(program, float_state(machine, 5), issue_order(program))
    assert {machine.memories[number].name for number in np.unique(prints.runs.memory)} >= {"x", "m", "h", "s", "q"}


def test_manual_shows_formats_and_operations() -> None:
    text = manual_markdown(float_machine("bf16"))
    for part in ("bf16[8]", "dot_exact(m[a % 4][r, o], m[b % 4][r, o])", "fma(x[a][o], x[b][o], x[d][o])", "saturate(x[(a + i) % 8][o], f16)"):
        assert part in text, part


def test_target_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "floats.yaml"
    path.write_text(float_text())
    assert main(["target", "check", str(path)]) == 0
    path.write_text(float_text().replace("x[d][o] = x[a][o] + x[b][o]", "x[d][o] = x[a][o] + h[b][o]"))
    assert main(["target", "check", str(path)]) == 1
    assert "E0226 f32 and f16 meet here" in capsys.readouterr().err
