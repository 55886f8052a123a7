from tests.tiny_machine import tiny
from toolchain.analysis.state import new_state
from toolchain.emulator.numpy_engine import frame
from toolchain.emulator.numpy_engine.frame import Contents, Versions

MACHINE = tiny("pass\n")


def test_equal_contents_have_equal_numbers_in_any_state() -> None:
    contents, states = Contents(), (new_state(MACHINE), new_state(MACHINE))
    one, two = (Versions(state, contents) for state in states)
    before = one.number("ctl")
    states[0].memories["ctl"][0, 1] = 7
    one.changed("ctl")
    changed = one.number("ctl")
    states[0].memories["ctl"][0, 1] = 0
    one.all_changed()
    assert changed != before
    assert one.number("ctl") == two.number("ctl") == before


def test_registers_count_with_what_was_set() -> None:
    state = new_state(MACHINE)
    found = Versions(state, Contents())
    numbers = [found.number("cfg")]
    state.written["cfg"][0, 1] = True
    found.changed("cfg")
    numbers.append(found.number("cfg"))
    state.latched["cfg"][0, 1, 2] = 3
    found.changed("cfg")
    numbers.append(found.number("cfg"))
    assert len(set(numbers)) == 3


def test_memories_do_not_share_numbers() -> None:
    state = new_state(MACHINE)
    state.memories["num"][:] = 0
    found = Versions(state, Contents())
    assert len({found.number(name) for name in ("ctl", "num", "arg", "cfg")}) == 4


def test_large_contents_are_not_compared() -> None:
    state, contents = new_state(MACHINE), Contents()
    state.memories["ctl"] = state.memories["ctl"].repeat(frame.LARGEST, axis=1)
    assert Versions(state, contents).number("ctl") != Versions(state, contents).number("ctl")


def test_numbers_that_are_forgotten_do_not_come_back() -> None:
    contents = Contents()
    first = contents.number("ctl", (b"first",))
    others = {contents.number("ctl", (bytes([i // 256, i % 256]),)) for i in range(2 * frame.KNOWN)}
    assert len(others) == 2 * frame.KNOWN
    assert contents.number("ctl", (b"first",)) not in {first, *others}
