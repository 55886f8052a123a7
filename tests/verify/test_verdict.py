"""A verdict in words: short where all is exact, and the first difference named."""

import json
import math
from dataclasses import replace

from toolchain.accuracy.closeness import Closeness, OutputCloseness
from toolchain.accuracy.errors import TensorError
from toolchain.verify.verdict import (
    Compared,
    Difference,
    Disagreement,
    LastWriter,
    ModelVerdict,
    OutputVerdict,
    RegionVerdict,
    Sampled,
    StepsVerdict,
    Verified,
    read_verified,
    verdict_data,
    verdict_text,
)


def close(sqnr: float) -> OutputCloseness:
    return OutputCloseness(sqnr, 0, 0, sqnr, 0.0)


WRITER = LastWriter(7, "#7 STORE at 0x70: STORE x_size=3", "conv store y", "dram[0x1000..0x1003]", ("#6 ALU at 0x60: ALU imm=1 (conv finish y)",))
DIFFERENCE = Difference("y", (0, 1, 2, 3), 5, -6, 12, "conv", ("a", "b"), WRITER)
REGION = RegionVerdict("r", 20, (Compared("x", "", "dram", 30), Compared("y", "conv", "dram", 40)), (), (), (), True, Sampled(3, 20, 9))
MODEL = ModelVerdict(
    "m",
    "t",
    4,
    (REGION,),
    (OutputVerdict("out", 10, 0),),
    (TensorError("w", "conv2d", 11.25, 0.5, 0.0), TensorError("v", "add", math.inf, 1.0, 0.0)),
    Closeness({"out": close(31.25)}, "w", 11.25, {}),
)


def told(**changes: object) -> tuple[bool, str]:
    verdict = replace(MODEL, regions=(replace(REGION, **changes),))  # type: ignore[arg-type]
    return verdict.exact, verdict_text(verdict)


def test_a_name_with_the_end_of_a_line_stays_in_its_line() -> None:
    text = verdict_text(replace(MODEL, errors=(TensorError("w\nv", "conv2d", 11.25, 0.5, 0.0), *MODEL.errors[1:])))
    assert text.splitlines()[-1] == "worst of 2 tensors: w\\nv 11.2 dB, v inf dB"


def test_an_exact_verdict_is_short() -> None:
    exact, text = told()
    assert exact
    assert text.splitlines() == [
        "m on t: exact; 2 tensors of 4 images, 70 elements, compared with the integer network",
        "region r: 20 instructions, no race, no deadlock; 2 of 2 tensors equal; the reference engine agrees on 3 sampled instructions, 9 elements",
        "output out: all 10 elements equal ONNX Runtime on the integer model, bit for bit",
        "integers against floating point: outputs 31.2 dB, worst 11.2 dB (w)",
        "worst of 2 tensors: w 11.2 dB, v inf dB",
    ]


def test_a_verdict_within_a_tolerance_is_close_and_never_exact() -> None:
    graph = replace(REGION, sampled=None, told="operators, compiled by npuc", allowed="0.5 + 0.01 of the number: it rounds")
    near = replace(graph, compared=(Compared("y", "conv", "graph engine", 40, None, 0.25),))
    verdict = replace(MODEL, regions=(near,), outputs=(OutputVerdict("out", 10, 0, 0.125),), integers=False)
    assert (verdict.right, verdict.exact) == (True, False)
    assert verdict_text(verdict).splitlines() == [
        "m on t: close; 1 tensors of 4 images, 40 elements, compared with ONNX Runtime",
        "region r: 20 operators, compiled by npuc; 1 of 1 tensors close",
        "  the largest difference is 0.25, allowed are 0.5 + 0.01 of the number: it rounds",
        "output out: all 10 elements as near ONNX Runtime as allowed, the furthest 0.12 away",
    ]
    data = json.loads(json.dumps(verdict_data(verdict)))
    assert (data["exact"], data["right"], data["allowed"]) == (False, True, near.allowed)
    far = replace(verdict, regions=(replace(near, compared=(Compared("y", "conv", "graph engine", 40, replace(DIFFERENCE, writer=None), 3.0),)),))
    assert not far.right
    assert "m on t: NOT CLOSE" in verdict_text(far)
    assert "no instruction wrote" not in verdict_text(far)
    wrong = replace(verdict, outputs=(OutputVerdict("out", 10, 2, 9.0),))
    assert "output out: 2 of 10 elements are FURTHER from ONNX Runtime than allowed, one by 9" in verdict_text(wrong)


