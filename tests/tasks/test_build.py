"""Whole builds: what runs again after a change, and what a user sees when something is wrong."""

import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.tasks.builds import COMMAND, ROOT, WORDS, artefacts, build, build_here, environment, stages_run
from toolchain import cli
from toolchain.cli import USAGE
from toolchain.tasks.doit_tasks import Reporter

EVERY = ["onnx", "calibration", "graph", "accuracy", "schedule", "bundle", "summary"]
MACHINE = (ROOT / "targets" / "vta.yaml").read_text()
KERNELS, END = "targets/vta/kernels.yaml", "targets/vta/finish.asm.j2"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its own machine, model and template of a program's end, built once; tests work on copies."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(ROOT / "targets" / "vta", folder / "targets" / "vta")
    kernels = folder / KERNELS
    kernels.write_text(kernels.read_text().replace("    residency:", "    end: finish.asm.j2\n    residency:", 1))
    (folder / END).write_text("FINISH\n")
    shutil.copy(ROOT / "targets" / "vta.yaml", folder / "targets")
    shutil.copytree(ROOT / "models" / "digits", folder / "models" / "digits")
    shutil.copy(ROOT / "models" / "digits.yaml", folder / "models")
    answer, told = build_here(folder)
    assert answer == 0, told
    assert stages_run(told) == EVERY
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def _again(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main(words or WORDS) == 0
    return stages_run(capfd.readouterr().err)


def test_nothing_to_do(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = artefacts(folder)
    assert _again(capfd) == []
    assert artefacts(folder) == before


def test_a_comment_is_no_change(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (folder / "targets" / "vta.yaml").open("a") as file:
        file.write("\n# a word\n")
    assert _again(capfd) == []


REST = ["graph", "accuracy", "schedule", "bundle", "summary"]
CHANGES = [
    ("a timing number", "targets/vta.yaml", "GEMM_LATENCY: {value: 4", "GEMM_LATENCY: {value: 5", REST[2:]),
    ("the clock", "targets/vta.yaml", "clock_khz: {value: CLOCK_KHZ", "clock_khz: {value: CLOCK_KHZ + 1", REST),
    ("what may be offloaded", "targets/vta.yaml", "  activation: [-128, 127]", "  activation: [-127, 127]", REST),
    ("a reason of offloading", "targets/vta.yaml", "message: this configuration has", "message: this one has", REST),
    ("a host cost", "targets/vta.yaml", "launch_us: {value: 50", "launch_us: {value: 51", REST),
    ("a source of a number", "targets/vta.yaml", "control registers by", "again control registers by", ["summary"]),
    ("a kernel", KERNELS, "common:", "# a word\ncommon:", REST),
    ("a template", END, "", "{# a word #}", REST),
    ("a word in the model's file", "models/digits.yaml", "summary: ", "summary: again ", ["onnx", "calibration", "graph", "accuracy", "summary"]),
]


NIGHTLY = ("a reason of offloading", "a template")
"""What the graph depends on as on what may be offloaded, and on kernels."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("old", "new", "path", "wanted"),
    [pytest.param(o, n, p, w, id=name, marks=pytest.mark.nightly if name in NIGHTLY else ()) for name, p, o, n, w in CHANGES],
)
def test_only_what_a_change_touches_runs_again(
    old: str, new: str, path: str, wanted: list[str], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A word of the model's file changes no more than the summary. Of a machine a stage depends on all but notes, the graph on no cycles."""
    text = (folder / path).read_text()
    assert old in text
    (folder / path).write_text(text.replace(old, new, 1) if old else new + text)
    assert _again(capfd) == wanted
    assert _again(capfd) == []


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("stage", "module", "function", "path", "word"),
    [
        ("calibration", "graph", "calibration_table", "models/digits/digits.npz", b""),
        ("onnx", "graph", "build_model", "models/digits/digits.onnx", b""),
        ("graph", "graph", "build_turns", END, b"{# a word #}"),
        ("bundle", "program", "read_schedule_file", "targets/vta/kernels.yaml", b"# a word\n"),
    ],
)
def test_a_file_saved_while_it_is_read_is_never_believed(
    stage: str, module: str, function: str, path: str, word: bytes, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage ends with a line and without a receipt, so the next build runs it."""
    action = import_module(f"toolchain.tasks.actions.{module}")
    real, before = getattr(action, function), (folder / path).read_bytes()

    def saved(*given: Any, **named: Any) -> Any:
        (folder / path).write_bytes(word + before if word else before + b"\x32\x01a")  # a word that ONNX and zip both take
        return real(*given, **named)

    (receipt,) = (folder / "build").glob(f"*/digits/{stage}.receipt.json")
    receipt.unlink()
    monkeypatch.setattr(action, function, saved)
    assert cli.main(WORDS) == 1
    assert _error(capfd.readouterr().err).endswith(f"{path}: E1206 the file changed while it was read; build again")
    monkeypatch.setattr(action, function, real)
    (folder / path).write_bytes(before)
    assert stage in _again(capfd)


def test_an_artefact_that_was_cut_short_is_made_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = artefacts(folder)
    for stage in ("onnx", "graph"):
        (home,) = Path("build").glob(f"*/digits/{stage}")
        victim = max(home.glob("*.onnx"))
        victim.write_bytes(victim.read_bytes()[:100])
        assert _again(capfd) == [stage]
        assert artefacts(folder) == before


def test_what_is_left_over_is_taken_away(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = artefacts(folder)
    (waste := Path("build/vta/digits/graph/weights-0.bin.123.part")).write_text("half")
    Path("build/vta/digits/graph.receipt.json").unlink()
    assert _again(capfd) == ["graph"]
    assert not waste.exists()
    assert artefacts(folder) == before


@pytest.mark.parametrize("name", ["99-junk.onnx", "00-a.onnx", "my.onnx"])
def test_a_file_of_the_users_own_is_no_stage(name: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, stages = artefacts(folder), Path("build/vta/digits/graph")
    shutil.copy(stages / "11-remove_dead.onnx", stages / name)
    Path("build/vta/digits/bundle.receipt.json").unlink()
    assert cli.main(WORDS) == 1
    assert _error(capfd.readouterr().err).startswith(f"build/vta/digits/graph/{name}: E1205 ")
    (stages / name).unlink()
    assert "bundle" in _again(capfd)
    assert artefacts(folder) == before


def test_other_sizes_and_parameters_have_folders_of_their_own(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = artefacts(folder)
    assert _again(capfd, *WORDS, "params=LOG_UOP_BUFF:14")[-len(EVERY) + 2 :] == EVERY[2:]
    assert {name: data for name, data in artefacts(folder).items() if name in before} == before
    assert _again(capfd) == []


def test_two_hash_seeds_make_the_same_bytes(made: Path, tmp_path: Path) -> None:
    for name in ("models", "targets"):
        shutil.copytree(made / name, tmp_path / name)
    assert build(tmp_path, PYTHONHASHSEED="4711").returncode == 0
    other = {name: data for name, data in artefacts(tmp_path).items() if ".machines" not in name}
    assert other == {name: data for name, data in artefacts(made).items() if ".machines" not in name}


def _network(path: Path, change: Callable[[onnx.ModelProto], None]) -> None:
    weight = numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["y"], name="second")]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 8, 8]) for n, c in (("x", 3), ("y", 4)))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    change(model)
    path.write_bytes(model.SerializeToString())


def _nan(model: onnx.ModelProto) -> None:
    weight = np.ones((4, 3, 1, 1), np.float32)
    weight[2, 1] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))


def _mismatch(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((4, 5, 1, 1), np.float32), "w"))


def _cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "y"


def _open(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def _double(model: onnx.ModelProto) -> None:
    """A convolution that ONNX Runtime's processor does not have."""
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float64), "w"))
    first, second = model.graph.node
    first.input[0], second.input[0] = "wide", "narrow"
    casts = [helper.make_node("Cast", [a], [b], to=to) for a, b, to in (("x", "wide", TensorProto.DOUBLE), ("a", "narrow", TensorProto.FLOAT))]
    nodes = [casts[0], first, casts[1], second]
    model.graph.ClearField("node")
    model.graph.node.extend(nodes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_nan, ("E0909", "'w'", "nan")),
        (_mismatch, ("first", "Conv")),
        (_cycle, ("E0903", "first")),
        (_open, ("E0904", "dim=batch:1")),
        (_double, ("E0910", "an implementation for Conv")),
    ],
    ids=["nan", "mismatch", "cycle", "open", "double"],
)
def test_a_wrong_network_is_one_line(
    change: Callable[[onnx.ModelProto], None],
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), change)
    assert cli.main(["build", "target=vta", "model=net.onnx"]) == 1
    line = _error(capfd.readouterr().err)
    assert line.startswith("net.onnx: ")
    assert all(word in line for word in words), line
    assert "tilewright-" not in line, "a temporary file is none that the user knows"


