from pathlib import Path

from tests.lengths_network import built
from toolchain.runtime.bundle import read_bundle, write_bundle
from toolchain.runtime.length_members import picked
from toolchain.tasks.actions.paths import bundle_file


def test_a_length_that_is_taken_out_has_what_was_built_for_it(tmp_path: Path) -> None:
    for bucket, job in zip(built().bundle.lengths.buckets, built().plan.jobs, strict=True):
        path = tmp_path / "one.bundle"
        write_bundle(path, picked(built().bundle, bucket, ""))
        found, wanted = read_bundle(path), read_bundle(bundle_file(job))
        assert sorted(found.members.values()) == sorted(wanted.members.values())
        assert found.manifest.inputs == wanted.manifest.inputs