def test_noise_at_an_output_is_a_warning_and_no_error() -> None:
    verdict = replace(MODEL, closeness=Closeness({"out": close(-0.5), "other": close(40.0)}, "w", -2.0, {}))
    assert verdict.exact
    assert "integers against floating point: outputs -0.5 dB, worst -2.0 dB (w)\n" in verdict_text(verdict)
    assert verdict_text(verdict).splitlines()[-1].startswith("warning: output out is far from the float network, -0.5 dB")


def test_a_difference_names_element_instruction_and_sources() -> None:
    exact, text = told(compared=(REGION.compared[0], replace(REGION.compared[1], difference=DIFFERENCE)))
    assert not exact
    assert "NOT EXACT" in text
    assert "1 of 2 tensors equal" in text
    assert "  first difference: tensor y[0, 1, 2, 3] is -6, expected 5; 12 elements differ" in text
    assert "  operation conv, from a, b; whatever it reads was equal" in text
    assert "  dram[0x1000..0x1003] was last written by #7 STORE at 0x70: STORE x_size=3 (conv store y)" in text
    assert "    from #6 ALU at 0x60: ALU imm=1 (conv finish y)" in text


def test_an_element_that_nothing_wrote() -> None:
    exact, text = told(compared=(replace(REGION.compared[1], difference=replace(DIFFERENCE, writer=None, operation="")),))
    assert not exact
    assert "no instruction wrote this element" in text
    assert "operation" not in text


def test_hazards_are_counted_and_the_first_shown() -> None:
    exact, text = told(hazards=tuple(f"E0601 race {k}" for k in range(8)))
    assert not exact
    assert "8 hazards" in text
    assert "E0601 race 4" in text
    assert "E0601 race 5" not in text
    assert "and 3 more hazards" in text


def test_hazards_that_the_machine_lets_pass_are_told() -> None:
    exact, text = told(warnings=("E0601 race on pm",), tolerated=1)
    assert exact
    assert "20 instructions, no deadlock, 1 hazard that the machine's file calls a warning;" in text
    assert "2 hazards that the machine's file calls warnings;" in told(tolerated=2)[1]
    assert "no race" not in text


def test_engines_that_disagree() -> None:
    exact, text = told(sampled=Sampled(2, 20, 3, Disagreement("#3 GEMM", "conv compute", "4 bytes from 0x10 of acc", "00", "01")))
    assert not exact
    assert "the reference engine DISAGREES" in text
    assert "4 bytes from 0x10 of acc after #3 GEMM (conv compute): the reference engine leaves 00, the fast engine 01" in text


def test_other_reasons() -> None:
    assert told(ordered=False)[0] is False
    assert "an order in which the units issue leaves other outputs" in told(ordered=False)[1]
    assert told(unseen=(("z", "it is nowhere"),))[0] is False
    assert "not compared: z: it is nowhere" in told(unseen=(("z", "it is nowhere"),))[1]
    assert told(warnings=("W",))[0] is True
    verdict = replace(MODEL, outputs=(OutputVerdict("out", 10, 3),))
    assert not verdict.exact
    assert "3 of 10 elements DIFFER" in verdict_text(verdict)
    assert "agrees on the whole program" in told(sampled=Sampled(20, 20, 0))[1]


def test_json_has_no_infinity() -> None:
    data = json.loads(json.dumps(verdict_data(MODEL), allow_nan=False))
    assert [row["sqnr"] for row in data["errors"]] == [11.25, None]
    assert data["regions"][0]["compared"][1]["tensor"] == "y"


def test_reports_read_their_part_back() -> None:
    found = read_verified(json.dumps(verdict_data(MODEL)))
    assert found == Verified(True, 2, MODEL.closeness, (("w", 11.25), ("v", None)))


def test_steps_in_a_row_are_a_line_and_part_of_the_verdict() -> None:
    equal = replace(MODEL, steps=StepsVerdict(64, 900, 0, "", 8, 9))
    told = next(line for line in verdict_text(equal).splitlines() if line.startswith("64 steps in a row, 8 of 9 states kept on the device: "))
    assert told.endswith("all 900 elements of outputs and states equal ONNX Runtime on the integer model, bit for bit")
    assert equal.exact
    wrong = replace(MODEL, steps=StepsVerdict(64, 900, 7, "'keys' in step 3", 0, 9))
    text = verdict_text(wrong)
    assert not wrong.right
    assert text.startswith("m on t: NOT EXACT")
    assert "0 of 9 states kept on the device: 7 of 900 elements DIFFER from ONNX Runtime on the integer model, first 'keys' in step 3" in text
    assert json.loads(json.dumps(verdict_data(wrong)))["steps"]["differing"] == 7
