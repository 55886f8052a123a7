"""Networks whose rows do not mix, or are masked, may be filled up with zeros; a sum over all rows may not.



The file of all lengths of a build, and the lines that tell their costs.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.lengths_network import WIDTH, built, encoder, rows, samples, total
from toolchain.graph.preparation import LengthAxis
from toolchain.runtime.lengths import read_lengths
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.lengths import LengthCost, lengths_data, lengths_report, padding_refusal
from toolchain.tasks.actions.paths import bundle_file, lengths_file, lengths_text_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import fulfil

LENGTHS = [{"n": 4}, {"n": 8}]


def given() -> dict[str, Array]:
    return {"x": np.random.default_rng(0).standard_normal((2, 1, 8, WIDTH)).astype(np.float32)}


@pytest.mark.parametrize(
    ("make", "outputs", "word"),
    [
        (rows, (LengthAxis("y", 1, "n"),), ""),
        (rows, (), "the output 'y' has the shape [1, 8, 32] in place of [1, 4, 32]"),
        (total, (), "the output 'y' changes by "),
    ],
)
def test_by_the_file_itself(make: Callable[[Path], Path], outputs: tuple[LengthAxis, ...], word: str, tmp_path: Path) -> None:
    found = padding_refusal(make(tmp_path / "m.onnx"), (LengthAxis("x", 1, "n"),), outputs, LENGTHS, given())
    assert word in found
    assert bool(word) == bool(found)


def test_a_mask_makes_padding_inert_and_one_that_ignores_it_does_not(tmp_path: Path) -> None:
    file = samples(tmp_path / "s.npz", 4, 8)
    axes, outputs = (LengthAxis("ids", 1, "n"), LengthAxis("mask", 1, "n")), (LengthAxis("words", 1, "n"),)
    with np.load(file) as arrays:
        held = {name: arrays[name] for name in ("ids", "mask")}
    assert padding_refusal(encoder(tmp_path / "m.onnx"), axes, outputs, LENGTHS, held) == ""
    inverted = {"ids": held["ids"], "mask": np.zeros_like(held["mask"])}  # all masked: attention goes to every row alike
    assert "changes by" in padding_refusal(tmp_path / "m.onnx", axes, outputs, LENGTHS, inverted)


COSTS = [LengthCost("sequence 8", 1000.0, 0.001, 0.5, 1500), LengthCost("sequence 16", 2000.0, 0.002, None, 2500)]


def test_a_line_for_each_length_and_the_saving() -> None:
    text = lengths_report("m", "x", COSTS, 3000, "", "m.bundle")
    assert text.splitlines() == [
        "m on x in 2 lengths",
        "  sequence 8   1,000 cycles, 0.001 ms on the machine; 0.500 ms with the host's part",
        "  sequence 16  2,000 cycles, 0.002 ms on the machine",
        "  bundle      m.bundle: 3 kB; one for each length 4 kB together",
        "  between: filled up with zeros to the next, which changes no result of the model's file",
    ]


def test_a_warning_where_nothing_is_filled_up() -> None:
    assert lengths_report("m", "x", COSTS, 3000, "rows mix", "").splitlines()[-1] == "  warning: only these lengths are run: rows mix"
    assert lengths_data(COSTS[:1], 3000, "rows mix") == {
        "lengths": [{"sizes": "sequence 8", "cycles": 1000.0, "machine_ms": 0.001, "total_ms": 0.5, "bytes": 1500}],
        "bytes": 3000,
        "refusal": "rows mix",
    }


def test_cycles_and_bytes_of_every_length() -> None:
    job = built().plan.joined[0].job
    text, data = lengths_text_file(job).read_text(), json.loads(lengths_text_file(job).with_suffix(".json").read_text())
    assert text.startswith("encoder on dpuv3 in 2 lengths\n  sequence 8 ")
    assert [each["bytes"] for each in data["lengths"]] == [bundle_file(each).stat().st_size for each in built().plan.jobs]
    assert data["bytes"] == built().file.stat().st_size < sum(each["bytes"] for each in data["lengths"])
    regions = [bucket.content.regions for bucket in built().bundle.lengths.buckets]
    assert [each["cycles"] for each in data["lengths"]] == [sum(region.cycles for region in each) for each in regions]
    assert data["refusal"] == ""


def test_a_network_whose_rows_mix_says_so(tmp_path: Path) -> None:
    file = total(tmp_path / "total.onnx")
    plan = make_plan({"target": "dpuv3", "model": str(file), "lengths": "length:4,8", "effort": "0", "beyond": "host"}, tmp_path / "build")
    fulfil(plan.joined[0], lambda _: None)
    joined = read_lengths(lengths_file(plan.joined[0].job))
    assert joined is not None
    assert joined.lengths.buckets[0].content.inputs[0].shape == (1, 4, WIDTH)
    assert joined.lengths.beyond in joined.members
    assert joined.lengths.refusal.startswith("the output 'y' changes by ")
    assert "  warning: only these lengths are run: the output 'y' changes by " in lengths_text_file(plan.joined[0].job).read_text()


def test_a_dimension_that_is_not_open(tmp_path: Path) -> None:
    plan = make_plan({"target": "dpuv3", "model": str(encoder(tmp_path / "m.onnx")), "lengths": "sequense:4,8"}, tmp_path / "build")
    with pytest.raises(UserError, match="E0905 no dimension of the inputs is called 'sequense'"):
        fulfil(plan.joined[0], lambda _: None)
