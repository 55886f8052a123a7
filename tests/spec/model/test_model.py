"""What a machine says of itself: instances, streams, fields once."""

from dataclasses import replace

import pytest

from tests.spec.small import small
from toolchain.spec.load import load_machine
from toolchain.spec.model import Level
from toolchain.spec.model.structure import stream_levels


def test_streams_are_the_instances_of_their_level() -> None:
    machine = load_machine("stcp920")
    assert machine.streams == machine.instances("core") == 32
    assert machine.instances("cluster") == 4
    assert machine.instances("device") == 1
    with pytest.raises(KeyError):
        machine.instances("rack")


def test_stream_levels_end_where_the_streams_are() -> None:
    outer, inner, lanes = Level("cluster", 4), Level("core", 8, streams=True), Level("lane", 2, lockstep=True)
    assert stream_levels((outer, inner, lanes)) == (outer, inner)
    assert stream_levels((outer, lanes)) == ()


def test_a_field_of_a_shared_format_is_declared_once() -> None:
    machine = small()
    declared = [f.name for f in machine.declared_fields]
    assert declared.count("opcode") == 1
    assert {f.name for i in machine.instructions for f in i.fields} == set(declared)


def test_things_are_found_by_name() -> None:
    machine = small()
    assert machine.memory["rows"].bytes == 64 * 4
    assert machine.view["rows.turned"].offsets == (0, 2, 1, 3)
    assert machine.instruction["MOVE"].field("count").low == 1


def test_a_label_names_the_configuration() -> None:
    machine = small()
    assert replace(machine, name="some", config="").label == "some"
    assert replace(machine, name="some", config="large").label == "some:large"
