"""A mistake in the parts that kernels share is told at its own line."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

TARGETS = Path(__file__).resolve().parents[3] / "targets"
OWN = "  fm: {banks: 8}\n"
MISTAKES = (
    "  fm: {banks: 7}", "  fm: {banks: 0}", "  fm: {banks: -8}", "  pm: {banks: 4}", "  fn: {banks: 8}", "  ddr: {banks: 1}", "  base: {banks: 1}",
    "  fm: {banks: FM_BANKS}", "  fm: {banks: 1 // 0}", "  fm: {banks: 2.5}", "  fm: {banks: [8]}", "  fm: {bank: 8}", "  fm: {banks: 8, size: 4}",
    "  fm: {}", "  fm: 8", "  fm:", "  - fm", "  fm: {banks: 8}\n  fm: {banks: 4}", "  fm: {banks: 8}\n  fn: {banks: 8}",
)  # fmt: skip


def told(folder: Path, pools: str) -> str:
    """The whole message for a machine whose kernels have these pools."""
    path = folder / "dpuv3" / "kernels.yaml"
    text = (TARGETS / "dpuv3" / "kernels.yaml").read_text()
    assert OWN in text
    path.write_text(text.replace(OWN, f"{pools}\n", 1))
    try:
        load_kernels(load_machine(str(folder / "dpuv3.yaml")))
    except UserError as error:
        return re.sub(r"(?m)^\S*/", "", f"{error}\n")
    return "taken\n"


def test_every_mistake_in_the_pools_of_banks_is_told_at_its_line(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """At the memory, the number or the key that is wrong, never at a kernel."""
    shutil.copytree(TARGETS / "dpuv3", tmp_path / "dpuv3")
    shutil.copy(TARGETS / "dpuv3.yaml", tmp_path)
    golden("schedule/pools.txt", "\n".join(told(tmp_path, pools) for pools in MISTAKES))
    line = (TARGETS / "dpuv3" / "kernels.yaml").read_text().splitlines().index(OWN.rstrip("\n")) + 1
    for pools in MISTAKES:
        assert told(tmp_path, pools).startswith(f"kernels.yaml:{line + pools.count(chr(10))}:")