def _error(printed: str) -> str:
    """The one line that is no progress."""
    (line,) = (line for line in printed.splitlines() if not line.endswith((" ...", " s")))
    return line


def test_an_open_size_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), _open)
    assert _again(capfd, "build", "target=vta", "model=net.onnx", "dim=batch:1") == EVERY


@pytest.mark.parametrize(("change", "hint"), [(_open, "did you mean 'batch'?"), (lambda _: None, "every dimension has a number already")])
def test_an_unknown_size_is_told_before_anything_is_made(
    change: Callable[[onnx.ModelProto], None], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), change)
    assert cli.main(["build", "target=vta", "model=net.onnx", "dim=batch:1,bacth:3" if change is _open else "dim=bacth:3"]) == 1
    assert _error(capfd.readouterr().err) == f"net.onnx: E0905 no dimension of the inputs is called 'bacth'; {hint}"
    assert not [*Path("build/models").rglob("*.onnx"), *Path("build/models").rglob("*.json")]


def test_a_model_file_need_not_be_called_as_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), _open)
    Path(".my net.yaml").write_text("model: {name: other, summary: small}\nonnx: net.onnx\ninputs: {x: [1, 3, 8, 8]}\n")
    assert _again(capfd, "build", "target=vta", "model=./.my net.yaml") == EVERY
    assert Path("build/vta/my_net/bundle/my_net.bundle").is_file()


