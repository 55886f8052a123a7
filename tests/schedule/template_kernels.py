"""vta's kernels where templates write the store of a convolution and the end of a program, with records that a template may name."""

import shutil
from pathlib import Path

TARGETS = Path(__file__).resolve().parents[2] / "targets"
HEAD = "  conv2d:\n"
RECORDS = "    constants: {whole: {fields: {dst: y_slot, src: y_slot}}}\n"
STEP = "    steps:\n      - {store: y, template: store.asm.j2, unit: store, cycles: oc * oh * ow}\n"
VIEW = "y: {view: dram.out, layout: activations, extents: [batch, out_channels, out_height, out_width], written: true}"
STORE = "STORE memory_type=out sram_base={{ y_slot }} dram_base={{ y_base }} y_size=1 x_size={{ oc * oh * ow }} x_stride=1\n"


def write_template_kernels(folder: Path) -> str:
    """Puts vta.yaml and vta/ into a folder, and returns the text of the kernels."""
    shutil.copytree(TARGETS / "vta", folder / "vta")
    shutil.copy(TARGETS / "vta.yaml", folder)
    path = folder / "vta" / "kernels.yaml"
    text = path.read_text()
    assert text.count(HEAD) == 1
    before, after = text.split(HEAD)
    text = before + HEAD + RECORDS + STEP + after.replace("    tensors: {", f"    tensors: {{{VIEW},\n      ", 1)
    text = text.replace("    residency:", "    end: finish.asm.j2\n    residency:", 1)
    path.write_text(text)
    (folder / "vta" / "store.asm.j2").write_text(STORE)
    (folder / "vta" / "finish.asm.j2").write_text("FINISH\n")
    return text
