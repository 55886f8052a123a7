from toolchain.emulator.numpy_engine import addresses
from toolchain.emulator.numpy_engine.addresses import Kept


def test_everything_is_dropped_when_it_is_too_much() -> None:
    kept = Kept()
    one, two = kept.table(), kept.table()
    half = addresses.ELEMENTS // 2 - addresses.ENTRY
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
    assert not kept.room(addresses.ELEMENTS)
    assert table == {0: "kept"}
