"""A bundle of C regions as a program of its own: the same bytes, with sanitizers that find nothing; other bundles are refused with the reason."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bench.in_process import Target
from tests import float_networks, steps_network
from tests.c_networks import clib, compiled, pictures, plain
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.special_values import special_values, stored_value
from toolchain.cli import main
from toolchain.graph.integers.functions import kind_of
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.stand_alone import stand_alone
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SLOW = bool(os.environ.get("TILEWRIGHT_SLOW"))
DEVICE = [sys.executable, "-m", "toolchain", "device"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_compiler
def test_the_program_gives_the_same_bytes_and_sanitizers_find_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "kinds.bundle", compiled().bundle)
    assert main(["export", "c", str(tmp_path / "kinds.bundle"), "-o", str(tmp_path / "c")]) == 0
    assert "6 files; cc -std=c99 -O3 program.c clib.c region0.c tilewright_bundle.c -lm -o model" in capsys.readouterr().out
    model = _built(tmp_path / "c")
    samples = pictures(3)
    done = subprocess.run([model, tmp_path / "kinds.bundle"], input=samples.tobytes(), capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (b"", compiled().executor.run({"x": samples[:, 0]}).outputs["y"].tobytes())
    assert _failed(model, tmp_path / "kinds.bundle") == (1, "the inputs end too early")
    assert _failed(model)[0] == 2


@pytest.mark.drawn(1)
@needs_compiler
@pytest.mark.parametrize("target", ["clib", "vta", pytest.param("dpuv3", marks=pytest.mark.nightly)])
def test_special_values_are_those_of_the_table(target: str, tmp_path: Path) -> None:
    """A pool over pairs of equal numbers gives back what the border made of them: in C, in Python, and on several samples at once. NaN is refused."""
    count = special_values(1.0).size - 2
    pool = helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[1, 2], strides=[1, 2])
    proto = model([pool], {"x": [1, 1, 1, 2 * count]}, {"y": [1, 1, 1, count]})
    built = compile_network(proto, "pairs", Target(target), np.linspace(-32, 31, 2 * count, dtype=np.float32).reshape(1, 1, 1, 1, -1))
    (given,) = ({name: found.value for name, found in call.attributes.items()} for call in built.partitioned.graph if kind_of(call) == "quantize")
    numerics, scale, zero = built.executor.machine.quantisation or Numerics(), given["scale"], given.get("zero_y", 0)
    no_number, values = np.split(special_values(scale), [2])
    steps = [stored_value(float(value), scale, (given["low"], given["high"], zero), numerics.rounding) - zero for value in values]
    wanted = (np.array(steps, np.float32) * np.float32(scale)).tolist()
    x = np.repeat(values, 2).reshape(1, 1, 1, -1)
    assert built.regions == 1
    assert built.executor.run({"x": x}).outputs["y"].ravel().tolist() == wanted
    assert built.executor.run({"x": np.concatenate([x, x])}).outputs["y"].ravel().tolist() == wanted * 2
    write_bundle(tmp_path / "pairs.bundle", built.bundle)
    assert main(["export", "c", str(tmp_path / "pairs.bundle"), "-o", str(tmp_path / "c")]) == 0
    done = subprocess.run([_built(tmp_path / "c"), tmp_path / "pairs.bundle", *DEVICE], input=x.tobytes(), capture_output=True, check=True)
    assert np.frombuffer(done.stdout, np.float32).tolist() == wanted
    for each in no_number:
        x[0, 0, 0, 5] = each
        with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[1, 0, 0, 5\]"):
            built.executor.run({"x": np.concatenate([np.zeros_like(x), x])})
        program, given = [tmp_path / "c/model", tmp_path / "pairs.bundle", *DEVICE], np.zeros_like(x).tobytes() + x.tobytes()
        refused = subprocess.run(program, input=given, capture_output=True, check=False)
        told = b"the input 'x' of sample 1 holds NaN at element 5, and becomes integers, which have no such number\n"
        assert (refused.returncode, refused.stderr, len(refused.stdout)) == (1, told, 4 * count)


@pytest.mark.drawn(1)
@needs_compiler
@pytest.mark.parametrize(
    ("target", "wide"), [("vta", False), pytest.param("dpuv3", False, marks=pytest.mark.nightly), ("dpuv3", True), ("dnnvm", False)]
)
def test_a_device_in_another_process_gives_the_same_bytes(target: str, wide: bool, tmp_path: Path) -> None:
    """dpuv3's first layer with a wide kernel has its picture rearranged by the host."""
    write_bundle(tmp_path / "plain.bundle", plain(target, wide).bundle)
    assert main(["export", "c", str(tmp_path / "plain.bundle"), "-o", str(tmp_path / "c")]) == 0
    model, samples = _built(tmp_path / "c"), pictures(2)
    done = subprocess.run([model, tmp_path / "plain.bundle", *DEVICE], input=samples.tobytes(), capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (b"", plain(target, wide).executor.run({"x": samples[:, 0]}).outputs["y"].tobytes())


@pytest.mark.drawn(1)
@needs_compiler
@pytest.mark.parametrize("target", ["clib", "vta"])
def test_samples_are_steps_of_a_model_with_states(target: str, tmp_path: Path) -> None:
    """The state begins as the bundle says, and goes round in floating point; the runtime in Python keeps its integers."""
    network, path = steps_network.built(target, steps_network.ALONE), tmp_path / "steps.bundle"
    write_bundle(path, network.bundle)
    assert main(["export", "c", str(path), "-o", str(tmp_path / "c")]) == 0
    steps = network.oracle()
    assert len(steps) == 5
    given, wanted = (b"".join(each[side][name].tobytes() for each in steps) for side, name in ((0, "x"), (1, "y")))
    done = subprocess.run([_built(tmp_path / "c"), path, *DEVICE], input=given, capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (b"", wanted)


def test_halves_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    built = compile_network(
        model([helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2])], {"x": [1, 4, 4, 4]}, {"y": [1, 4, 3, 3]}),
        "halves", Target("stcp920:f16"), np.ones((1, 1, 4, 4, 4), np.float32),
    )  # fmt: skip
    write_bundle(tmp_path / "halves.bundle", built.bundle)
    for form in ("c", "elf", "provider"):
        assert main(["export", form, str(tmp_path / "halves.bundle"), "-o", str(tmp_path / form)]) == 1
        assert "E1114 region 'region0' on stcp920 has tensors of float16" in capsys.readouterr().err