def test_an_input_that_no_memory_holds_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def huge(model: onnx.ModelProto) -> None:
        for axis in (2, 3):
            for tensor in (model.graph.input[0], model.graph.output[0]):
                tensor.type.tensor_type.shape.dim[axis].dim_value = 1 << 26

    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), huge)
    assert cli.main(["build", "target=vta", "model=net.onnx"]) == 1
    assert _error(capfd.readouterr().err) == "net.onnx: E0904 the input 'x' of shape 1x3x67108864x67108864 has more than 67108864 elements"


def test_a_model_that_is_named_twice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    _network(Path("net.onnx"), _open)
    assert cli.main(["build", "target=vta", "model=net.onnx,./net.onnx", "dim=batch:1"]) == 2
    assert _error(capfd.readouterr().err).startswith("E1202 'net.onnx' and './net.onnx' would both be built")


def test_two_models_of_one_name_built_at_once_each_answer_for_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second starts between two stages of the first, which is when it could take the folder over."""
    monkeypatch.chdir(tmp_path)
    alone: dict[str, str] = {}
    for name, size in (("one", 8), ("two", 12)):
        Path(name).mkdir()
        _network(Path(name) / "net.onnx", partial(_sized, size=size))
        assert cli.main(["build", "target=vta", f"model={name}/net.onnx"]) == 0
        alone[name] = capfd.readouterr().out
        shutil.rmtree("build")
    action, started = import_module("toolchain.tasks.actions.graph"), list[subprocess.Popen[str]]()
    real = action.build_turns

    def joined(*given: Any) -> Any:
        command = [*COMMAND, "build", "target=vta", "model=two/net.onnx"]
        started.append(subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return real(*given)

    monkeypatch.setattr(action, "build_turns", joined)
    assert cli.main(["build", "target=vta", "model=one/net.onnx"]) == 0
    assert capfd.readouterr().out == alone["one"] != alone["two"]
    out, _ = started[0].communicate()
    assert (started[0].returncode, out) == (0, alone["two"])


def _sized(model: onnx.ModelProto, size: int) -> None:
    for axis in (2, 3):
        for tensor in (model.graph.input[0], model.graph.output[0]):
            tensor.type.tensor_type.shape.dim[axis].dim_value = size


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("gone", ["build", "build/models", "build/vta/digits/bundle", "build/vta/digits/summary/summary.txt"])
def test_an_answer_about_what_is_gone_is_not_given(gone: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Somebody empties the folder just before the build ends."""
    real = Reporter.complete_run

    def emptied(self: Reporter) -> None:
        shutil.rmtree(gone) if Path(gone).is_dir() else Path(gone).unlink()
        real(self)

    monkeypatch.setattr(Reporter, "complete_run", emptied)
    assert cli.main(WORDS) == 1
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "E1206 what was built is no longer as it was" in _error(printed.err)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_cut_short_is_one_line(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    whole = (ROOT / "models" / "digits" / "digits.onnx").read_bytes()
    Path("net.onnx").write_bytes(whole[: int(len(whole) * share)])
    assert cli.main(["build", "target=vta", "model=net.onnx"]) == 1
    assert "net.onnx: E0807" in _error(capfd.readouterr().err)
    assert not list(Path("build").rglob("*.receipt.json"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("tarrget=vta",), "E1201 unknown variable 'tarrget'; did you mean 'target'?"),
        (("target=vtta",), "E0001 unknown target 'vtta'; did you mean 'vta'?"),
        (("target=vta", "model=digitz"), "E0001 unknown model 'digitz'; did you mean 'digits'?"),
        (("target=vta", "model=no/such.onnx"), "E0001 there is no model file 'no/such.onnx'"),
        (("target=vta", "target=dpuv3"), "E1202 'target' is vta and dpuv3; a variable stands once"),
        (("vta", "digits", "fast"), "E0002 'fast' is neither a variable nor a machine nor a model; MACHINE MODEL NAME=VALUE ..."),
    ],
)
def test_a_wrong_word_is_one_line(
    words: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["build", *words]) == (2 if line.startswith(USAGE) else 1)
    assert capfd.readouterr().err == f"{line}\n"
    assert not list(tmp_path.rglob("*.onnx"))


@pytest.mark.parametrize("limit", [2_000, 87_000])
def test_a_full_disk_is_one_line_and_then_all_is_well(limit: int, tmp_path: Path, made: Path) -> None:
    """No file can grow beyond the limit, which the system says as it says that the disk is full: in the middle of a write."""
    for name in ("models", "targets"):
        shutil.copytree(made / name, tmp_path / name)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        done = build(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 1
    assert ": E0005 " in _error(done.stderr)
    assert not list(tmp_path.rglob("*.part"))
    assert build_here(tmp_path)[0] == 0
    assert artefacts(tmp_path) == artefacts(made)
