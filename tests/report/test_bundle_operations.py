"""The operations of a bundle's programs, of the bundle alone."""

from dataclasses import replace

from tests.operations.made import load_machine
from tests.report.profile.measured import region
from tests.runtime import small
from toolchain.report.bundle_operations import HEAD, bundle_operations


def test_lines_are_in_the_order_in_which_operations_start_and_count_all_instructions() -> None:
    bundle, machines = small.bundle(), {"vta": load_machine("vta")}
    lines = bundle_operations(bundle, machines, "small.bundle").splitlines()
    assert lines[0].split() == " ".join(HEAD).split()
    rows = [line.split() for line in lines[1:]]
    starts = [float(row[4].replace(",", "")) for row in rows if row[0] == "region0"]
    assert starts == sorted(starts)
    owner = region().owner
    assert {row[1]: int(row[3]) for row in rows if row[0] == "region0"} == {
        name: int((owner == number).sum()) for number, name in enumerate(region().operations)
    }


def test_a_bundle_without_programs_says_so() -> None:
    bundle = small.bundle()
    hosts = replace(bundle, manifest=replace(bundle.manifest, regions=()))
    assert bundle_operations(hosts, {"vta": load_machine("vta")}, "small.bundle") == "no programs of instructions\n"
