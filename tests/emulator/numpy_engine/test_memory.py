from toolchain.emulator.numpy_engine import memory
from toolchain.emulator.numpy_engine.memory import Kept


def test_everything_is_dropped_when_it_is_too_much() -> None:
    kept = Kept()
    one, two = kept.table(), kept.table()
    half = memory.ELEMENTS // 2 - memory.ENTRY
    for key in range(2):
        assert kept.room(half)
        one[key] = two[key] = "kept"
    assert kept.room(half)
    assert one == two == {}


def test_what_is_too_large_drops_nothing() -> None:
    kept = Kept()
    table = kept.table()
    assert kept.room(1)
    table[0] = "kept"
    assert not kept.room(memory.ELEMENTS)
    assert table == {0: "kept"}