def test_a_state_of_whole_numbers_is_refused() -> None:
    network = steps_network.built("vta")
    with pytest.raises(UserError, match="E1114 'count' is no float32 tensor of a known size"):
        stand_alone(network.bundle, network.executor().machines)


@needs_compiler
def test_programs_say_what_is_wrong_with_bundles_and_devices(tmp_path: Path) -> None:
    bundle, other = tmp_path / "plain.bundle", tmp_path / "other.bundle"
    write_bundle(bundle, plain("vta").bundle)
    write_bundle(other, compiled().bundle)
    assert main(["export", "c", str(bundle), "-o", str(tmp_path / "c")]) == 0
    model = _built(tmp_path / "c")
    (tmp_path / "short").write_bytes(bundle.read_bytes()[:-9])
    assert _failed(model, tmp_path / "none", *DEVICE) == (1, f"{tmp_path}/none: cannot be opened")
    assert _failed(model, tmp_path / "short", *DEVICE) == (1, f"{tmp_path}/short: no bundle")
    assert _failed(model, other, *DEVICE) == (1, f"{other}: not the bundle that this program was made of")
    assert _failed(model, bundle) == (1, "device vta: the program was given no command that starts it")
    assert _failed(model, bundle, "/nowhere") == (1, "device vta: no process: No such file or directory")
    assert _failed(model, bundle, sys.executable, "-c", "input(); print('failed E0601 it stands')") == (1, "device vta: failed E0601 it stands")


