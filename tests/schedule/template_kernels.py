"""vta's kernels where templates write the store of a sliding window and the end of a program."""

import shutil
from pathlib import Path

TARGETS = Path(__file__).resolve().parents[2] / "targets"
KEEP = "    steps: [{store: y, uses: [y], do: keep}]\n"
STEP = "    steps:\n      - {store: y, uses: [y], template: store.asm.j2, unit: store, cycles: oc * oh * ow}\n"
STORE = "STORE memory_type=out sram_base={{ y_slot }} dram_base={{ y_base }} y_size=1 x_size={{ oc * oh * ow }} x_stride=1\n"


def write_template_kernels(folder: Path) -> str:
    """Puts vta.yaml and vta/ into a folder, and returns the text of the kernels."""
    shutil.copytree(TARGETS / "vta", folder / "vta")
    shutil.copy(TARGETS / "vta.yaml", folder)
    path = folder / "vta" / "kernels.yaml"
    text = path.read_text()
    assert text.count(KEEP) == 1
    text = text.replace(KEEP, STEP)
    text = text.replace("    residency:", "    end: finish.asm.j2\n    residency:", 1)
    path.write_text(text)
    (folder / "vta" / "store.asm.j2").write_text(STORE)
    (folder / "vta" / "finish.asm.j2").write_text("FINISH\n")
    return text
