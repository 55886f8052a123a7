"""The file of all lengths of a build, and the lines that tell their costs."""

import json
from pathlib import Path

import pytest

from tests.lengths_network import WIDTH, built, encoder, total
from toolchain.runtime.lengths import read_lengths
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import bundle_file, lengths_file, lengths_text_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import fulfil


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