@needs_compiler
def test_a_damaged_bundle_is_refused_or_gives_the_same_bytes(tmp_path: Path) -> None:
    """Bits, lengths and the directory, at places drawn from a seed; sanitizers find nothing. Where a part is damaged that the program does not read,
    the result is that of the whole file. SLOW draws 2,100."""
    whole, path = tmp_path / "kinds.bundle", tmp_path / "damaged"
    write_bundle(whole, compiled().bundle)
    assert main(["export", "c", str(whole), "-o", str(tmp_path / "c")]) == 0
    model, given, seen = _built(tmp_path / "c"), pictures(1).tobytes(), Counter[str]()
    wanted = subprocess.run([model, whole], input=given, capture_output=True, check=True).stdout
    for seed in range(2100 if SLOW else 60):
        path.write_bytes(damaged(whole.read_bytes(), seed))
        done = subprocess.run([model, path], input=given, capture_output=True, check=False)
        seen["refused" if done.returncode == 1 else "same"] += 1
        assert done.returncode == 1 or (done.returncode, done.stdout) == (0, wanted), seed
        assert not done.returncode or done.stderr.startswith(f"{path}: ".encode()), (seed, done.stderr)
    print(f"{seen['refused']} of {seen.total()} damaged bundles refused, {seen['same']} gave the same bytes")
    assert seen["refused"] > 10


def damaged(data: bytes, seed: int) -> bytes:
    """A bundle with a bit turned over, a byte, a word or a count of its directory replaced, or its end missing."""
    draw, found = random.Random(seed), bytearray(data)
    end = found.rfind(b"PK\5\6")
    first = int.from_bytes(found[end + 16 : end + 20], "little")
    match seed % 5:
        case 0:
            found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
        case 1:
            found[draw.randrange(first, len(found))] = draw.choice([0, 0x7F, 0x80, 0xFF])
        case 2:
            del found[draw.randrange(len(found)) :]
        case 3:
            at, word = draw.randrange(first, len(found) - 4), draw.choice([0, 1, len(found) - 1, len(found), 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
            found[at : at + 4] = word.to_bytes(4, "little")
        case _:
            at = end + draw.randrange(4, 20)
            found[at : at + 2] = draw.choice([0, 1, 0x7FFF, 0xFFFF]).to_bytes(2, "little")
    return bytes(found)


@needs_compiler
def test_every_bit_of_a_constant_counts(tmp_path: Path) -> None:
    bundle, path = compiled().bundle, tmp_path / "kinds.bundle"
    write_bundle(path, bundle)
    assert main(["export", "c", str(path), "-o", str(tmp_path / "c")]) == 0
    model = _built(tmp_path / "c")
    name = next(name for region in bundle.manifest.regions for name in region.constants.values())
    data = bytearray(path.read_bytes())
    data[data.find(bundle.members[name]) + len(bundle.members[name]) - 1] ^= 1
    path.write_bytes(data)
    assert _failed(model, path) == (1, f"{path}: damaged: {name}")


@needs_compiler
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("import time; time.sleep(60)", "the process does not answer in time"),
        ("import os, time; os.close(1); time.sleep(60)", "the process has ended without an answer"),
        (
            "import os; os.truncate(os.open(input().split()[1], os.O_RDWR), 0); print('done', flush=True); input()",
            "the process has ended without an answer",
        ),
    ],
)
def test_devices_end_no_host_and_keep_none_waiting(device: str, message: str, tmp_path: Path) -> None:
    """Neither one that is silent, nor one that closes its output and lives on, nor one that cuts off the memory that both map."""
    write_bundle(tmp_path / "plain.bundle", plain("vta").bundle)
    assert main(["export", "c", str(tmp_path / "plain.bundle"), "-o", str(tmp_path / "c")]) == 0
    model = _built(tmp_path / "c", "-DTILEWRIGHT_SECONDS=1")
    code, text = _failed(model, tmp_path / "plain.bundle", sys.executable, "-c", device)
    assert (code, text.splitlines()[-1]) == (1, f"device vta: {message}")


