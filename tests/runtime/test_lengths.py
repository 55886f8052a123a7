"""One file of several lengths: members once, hostile contents refused, each length taken out again as it was built."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.lengths_network import built
from toolchain.graph.preparation import LengthAxis
from toolchain.runtime.bundle import MANIFEST, data_name, read_archive, read_bundle, write_archive
from toolchain.runtime.contents import Bundle, Interface
from toolchain.runtime.executor import with_constants
from toolchain.runtime.lengths import Bucket, LengthBundle, join_bundles, lengths_text, output_axes, read_any, read_lengths, write_lengths
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import bundle_file


def test_equal_members_are_there_once_and_the_file_is_the_same_again(tmp_path: Path) -> None:
    joined, alone = built().bundle, [read_bundle(bundle_file(job)) for job in built().plan.jobs]
    shared = set(alone[0].members) & set(alone[1].members)
    data = {name for name in shared if name.startswith("data-")}
    assert data
    assert sum(map(len, joined.members.values())) == sum(len(d) for each in alone for d in each.members.values()) - sum(
        len(alone[0].members[name]) for name in data
    )
    write_lengths(tmp_path / "again.bundle", joined)
    assert (tmp_path / "again.bundle").read_bytes() == built().file.read_bytes()


def test_axes_of_inputs_and_outputs() -> None:
    lengths = built().bundle.lengths
    assert [bucket.sizes["sequence"] for bucket in lengths.buckets] == [8, 16]
    assert lengths.inputs == (LengthAxis("ids", 1, "sequence"), LengthAxis("mask", 1, "sequence"))
    assert lengths.outputs == (LengthAxis("words", 1, "sequence"),)
    assert lengths.refusal == ""


def _buckets(*shapes: tuple[int, ...] | None) -> list[Bucket]:
    content = built().bundle.lengths.buckets[0].content
    return [Bucket({"n": 8 * k}, replace(content, outputs=(Interface("y", shape, "float32"),))) for k, shape in enumerate(shapes, 1)]


@pytest.mark.parametrize(
    ("shapes", "found", "word"),
    [
        (((1, 8), (1, 16)), (LengthAxis("y", 1, "n"),), ""),
        (((8, 1), (8, 1)), (), ""),
        (((1, 4), (1, 8)), (), "axis 1 of the output 'y' has the sizes 4, 8, which are not the lengths"),
        (((1, -1), (1, -1)), (), "has the sizes ?, ?"),
        (((1, 8), None), (), "the output 'y' has no fixed rank"),
    ],
)
def test_an_output_that_follows_the_length_otherwise_is_told(shapes: tuple[tuple[int, ...] | None, ...], found: object, word: str) -> None:
    axes, unclear = output_axes(_buckets(*shapes))
    assert axes == found
    assert word in unclear
    assert bool(word) == bool(unclear)


def test_a_bundle_of_one_length_is_none_of_several_and_the_other_way_round() -> None:
    assert read_lengths(bundle_file(built().plan.jobs[0])) is None
    with pytest.raises(UserError, match=r"E1130 this bundle has several lengths, and one is needed; take one out: tilewright bundle pick"):
        read_bundle(built().file)
    one = read_any(bundle_file(built().plan.jobs[0]))
    assert isinstance(one, Bundle)
    assert isinstance(read_any(built().file), LengthBundle)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"version": 1', '"version": 2', "version of several lengths is 2"),
        ('"sequence": 16', '"sequence": 17', "axis 1 of 'ids' is not of the size 'sequence' at sequence 17"),
        ('"sequence": 16', '"other": 16', "the sizes of a length are not those of sequence"),
        ('"refusal": ""', '"refusal": 1', "lengths.refusal"),
        ('"axis": 1', '"axis": 7', "axis 7 of"),
        ('"index": 0', '"index": 99', "the plan has a step"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(old: str, new: str, word: str, tmp_path: Path) -> None:
    members = read_archive(built().file)
    text = members[MANIFEST].decode()
    assert old in text
    write_archive(tmp_path / "x.bundle", {**members, MANIFEST: text.replace(old, new).encode()})
    with pytest.raises(UserError, match="E1104") as raised:
        read_lengths(tmp_path / "x.bundle")
    assert word in str(raised.value)


def test_damaged_members_are_refused(tmp_path: Path) -> None:
    members = read_archive(built().file)
    name = next(name for name in members if name.startswith("data-"))
    write_archive(tmp_path / "x.bundle", {**members, name: bytes(len(members[name]))})
    with pytest.raises(UserError, match="E1106"):
        read_lengths(tmp_path / "x.bundle")


def test_the_own_file_of_the_model_may_be_inside_and_is_read_again(tmp_path: Path) -> None:
    held, whole = built().bundle, onnx.load(built().plan.jobs[0].path)
    large = whole.graph.initializer.add()
    large.CopyFrom(numpy_helper.from_array(np.arange(1 << 14, dtype=np.float32), "large"))
    bundles = [(bucket.sizes, held.bundle(bucket)) for bucket in held.lengths.buckets]
    joined = join_bundles(held.lengths.inputs, bundles, "", whole)
    write_lengths(tmp_path / "x.bundle", joined)
    found = read_lengths(tmp_path / "x.bundle")
    assert found is not None
    assert data_name(large.raw_data) in found.members
    restored = with_constants(onnx.load_from_string(found.members[found.lengths.beyond]), found.members, "")
    assert {each.name: each.raw_data for each in restored.graph.initializer} == {each.name: each.raw_data for each in whole.graph.initializer}
    with pytest.raises(UserError, match=r"E1104 .*there is no member 'host99\.onnx'"):
        write_lengths(tmp_path / "y.bundle", LengthBundle(replace(joined.lengths, beyond="host99.onnx"), joined.members))


def test_a_reason_for_no_padding_is_kept() -> None:
    bundles = [(bucket.sizes, built().bundle.bundle(bucket)) for bucket in built().bundle.lengths.buckets]
    joined = join_bundles(built().bundle.lengths.inputs, bundles, "because")
    assert joined.lengths.refusal == "because"
    assert json.loads(lengths_text(joined))["lengths"]["refusal"] == "because"
