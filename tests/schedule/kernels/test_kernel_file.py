"""Mistakes in a file of kernels that call a library are said where they stand. What is wrong with a kernel is said where it stands."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedule.template_kernels import write_template_kernels
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels, read_kernels
from toolchain.spec.errors import Source, UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.load import load_file, load_machine

CLIB = load_machine("clib")
CLIB_FOLDER = Path(__file__).resolve().parents[3] / "targets" / "clib"
CLIB_PATH = CLIB_FOLDER / "kernels.yaml"
WRONG = [
    ("sources: [clib.c]", "sources: [lib.c]", "E1002 there is no file 'lib.c' in"),
    ("header: clib.h", "header: ../clib/clib.h", "E0116 '../clib/clib.h' is not allowed here"),
    ("arguments: {weight, channels}", "arguments: {weight, 'channels = 1, .x': 1}", "E0116 "),
    ("    call: clib_upsample\n", "", "E1002 a kernel needs 'call'"),
    ("    call: clib_upsample\n", "    call: clib_upsample\n    tile: {n: {of: 1}}\n", "E1002 a kernel that calls a library has no 'tile'"),
    ("arguments: {weight, channels}", "arguments: {channels}", "E1002 kernel 'depthwise' does not pass tensor 'weight'"),
    ("arguments: {weight, channels}", "arguments: {weight, chanels}", "E0107 unknown name 'chanels'; did you mean 'channels'?"),
    ("arguments: {weight, channels}", "arguments: {weight, channels: weight_chans}", "E0107 unknown name 'weight_chans'"),
    ("cycles: channels * height * width * 10 // 7", "cycles: chanels", "E0107 unknown name 'chanels'"),
    ("tensors: {weight: {layout: taps,", "tensors: {weight: {layout: taps, view: memory.byte,", "E1002 unknown view 'memory.byte'"),
    ("zero_x, zero_y, low, high}", "zero_y, low, high}", "E1009 kernel 'conv2d' does not use 'zero_x' or 'folded'"),
]

MACHINE = load_machine("vta")
PATH = Path(__file__).resolve().parents[3] / "targets" / "vta" / "kernels.yaml"
BARE = Path(__file__).resolve().parents[2] / "data" / "machines" / "masked.yaml"


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_mistake_is_told(old: str, new: str, message: str) -> None:
    text = CLIB_PATH.read_text()
    assert old in text
    with pytest.raises(UserError) as caught:
        read_kernels(CLIB, Source("kernels.yaml", text.replace(old, new, 1)), CLIB_FOLDER)
    assert any(message in diagnostic.render() for diagnostic in caught.value.diagnostics), caught.value


def test_a_library_and_a_generator_go_together(tmp_path: Path) -> None:
    message = "E1002 machine 'clib' has codegen: c99, and its kernels have no 'library'"
    with pytest.raises(UserError, match=message):
        read_kernels(CLIB, Source("kernels.yaml", PATH.read_text()), PATH.parent)
    shutil.copy(CLIB_FOLDER.parent / "vta.yaml", tmp_path)
    shutil.copytree(CLIB_FOLDER, tmp_path / "vta")
    with pytest.raises(UserError, match="E1002 machine 'vta' has codegen: binary, and its kernels have a 'library'"):
        load_kernels(load_machine(str(tmp_path / "vta.yaml")))


def test_an_argument_without_a_value_is_what_is_called_so() -> None:
    kernel = load_kernels(CLIB)["conv2d"]
    assert kernel.call is not None
    assert kernel.call.arguments["weight"] == "weight"
    assert {tensor.name: tensor.view for tensor in kernel.tensors} == {
        **dict.fromkeys(("bias", "multipliers", "shifts"), "memory.words"),
        **dict.fromkeys(("weight", "x", "y"), "memory.bytes"),
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{shape: stretches, memory: wgt, at: (oc_at * ic_all",
            "{shape: stretches, memory: wgts, at: (oc_at * ic_all",
            "E1002 unknown memory 'wgts'; did you mean 'wgt'?",
        ),
        ("{shape: stretches, memory: wgt, at: (oc_at * ic_all", "{shape: stretches, at: (oc_at * ic_all", "E1002 shape 'stretches' needs 'memory'"),
        ("{shape: blocks, count", "{shape: blocks, memory: inp, count", "E1002 shape 'blocks' takes no 'memory'"),
        ("size: leaky * y_count", "size: leaky * y_rows * y_cuont", "E0107 unknown name 'y_cuont'"),
        ("y: {shape: sums}", "y: {shape: sums, by: [ci]}", "E1002 unknown dimension 'ci'; known: n, oc, oh, ow, ic"),
        ("+ ic_at) * taps", "+ ic_at) * tops", "E0107 unknown name 'tops'; did you mean 'taps'?"),
        ("layout: weights", "layout: weigths", "E1002 unknown layout 'weigths'; did you mean 'weights'?"),
        ("{view: dram.out, ", "{view: dram.out, shared: dram.inp, ", "E1002 'shared' names a memory on chip for a tensor that operations make"),
        ("{view: dram.out, ", "{view: dram.out, shared: inps, ", "E1002 unknown view 'inps'; did you mean 'inp'?"),
        ("{view: dram.out, ", "{view: dram.out, shared: acc, ", "E1002 'acc' has other scalars than 'dram.out'"),
        ("view: dram.out", "view: dram.oat", "E1002 unknown view 'dram.oat'; did you mean 'dram.out'?"),
        ("{view: dram.out, layout", "{layout", "E1002 tensor 'y' needs a 'view': no instruction with its address reaches DRAM"),
        ("of: oh, fold", "of: height, fold", "E1002 unknown dimension 'height'"),
        ("h: {of: ih, stride: 1,", "h: {of: ih,", "E1002 window 'h' needs 'stride': the meaning of upsample does not say it"),
        ("extents: [batch, in_channels, height, width]", "extents: [batch, in_channels]", "E1002 layout 'squares' has 4 extents: N C H W"),
        ("{dst: y_slot, src: y_slot", "{dest: y_slot, src: y_slot", "E1002 unknown field of an element of 'uop' 'dest'; did you mean 'dst'?"),
        ("whole: {fields", "whole: {memory: upo, fields", "E1002 unknown memory 'upo'; did you mean 'uop'?"),
        ("unit: store", "unit: stor", "E1002 unknown unit 'stor'; did you mean 'store'?"),
        ("template: store.asm.j2", "template: stroe.asm.j2", "E1002 there is no template 'stroe.asm.j2'"),
        ("how: LOAD, out", "how: LOUD, out", "E0107 unknown name 'LOUD'"),
        ("src: one_slot", "src: one_slut", "E0107 unknown name 'one_slut'; did you mean 'one_slot'?"),
        ("src: one_slot", "sec: one_slot", "E1002 GEMM has no field 'sec' for a kernel to say"),
        ("src: one_slot", "iter_in: 3", "E1002 GEMM's iter_in follows from the loops that it runs"),
        ("src: one_slot", "reset: i", "E1002 'reset' is the same in all rounds that an instruction runs, and cannot depend on 'i'"),
        ("src: one_slot", "src: one_slot + i * i", "E1002 'src' does not grow evenly from round to round of 'i'"),
        ("src: one_slot", "src: one_base", "E1002 records are made before tiles have their places in DRAM, and they depend on 'one_base'"),
        ("over: {k: e, o: oc}", "over: {e: e, o: oc}", "E1002 'e' has a meaning here already"),
        ("k: e, o: oc},\n      GEMM", "k: e}, records: {o: k}, GEMM", "E1002 'records' is the same in all rounds that an instruction runs"),
        ("k: e, o: oc},\n      GEMM", "k: e}, records: {o: y_count}, GEMM", "and their number depends on 'y_count'"),
        ("GEMM: {dst: y_slot + i, src: of.slot + i, wgt: weight}", "LOAD: {}", "E1002 LOAD runs no loops that grow its addresses"),
        ("else place.memory, sram_base", "else plaice.memory, sram_base", "E0107 'plaice' is not a register"),
        (
            "y_size: count if flat",
            "y_size: place.memory if flat",
            "E1002 'one' stands in 'inp', and no value of a field is called so here",
        ),
        ("dram_base: place.base + at", "dram_base: place.bass + at", "E0107 unknown name 'one_bass'; did you mean 'one_base'?"),
        ("{store: y, template", "{load: x, store: y, template", "E1002 a step is one of load, start, compute, finish, store"),
        ("computes: conv2d", "computes: conv3d", "E1002 unknown operation 'conv3d'; did you mean 'conv2d'?"),
        ("w: {layout: weights, values: weight}", "w: {layout: bias, values: weight}", "E1002 layout 'bias' has the indices n c, and 'weight' has 4"),
        ("w: {layout: weights, values: weight}", "w: {layout: weights, values: wait}", "E1002 tensor 'w' needs 'extents'; or values: weight or bias"),
        ("reduces: true", "reduce: true", "E0108 unknown key 'reduce'"),
        ("weight[o, i % in", "weights[o, i % in", "E0121 memory cannot be read here"),
        (
            "view: dram.out, layout: activations",
            "view: dram.out, layout: weights",
            "E1002 layout 'weights' has the indices o i h w",
        ),
    ],
)
def test_faults_are_told_with_their_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = write_template_kernels(tmp_path)
    assert old in text
    with pytest.raises(UserError) as caught:
        read_kernels(MACHINE, Source("kernels.yaml", text.replace(old, new, 1)), tmp_path / "vta")
    assert message in str(caught.value)
    line = next(n for n, (a, b) in enumerate(zip(text.splitlines(), text.replace(old, new, 1).splitlines(), strict=True), 1) if a != b)
    places = [d.span.line for d in caught.value.diagnostics if d.span]
    assert line in places


def test_a_size_may_be_said_by_numbers_of_another_place() -> None:
    places = {place.name: place for place in read_kernels(MACHINE, Source("kernels.yaml", PATH.read_text()), PATH.parent)["conv2d"].places}
    tile = {"leaky": 1, "oc": 2, "oh": 3, "ow": 5}
    assert constant(places["t"].size, tile) == constant(places["y"].size, tile) == 30


def test_constants_need_a_residency() -> None:
    text = re.sub(r"\n    residency: \{.*?\}\}\}\n", "\n", PATH.read_text(), flags=re.S)
    with pytest.raises(UserError, match="E1002 constants stand in one memory"):
        read_kernels(MACHINE, Source("kernels.yaml", text), PATH.parent)


def test_time_is_named_in_cycles_alone(tmp_path: Path) -> None:
    """Which operations a kernel does never depends on how long anything takes."""
    text, name = write_template_kernels(tmp_path), MACHINE.timing.constants[0].name
    slow = text.replace("cycles: ", f"cycles: {name} + ", 1)
    found = read_kernels(MACHINE, Source("kernels.yaml", slow), tmp_path / "vta")
    assert found != read_kernels(MACHINE, Source("kernels.yaml", text), tmp_path / "vta")
    with pytest.raises(UserError, match=f"E0107 unknown name '{name}'"):
        read_kernels(MACHINE, Source("kernels.yaml", text.replace("size: count * columns", f"size: {name} * count * columns", 1)), tmp_path / "vta")


def test_a_machine_may_go_without_some_of_its_kernels() -> None:
    fewer = load_kernels(replace(MACHINE, without=("squares", "add_both")))
    assert [*fewer] == [name for name in load_kernels(MACHINE) if name not in ("squares", "add_both")]
    with pytest.raises(UserError, match="E1001 machine 'vta' has no kernel 'square'; did you mean 'squares'"):
        load_kernels(replace(MACHINE, without=("square",)))
    with pytest.raises(UserError, match=r"has no kernel 'zebra'; known: .*squares"):
        load_kernels(replace(MACHINE, without=("zebra",)))


def test_an_unknown_kernel_and_a_machine_without() -> None:
    with pytest.raises(UserError, match="E1001 machine 'vta' has no kernel 'conv3d'; did you mean 'conv2d'"):
        load_kernel(MACHINE, "conv3d")
    with pytest.raises(UserError, match="E1001 machine 'masked' has no kernels"):
        load_kernel(load_machine(str(BARE)), "conv2d")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  fm: {banks: 8}", "  fn: {banks: 8}", "E1002 unknown memory 'fn'"),
        ("  fm: {banks: 8}", "  fm: {banks: 7}", "E1002 the 24 banks of 'fm' cannot be divided into pools of 7"),
        ("registers: base", "registers: bass", "E1002 the host sets no registers 'bass'; did you mean 'base'?"),
        ("registers: base", "registers: ci", "E1002 the host sets no registers 'ci'"),
        ("constants: 3}", "constants: 4}", "E1002 segment 'constants' has register 4, and 'base' has 4"),
        ("constants: 3}", "constants: 3}\nkernels: {conv2d: {computes: conv2d}}", "E1002 'conv2d' stands in two files, here and at"),
        ("- strips.yaml", "- stripes.yaml", "kernels.yaml:4:5: E0001 there is no file 'stripes.yaml' beside this one"),
        ("- strips.yaml", "- ../vta.yaml", "E0116"),
        ("      at: first\n", "", "has other names than a tile of it: at"),
    ],
)
def test_faults_in_what_stays_on_chip_are_told(old: str, new: str, message: str) -> None:
    path = PATH.parents[1] / "dpuv3" / "kernels.yaml"
    text = path.read_text()
    assert old in text
    with pytest.raises(UserError) as caught:
        read_kernels(load_machine("dpuv3"), Source("kernels.yaml", text.replace(old, new, 1)), path.parent)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("elementwise", "over: [x, z]", "over: [x, q]", "elementwise.yaml:{line}: E1002 unknown place 'q'"),
        ("convolution", "when: x_kept and sampled", "when: q_kept and sampled", "convolution.yaml:{line}: E0107 unknown name 'q_kept'"),
        ("pooling", "sequences:\n", "pools: {fm: {banks: 8}}\nsequences:\n", "E1002 'pools' stands in the machine's own kernel file alone"),
        ("pooling", "sequences:\n", "sequence:\n", "E1002 'sequence' stands in the machine's own kernel file alone; did you mean 'sequences'?"),
        ("strips", "kernels:\n", "kernels: 3\nkernel:\n", "E1002 'kernel' stands in the machine's own kernel file alone"),
    ],
)
def test_faults_in_another_file_are_told_there(file: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    shutil.copytree(PATH.parents[1] / "dpuv3", tmp_path / "dpuv3")
    path = tmp_path / "dpuv3" / f"{file}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    main = tmp_path / "dpuv3" / "kernels.yaml"
    with pytest.raises(UserError) as caught:
        read_kernels(load_machine("dpuv3"), Source(str(main), main.read_text()), main.parent)
    told = re.sub(r"(\.yaml:\d+):\d+:", r"\1:", str(caught.value))
    assert message.format(line=text[: text.index(old)].count("\n") + 1) in told


def test_a_file_that_holds_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("- 1\n")
    with pytest.raises(UserError, match="E1002 a file of kernels holds shapes, sequences, common, kernels"):
        read_kernels(MACHINE, Source("kernels.yaml", "files: [more.yaml]\n"), tmp_path)


def test_a_machine_given_by_path_has_its_own_kernels(tmp_path: Path) -> None:
    """Those beside its file, not those of a machine of the same name on the search path."""
    for name in ("vta.yaml", "vta"):
        source = PATH.parents[1] / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    assert {kernel.folder for kernel in load_kernels(load_machine(str(tmp_path / "vta.yaml"))).values()} == {tmp_path / "vta"}
    assert {kernel.folder.resolve() for kernel in load_kernels(load_machine("vta")).values()} == {PATH.parent}


def _renamed(text: str, layout: str, old: str, new: str) -> str:
    """A machine's file with an index of a layout named otherwise."""
    head, mark, rest = text.partition(f"\n  {layout}:\n")
    domain, _, rest = rest.partition("\n    shape:")
    assert mark
    renamed = re.sub(rf"\b{old}\b", new, domain)
    return f"{head}{mark}{renamed}\n    shape:{rest}"


