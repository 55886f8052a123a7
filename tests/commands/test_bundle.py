"""`tilewright bundle`: a file alone says what it is, and runs.

Bundles of several lengths on the command line.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.c_networks import compiled, pictures
from tests.lengths_network import built as of_lengths
from tests.lengths_network import samples
from tests.runtime import small
from tests.steps_network import built
from toolchain import __version__, cli
from toolchain.cli import USAGE, main
from toolchain.commands.bundle import picked
from toolchain.isa.program_file import load_program
from toolchain.runtime.bundle import MANIFEST, digest, manifest_text, read_bundle, write_archive, write_bundle
from toolchain.runtime.executor import load
from toolchain.spec.load import find_target, load_machine
from toolchain.tasks.actions.paths import bundle_file


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder of its own, which has nothing else."""
    monkeypatch.chdir(tmp_path)
    write_bundle(Path("small.bundle"), small.bundle())
    return Path("small.bundle")


def test_what_it_is(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "show", str(bundle)]) == 0
    lines = capsys.readouterr().out.splitlines()
    held = read_bundle(bundle)
    assert lines[0] == "small on vta"
    facts = [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines[2:]]
    assert lines[1].split() == ["made", "by", "tilewright", __version__]
    assert ("for", f"vta, architecture {held.manifest.targets[0].fingerprint}") in facts
    assert ("takes", "x float32 [1, 3, 8, 8]") in facts
    assert [name for name, _ in facts].count("step") == len(held.manifest.plan)
    assert not any("manifest" in line for line in lines)
    assert main(["bundle", "show", str(bundle), "--hashes"]) == 0
    hashed = capsys.readouterr().out.splitlines()
    assert hashed[: len(lines)] == lines
    expected = {"manifest.json": manifest_text(held).encode(), **held.members}
    assert hashed[len(lines)] == f"  {'-' * 64}  the model's ONNX file"
    assert [line.split() for line in hashed[len(lines) + 1 :]] == [[digest(data), name] for name, data in expected.items()]
    modelled = load(bundle).modelled()
    assert any(name == "time" and text.startswith(f"{modelled.total_ms:.3f} ms for 1 sample") for name, text in facts)


