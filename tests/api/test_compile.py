"""`toolchain.compile` from Python: what it takes, what it answers, that it is the build of the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import toolchain
from tests.lengths_network import encoder
from tests.tasks.builds import build_here
from toolchain.cli import main
from toolchain.schedule.batch_cut import load_parts, read_parts

WIDE = """\
model: {name: wide, summary: a convolution that two streams do in half the time}
inputs: {x: [1, 32, 32, 32]}
layers:
  - conv: {out: 64, kernel: 3, pad: half}
"""


def model(inputs: dict[str, tuple[int, list[Any]]], nodes: list[onnx.NodeProto], outputs: dict[str, int], name: str = "net") -> onnx.ModelProto:
    """inputs: type and shape by name. outputs: type by name, their shapes left open."""
    given = [helper.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in inputs.items()]
    made = [helper.make_tensor_value_info(key, kind, None) for key, kind in outputs.items()]
    return helper.make_model(helper.make_graph(nodes, name, given, made), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def absolute(batch: Any = 1) -> onnx.ModelProto:
    return model({"x": (TensorProto.FLOAT, [batch, 3])}, [helper.make_node("Abs", ["x"], ["y"])], {"y": TensorProto.FLOAT})


def test_it_is_the_build_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    built = toolchain.compile("digits", "vta", effort=0, folder=tmp_path / "build")
    assert main(["build", "target=vta", "model=digits", "effort=0"]) == 0
    printed = capsys.readouterr()
    assert "bundle digits" not in printed.err  # the command finds the work done
    assert printed.out.splitlines()[0] == built.summary.splitlines()[0]
    assert built.bundle == tmp_path / "build" / "vta" / "digits@effort-0" / "bundle" / "digits.bundle"
    assert built.figures["macs_on_machine"] == built.figures["macs"] > 0
    assert built.calibration == "recorded"


def test_a_second_call_does_nothing_again(tmp_path: Path) -> None:
    said: tuple[list[str], list[str]] = ([], [])
    for heard in said:
        toolchain.compile(absolute(), "vta", folder=tmp_path, say=heard.append)
    assert said[0]
    assert not said[1]


def test_streams_are_a_build_of_their_own_and_no_more_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(toolchain.UserError, match="E1202 streams=2: machine 'vta' runs one stream; at most streams=1"):
        toolchain.compile("digits", "vta", streams=2, folder=tmp_path)
    with pytest.raises(toolchain.UserError, match="E1202 'streams' is a whole number from 1 on, not 0"):
        toolchain.compile("digits", "stcp920", streams=0, folder=tmp_path)
    path, said = tmp_path / "wide.yaml", list[str]()
    path.write_text(WIDE)
    one, two = (toolchain.compile(path, "stcp920", streams=count, folder=tmp_path, say=said.append) for count in (1, 2))
    assert one.bundle.name == two.bundle.name
    assert two.folder.name == f"{one.folder.name}@streams-2"
    assert said.count("bundle wide for stcp920: region 1 of 1: its program") == 2
    assert sum(text.startswith("graph wide for stcp920: pass 1 of ") for text in said) == 1
    assert two.figures["regions"][0]["streams"] == 2


def test_a_batch_cuts_regions_into_sub_graphs(tmp_path: Path) -> None:
    """So small a network stays whole; its three images have a core each. A file of sub-graphs that was damaged is told."""
    for beside in ({"images": 3}, {"streams": 2}, {"schedule": "mine.yaml"}):
        with pytest.raises(toolchain.UserError, match=f"E1202 batch=3 decides what '{next(iter(beside))}' says"):
            toolchain.compile("digits", "dnnvm:zu9", batch=3, folder=tmp_path, **beside)  # type: ignore[arg-type]
    three, one = (toolchain.compile("digits", "dnnvm:zu9", batch=count, effort=0, folder=tmp_path / str(count)) for count in (3, 1))
    assert (one.figures["images"], three.figures["images"]) == (1, 3)
    assert three.verify().data["exact"]
    (file,) = (tmp_path / "3").rglob("subgraphs.json")
    assert read_parts(file.read_text()).keys() == {"region0"}
    file.write_text("{]")
    with pytest.raises(toolchain.UserError, match="E1206"):
        load_parts(file)


def test_images_take_a_stream_each_and_no_more_than_there_are(tmp_path: Path) -> None:
    for given, said in (
        ({"images": 4}, "takes at most 3 on 1 of its 3 streams each"),
        ({"images": 2, "streams": 2}, "takes at most 1 on 2 of its 3"),
    ):
        with pytest.raises(toolchain.UserError, match=f"E1202 images=[24]: machine 'dnnvm' {said}"):
            toolchain.compile("digits", "dnnvm:zu9", folder=tmp_path, **given)  # type: ignore[arg-type]
    pictures = np.random.default_rng(0).random((4, 1, 8, 8), np.float32)
    one, three = (toolchain.compile("digits", "dnnvm:zu9", images=count, effort=0, folder=tmp_path / str(count)) for count in (1, 3))
    assert (one.figures["images"], three.figures["images"]) == (1, 3)
    assert three.figures["frames_per_second"] > 1.5 * one.figures["frames_per_second"]
    found, wanted = (toolchain.load(built.bundle).run({"image": pictures}) for built in (three, one))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    assert three.verify().text.startswith("digits on dnnvm:zu9: exact;")


def test_models_in_memory_of_one_name_do_not_meet(tmp_path: Path) -> None:
    one, other = (toolchain.compile(absolute(size), "vta", folder=tmp_path) for size in (1, 2))
    assert one.bundle != other.bundle
    assert one.load().inputs["x"].shape == (1, 3)
    assert other.load().inputs["x"].shape == (2, 3)


def test_open_sizes_are_given_by_name(tmp_path: Path) -> None:
    with pytest.raises(toolchain.UserError, match="dim=batch:1"):
        toolchain.compile(absolute("batch"), "vta", folder=tmp_path)
    built = toolchain.compile(absolute("batch"), "vta", dims={"batch": np.int64(4)}, folder=tmp_path)
    assert built.load().run({"x": -np.ones((4, 3), np.float32)})["y"].min() == 1


def test_the_result_says_where_its_ranges_are_from(tmp_path: Path) -> None:
    assert toolchain.compile(absolute(), "vta", folder=tmp_path).calibration == "made-up"
    assert toolchain.compile(absolute(), "vta", calibration={"x": np.ones((5, 1, 3))}, folder=tmp_path).calibration == "recorded"
    assert toolchain.compile(absolute(), "vta", calibration=np.ones((5, 3)), folder=tmp_path).calibration == "recorded"


def test_recorded_inputs_are_what_is_calibrated_with(tmp_path: Path) -> None:
    """The largest number of the samples is in the table."""
    built = toolchain.compile(absolute(), "vta", calibration={"x": np.full((2, 3), -77.5)}, folder=tmp_path)
    (table,) = (tmp_path / "models").glob("*/calibration/calibration.json")
    assert '"maximum":77.5' in table.read_text()
    assert built.infer().data["kind"] == "calibration"


def test_the_command_line_takes_the_samples_as_a_file(tmp_path: Path) -> None:
    onnx.save(absolute(), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "seen.npz", x=np.full((2, 3), -77.5, np.float32))
    answer, told = build_here(tmp_path, "build", "target=vta", "model=net.onnx", "calibration=seen.npz")
    assert answer == 0, told
    assert '"maximum":77.5' in (tmp_path / "build/models/net@calibration-seen/calibration/calibration.json").read_text()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"target": "vtaa"}, "E0001"),
        ({"place": "al"}, "E1202"),
        ({"dims": {"batch": -1}}, "E1202"),
        ({"dims": {"batch": "1"}}, "E1202"),
        ({"dims": {"bach": 1}}, "E0905"),
        ({"params": {"LOG_BLOK": 3}}, "E0104"),
        ({"calibration": {"z": np.ones((2, 3))}}, "E0808"),
        ({"calibration": {"x": np.ones((2, 4))}}, "E0808"),
        ({"calibration": {"x": np.array([{}], object)}}, "E0808"),
        ({"calibration": "none.npz"}, "E0001"),
        ({"folder": "/dev/null/build"}, "E0005"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, options: dict[str, Any], code: str) -> None:
    given = {"target": "vta", "folder": tmp_path, **options}
    with pytest.raises(toolchain.UserError) as caught:
        toolchain.compile(absolute(), **given)
    assert caught.value.diagnostics[0].code == code
    assert "\n" not in str(caught.value)


def test_every_answer_says_where_ranges_are_from(tmp_path: Path) -> None:
    """Also where they were given by hand."""
    for calibration, word in ((None, "made-up"), ({"x": np.ones((2, 1, 3))}, "recorded")):
        built = toolchain.compile(absolute(), "vta", calibration=calibration, folder=tmp_path)
        for text in (built.summary, built.explain().text, built.verify().text, built.infer().text, built.report().text):
            assert f"on {word} samples" in text
        assert built.explain().data["calibration"] in text
    built.report(html=True)
    assert (built.folder / "report" / "report.html").is_file()


def test_what_is_printed_of_it_is_short(tmp_path: Path) -> None:
    built = toolchain.compile(absolute(), "vta", folder=tmp_path)
    assert repr(built) == f"<{built.job.model} on vta: {built.bundle}>"
    assert repr(built.load()) == f"<{built.job.model} on vta: x float32 (1, 3) -> y float32 (1, 3)>"


def test_a_model_of_several_lengths_is_not_built_as_one_of_them(tmp_path: Path) -> None:
    encoder(tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text("model: {name: m, summary: a test}\nonnx: m.onnx\nlengths: {sequence: [8, 16]}\n")
    with pytest.raises(toolchain.UserError, match=r"E1202 the model has 2 lengths, and this builds one; give one, such as dims=\{'sequence': 16\}"):
        toolchain.compile(tmp_path / "m.yaml", "dpuv3", folder=tmp_path / "build")