@pytest.mark.parametrize(
    ("layout", "old", "new", "message"),
    [
        (
            "activations",
            "h",
            "y",
            "E1002 layout 'activations' has the indices n c y w; those of a tensor that operations",
        ),
        ("weights", "h", "kh", "E1002 'kh' is an index of layout 'weights' and another name of this kernel"),
        ("weights", "o", "weight", "E1002 'weight' is an index of layout 'weights' and another name of this kernel"),
    ],
)
def test_an_index_of_a_layout_means_one_thing(tmp_path: Path, layout: str, old: str, new: str, message: str) -> None:
    (tmp_path / "vta.yaml").write_text(_renamed(Path(MACHINE.path).read_text(), layout, old, new))
    with pytest.raises(UserError) as caught:
        load_kernels(load_file(tmp_path / "vta.yaml"))
    assert message in str(caught.value)


def test_kernels_are_read_once_for_each_state_of_their_files(tmp_path: Path) -> None:
    shutil.copytree(PATH.parent, tmp_path / "vta")
    shutil.copy(PATH.parents[1] / "vta.yaml", tmp_path)
    machine = load_file(tmp_path / "vta.yaml")
    first = load_kernels(machine)["conv2d"]
    assert load_kernels(machine)["conv2d"] is first
    assert load_kernels(replace(machine, host=None, without=("add",)))["conv2d"] is first
    assert load_kernels(replace(machine, timing=replace(machine.timing, clock_khz=1)))["conv2d"] is not first
    path = tmp_path / "vta" / "kernels.yaml"
    path.write_text(path.read_text())
    assert load_kernels(machine)["conv2d"] is first
    path.write_text(path.read_text().replace("kernels:\n", "kernels:\n  # a word\n", 1))
    assert load_kernels(machine)["conv2d"] is not first
    path.write_text("kernels: 3\n")
    with pytest.raises(UserError):
        load_kernels(machine)