def test_it_runs_the_samples_of_a_file(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("in.npz", x=small.images(3)[:, None])
    assert main(["bundle", "run", str(bundle), "in.npz", "-o", "out.npz"]) == 0
    assert "3 samples in " in capsys.readouterr().out
    expected = load(bundle).run({"x": small.images(3)}).outputs
    with np.load("out.npz") as found:
        assert {name: found[name].tobytes() for name in found.files} == {name: array.tobytes() for name, array in expected.items()}


def test_results_are_compared_with_those_that_a_file_expects(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network's own results are all as expected, those of other samples are not."""
    np.savez("in.npz", x=small.images(3)[:, None])
    assert main(["bundle", "run", str(bundle), "in.npz", "-o", "out.npz"]) == 0
    capsys.readouterr()
    assert main(["bundle", "run", str(bundle), "in.npz", "--expected", "out.npz"]) == 0
    told = capsys.readouterr().out.splitlines()[-len(read_bundle(bundle).manifest.outputs) :]
    assert all(re.fullmatch(r"\S+: all \d+ elements as expected", line) for line in told), told
    assert main(["bundle", "run", str(bundle), "in.npz", "--expected", "in.npz"]) == 1
    assert "E0808 the file has neither" in capsys.readouterr().err


def test_the_assembly_is_the_programs(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "disasm", str(bundle), "--region", "region1", "-o", "region1.asm"]) == 0
    compiled_region = small.network()[2]["region1"]
    assert load_program(load_machine("vta"), Path("region1.asm")).streams == compiled_region.program.streams
    assert main(["bundle", "disasm", str(bundle)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("FINISH")


def test_operations_of_its_programs(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "show", str(bundle), "--operations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first, second = (number for number, line in enumerate(lines) if line.startswith("region "))
    table, rooms = ([line.split() for line in part] for part in (lines[first + 1 : second - 1], lines[second + 1 :]))
    regions = {name: region.program for name, region in small.network()[2].items()}
    assert [(row[0], row[1]) for row in table] == [("region0", "conv1"), ("region0", "conv2"), ("region1", "conv3")]
    assert sum(int(row[3]) for row in table if row[0] == "region1") <= len(regions["region1"])
    assert max(float(row[5].replace(",", "")) for row in table if row[0] == "region1") <= read_bundle(bundle).manifest.regions[1].cycles
    memories = [memory.name for memory in load_machine("vta").memories if memory.kind != "register"]
    assert [(row[0], row[1]) for row in rooms] == [(region, name) for region in ("region0", "region1") for name in memories]


def test_a_machine_that_is_not_here_is_named(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = small.bundle()
    (own,) = held.manifest.targets
    renamed = tuple(replace(region, target="own") for region in held.manifest.regions)
    write_bundle(bundle, replace(held, manifest=replace(held.manifest, targets=(replace(own, name="own"),), regions=renamed)))
    told = "the bundle was made for own, which is not among the machines here; put own.yaml"
    assert main(["bundle", "show", str(bundle)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "small on own"
    assert f"  takes      {held.manifest.inputs[0].name} float32 [1, 3, 8, 8]" in lines
    assert lines[-1].startswith(f"  time       not known: {told}")
    for words in (["show", "--operations"], ["disasm"]):
        assert main(["bundle", *words, str(bundle)]) == 1
        assert f"small.bundle: E0001 {told}" in capsys.readouterr().err
    assert main(["info", str(bundle)]) == 2
    assert "a bundle from elsewhere: tilewright bundle show small.bundle" in capsys.readouterr().err


def test_a_machine_may_be_given_by_its_file(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = find_target("vta")
    assert main(["bundle", "show", str(bundle), "--machine", str(path)]) == 0
    assert capsys.readouterr().out.startswith("small on vta")
    assert main(["bundle", "show", str(bundle), "--machine", "dpuv3"]) == 1
    assert "E1105 the bundle was made for vta, this is dpuv3" in capsys.readouterr().err


@pytest.fixture
def described(studio_page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A bundle for the tutorial's machine that describes it, in a folder of its own, where there is no such machine."""
    monkeypatch.chdir(studio_page.parents[3])
    plain = studio_page.parent / "bundle" / "digits.bundle"
    assert main(["export", "bundle", str(plain), "-o", str(tmp_path / "digits.bundle")]) == 0
    text = Path("targets", "toy.yaml").read_bytes()
    assert f"digits.bundle: with {len(text)} bytes that describe toy; it needs no other file" in capsys.readouterr().out
    assert read_bundle(tmp_path / "digits.bundle").members == {**read_bundle(plain).members, "machine0.yaml": text}
    monkeypatch.chdir(tmp_path)
    return Path("digits.bundle")


def test_a_bundle_that_describes_its_machine_needs_no_other_file(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "show", str(described), "--operations"]) == 0
    shown = capsys.readouterr().out
    assert "described toy by the bundle itself" in " ".join(shown.split())
    assert "compute" in shown
    np.savez("in.npz", image=np.zeros((2, 1, 1, 8, 8), np.float32))
    assert main(["bundle", "run", str(described), "in.npz"]) == 0
    assert "2 samples in 2 runs" in capsys.readouterr().out
    assert main(["bundle", "disasm", str(described)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("END")


def test_another_form_of_the_machine_here_is_told_and_the_description_may_be_asked_for(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = read_bundle(described).members["machine0.yaml"].decode()
    Path("targets").mkdir()
    Path("targets", "toy.yaml").write_text(text.replace("depth: 1 << 24", "depth: 1 << 23", 1))
    assert main(["bundle", "show", str(described)]) == 1
    error = capsys.readouterr().err
    assert "E1105 the bundle was made for another form of toy" in error
    assert error.endswith("--machine bundle takes the description that it brings\n")
    assert main(["bundle", "show", str(described), "--machine", "bundle"]) == 0
    Path("targets", "toy.yaml").write_text(text)
    capsys.readouterr()
    assert main(["bundle", "show", str(described)]) == 0
    assert "described" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("depth: 1 << 24", "depth: 1 << 23", "digits.bundle: E1105 the bundle was made for another form of toy"),
        ("depth: 1 << 24", "depth: &a [*a]", "digits.bundle/toy.yaml:"),
        ("memories:", "memoris:", "E0108 unknown key 'memoris'"),
        ("target:", "target: &a [&b [*a, *a]]\nb:", "digits.bundle/toy.yaml:"),
        ("name: toy", "name: ../toy", "digits.bundle/toy.yaml:"),
    ],
)
def test_a_description_is_input_like_any_other(old: str, new: str, error: str, described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = read_bundle(described)
    text = held.members["machine0.yaml"].decode()
    assert old in text
    write_bundle(described, replace(held, members={**held.members, "machine0.yaml": text.replace(old, new, 1).encode()}))
    assert main(["bundle", "show", str(described)]) == 1
    told = capsys.readouterr().err
    assert error in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("machine0.yaml", b"\xff", "E1104 the description of toy is not UTF-8 text at byte 0x0"),
        ("machine1.yaml", b"", "E1104 manifest.json: 'machine1.yaml' describes none of its machines"),
    ],
)
def test_members_that_describe_nothing(name: str, data: bytes, error: str, described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = read_bundle(described)
    write_archive(described, {MANIFEST: manifest_text(whole := replace(held, members={**held.members, name: data})).encode(), **whole.members})
    assert main(["bundle", "show", str(described)]) == 1
    assert error in capsys.readouterr().err


def test_a_bundle_without_a_description_says_so(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "show", str(bundle), "--machine", "bundle"]) == 1
    assert "E0001 the bundle brings no description of vta; tilewright export bundle writes one that does" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["show", "none.bundle"], "none.bundle: E0001 cannot read the bundle"),
        (["run", "small.bundle", "none.npz"], "E0001"),
        (["run", "small.bundle", "small.bundle"], "E0808 there is no array 'x'"),
        (["disasm", "small.bundle", "--region", "region2"], "E0003 the bundle has no program 'region2'; known: region0, region1"),
        (["run", "kinds.bundle", "kinds.npz"], "E1113 region 'region0' is C code"),
        (["disasm", "kinds.bundle"], "E0003 the bundle has no program ''; known: none"),
    ],
)
def test_mistakes_are_one_line(words: list[str], error: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(bundle.with_name("kinds.bundle"), compiled().bundle)
    np.savez("kinds.npz", x=pictures(1))
    assert main(["bundle", *words]) == 1
    assert error in capsys.readouterr().err


def test_c_of_a_trusted_bundle_runs(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(bundle.with_name("kinds.bundle"), compiled().bundle)
    np.savez("kinds.npz", x=pictures(2))
    assert main(["bundle", "run", "kinds.bundle", "kinds.npz", "--native"]) == 0
    assert "y: float32 [2, 5]" in capsys.readouterr().out


def test_samples_of_a_model_with_states_are_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_bundle(Path("steps.bundle"), built("vta").bundle)
    np.savez("in.npz", x=built("vta").sequences.given["x"][0])
    assert main(["bundle", "run", "steps.bundle", "in.npz", "-o", "out.npz"]) == 0
    assert "5 steps in 5 runs" in capsys.readouterr().out
    with np.load("out.npz") as found:
        assert found.files == ["y"]
        assert np.array_equal(found["y"], np.concatenate([outputs["y"] for _, outputs in built("vta").oracle()]))
    assert main(["bundle", "show", "steps.bundle"]) == 0
    told = capsys.readouterr().out
    assert "1 of 2 stay on the device, 32 B, 1 is on the host, 8 B; a step moves 0 B of them between host and device" in told
    assert re.search(r"  a step     \d+\.\d{3} ms by the machine's costs, with states where they are", told)


def test_a_program_in_c_keeps_no_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_bundle(Path("steps.bundle"), built("vta").bundle)
    for words in (["c", "steps.bundle", "-o", "folder"], ["elf", "steps.bundle", "-o", "program"]):
        assert main(["export", *words]) == 1
        assert "steps.bundle: E1114 'count' is no float32 tensor of a known size" in capsys.readouterr().err
    assert not Path("folder").exists()
    assert not Path("program").exists()


def test_show_tells_every_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle", "show", str(of_lengths().file)]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "encoder on dpuv3, 2 lengths"
    assert "takes      ids int64 [1, sequence]" in lines
    assert "gives      words float32 [1, sequence, 16]" in lines
    assert sum(line.startswith("length     sequence ") for line in lines) == 2
    assert "between    filled up with zeros to the next length" in lines
    assert cli.main(["bundle", "show", "--hashes", str(of_lengths().file)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(lines) + len(of_lengths().bundle.members) + 1


def test_samples_of_any_length_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    assert cli.main(["bundle", "run", str(of_lengths().file), str(samples(tmp_path / "s.npz", 2, 11)), "-o", str(out)]) == 0
    assert "words: float32 [2, 11, 16]" in capsys.readouterr().out
    with np.load(out) as arrays:
        assert arrays["words"].shape == (2, 11, 16)


def test_one_length_is_taken_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "one.bundle"
    assert cli.main(["bundle", "pick", str(of_lengths().file), "sequence:8", "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: sequence 8, ")
    assert read_bundle(out).manifest.inputs[0].shape == (1, 8)
    assert cli.main(["bundle", "run", str(out), str(samples(tmp_path / "s.npz", 2, 8))]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["show", "--operations", "BUNDLE"],
            "E1130 --operations is of one length, and this bundle has several; take one out: tilewright bundle pick ",
        ),
        (["disasm", "BUNDLE"], "E1130 this bundle has several lengths, and one is needed; take one out: tilewright bundle pick "),
        (["pick", "BUNDLE", "sequence:9", "-o", "x"], "E1131 the bundle has no length sequence 9; it has sequence 8; sequence 16"),
        (["pick", "BUNDLE", "9", "-o", "x"], "E1202 '9' in 'dim' does not have the form NAME:VALUE"),
        (["run", "BUNDLE", "SAMPLES"], "E1131 no length of the bundle holds sequence 17"),
    ],
)
def test_mistakes(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"BUNDLE": str(of_lengths().file), "SAMPLES": str(samples(tmp_path / "s.npz", 1, 17))}
    assert cli.main(["bundle", *(named.get(word, word) for word in words)]) == (2 if message.startswith(USAGE) else 1)
    assert message in capsys.readouterr().err


def test_a_length_that_is_taken_out_has_what_was_built_for_it(tmp_path: Path) -> None:
    for bucket, job in zip(of_lengths().bundle.lengths.buckets, of_lengths().plan.jobs, strict=True):
        path = tmp_path / "one.bundle"
        write_bundle(path, picked(of_lengths().bundle, bucket, ""))
        found, wanted = read_bundle(path), read_bundle(bundle_file(job))
        assert sorted(found.members.values()) == sorted(wanted.members.values())
        assert found.manifest.inputs == wanted.manifest.inputs
