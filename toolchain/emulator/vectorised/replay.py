"""Does again what an instruction did before: the address phase is known, the data is not."""

from toolchain.emulator.vectorised.frame import Frame, Value
from toolchain.emulator.vectorised.recorder import Part, Recorder
from toolchain.emulator.vectorised.session import Session
from toolchain.emulator.vectorised.transaction import Transaction
from toolchain.spec.errors import UserError

PER_STEP = 128
"""Array elements that keeping a step takes, what its address phase gave aside."""


class Replay:
    """The steps of one instruction. They hold state while they run: whoever runs them takes them away from where they are kept."""

    def __init__(self, recorder: Recorder, temps: int) -> None:
        self.parts = [(part, part.at_once) for part in recorder.parts]
        self.temps = temps
        self.size = sum(_size(part) for part in recorder.parts)
        for part in recorder.parts:
            for frame in (*(frame for _, frame, _ in part.steps), *((part.entry,) if part.apart else ())):
                frame.temps, frame.transaction = [], None

    def run(self, session: Session) -> None:
        """Executes the steps. Raises UserError E07xx as executing the instruction would."""
        temps: list[Value] = [None] * self.temps
        for part, at_once in self.parts:
            if part.apart is None:
                _run(part, session, temps, None)
            else:
                _together(part, at_once, session, temps)
        temps.clear()


def _together(part: Part, at_once: bool, session: Session, temps: list[Value]) -> None:
    """All iterations at once; where that fails they run apart, as they would have the first time."""
    before = temps.copy()
    transaction = None if at_once else Transaction(0, watching=False)
    try:
        _run(part, session, temps, transaction)
    except UserError:
        if part.apart is None:
            raise
        temps[:] = before
        entry: Frame = part.entry.snapshot()
        entry.session, entry.temps, entry.memo = session, temps, None
        part.apart(entry)
        temps[:] = entry.temps
        return
    if transaction is not None:
        transaction.commit()


def _run(part: Part, session: Session, temps: list[Value], transaction: Transaction | None) -> None:
    for action, frame, _ in part.steps:
        frame.session, frame.temps, frame.transaction = session, temps, transaction
        action(frame)


def _size(part: Part) -> int:
    """Array elements of what only these steps hold."""
    held = [value for _, frame, _ in part.steps if frame.keys is None for value in (*frame.names, frame.mask)]
    return PER_STEP * len(part.steps) + sum(getattr(value, "size", 0) for value in held)