PROGRAMS: dict[tuple[object, ...], Path] = {}
"""By what they are compiled of: several tests run the same one."""


def _built(folder: Path, *options: str) -> Path:
    """The program of these files, with warnings as errors and sanitizers."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))
    key = (options, *((path.name, path.read_bytes()) for path in files))
    if key not in PROGRAMS:
        sources = [str(path) for path in files if path.suffix == ".c"]
        subprocess.run(["cc", *STRICT, *options, *SANITIZED, *sources, "-lm", "-o", str(folder / "model")], check=True)
        PROGRAMS[key] = folder / "model"
    return PROGRAMS[key]


def _failed(model: Path, *words: object) -> tuple[int, str]:
    done = subprocess.run([model, *map(str, words)], input=b"1234", capture_output=True, check=False, text=False)
    return done.returncode, done.stderr.decode().strip()


def test_an_operator_of_the_host_is_named() -> None:
    with pytest.raises(UserError, match=r"E1114 node 'softmax' \(Softmax\) is computed by the host"):
        stand_alone(compiled(softmax=True).bundle, {"clib": clib().machine})


@needs_compiler
def test_an_output_may_be_an_input_and_no_constant(tmp_path: Path) -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[1, 2], strides=[1, 2])
    given, constant = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 1, 1, 8), {"k": np.zeros(2, np.float32)}
    proto = model([pool], {"x": [1, 1, 1, 8]}, {"y": [1, 1, 1, 4], "x": [1, 1, 1, 8]})
    built = compile_network(proto, "through", Target("clib"), given[None])
    write_bundle(tmp_path / "through.bundle", built.bundle)
    assert main(["export", "c", str(tmp_path / "through.bundle"), "-o", str(tmp_path / "c")]) == 0
    done = subprocess.run([_built(tmp_path / "c"), tmp_path / "through.bundle"], input=given.tobytes(), capture_output=True, check=True)
    assert done.stdout == b"".join(array.tobytes() for array in built.executor.run({"x": given}).outputs.values())
    fixed = compile_network(model([pool], {"x": [1, 1, 1, 8]}, {"y": None, "k": [2]}, constant), "fixed", Target("clib"), given[None])
    with pytest.raises(UserError, match="E1114 the output 'k' is a constant"):
        stand_alone(fixed.bundle, {"clib": clib().machine})


def test_a_region_of_several_images_is_named() -> None:
    bundle = plain("vta").bundle
    (region,) = bundle.manifest.regions
    (port,) = region.outputs
    several = replace(region, outputs=(replace(port, shape=(2, *port.shape[1:])),))
    odd = replace(bundle, manifest=replace(bundle.manifest, regions=(several,)))
    with pytest.raises(UserError, match="E1114 region 'region0' takes 2 images of a sample"):
        stand_alone(odd, plain("vta").executor.machines)


def test_an_input_of_another_type_is_named() -> None:
    bundle = compiled().bundle
    (entry,) = bundle.manifest.inputs
    odd = replace(bundle, manifest=replace(bundle.manifest, inputs=(replace(entry, dtype="int64"),)))
    with pytest.raises(UserError, match="E1114 'x' is no float32 tensor of a known size"):
        stand_alone(odd, {"clib": clib().machine})


@needs_compiler
def test_a_network_in_floating_point_gives_the_same_bytes(tmp_path: Path) -> None:
    write_bundle(tmp_path / "floats.bundle", float_networks.built().bundle)
    assert main(["export", "c", str(tmp_path / "floats.bundle"), "-o", str(tmp_path / "c")]) == 0
    model, samples = _built(tmp_path / "c"), float_networks.samples(2)
    done = subprocess.run([model, tmp_path / "floats.bundle"], input=samples.tobytes(), capture_output=True, check=True)
    runs = [float_networks.built().executor.run({"x": sample}).outputs for sample in samples]
    assert (done.stderr, done.stdout) == (b"", b"".join(run["y"].tobytes() + run["y2"].tobytes() for run in runs))
