"""Does again what an instruction did before: the address phase is known, the data is not."""

from toolchain.emulator.numpy_engine.frame import Value
from toolchain.emulator.numpy_engine.recorder import Part, Recorder
from toolchain.emulator.numpy_engine.session import Session
from toolchain.emulator.numpy_engine.transaction import Transaction

PER_STEP = 128
"""Array elements that keeping a step takes, what its address phase gave aside."""


class Replay:
    """The steps of one instruction. They hold state while they run: whoever runs them takes them away from where they are kept."""

    def __init__(self, recorder: Recorder, temps: int) -> None:
        self.parts = [(part, part.at_once) for part in recorder.parts]
        self.temps = temps
        self.size = sum(_size(part) for part in recorder.parts)
        for part in recorder.parts:
            for _, frame, _ in part.steps:
                frame.temps, frame.transaction = [], None

    def run(self, session: Session) -> None:
        """Executes the steps. They do not fail: what data may do is proved when a machine is read (toolchain/isa/semantics/ranges.py)."""
        temps: list[Value] = [None] * self.temps
        for part, at_once in self.parts:
            transaction = None if at_once else Transaction(0, watching=False)
            for action, frame, _ in part.steps:
                frame.session, frame.temps, frame.transaction = session, temps, transaction
                action(frame)
            if transaction is not None:
                transaction.commit()
        temps.clear()


def _size(part: Part) -> int:
    """Array elements of what only these steps hold."""
    held = [value for _, frame, _ in part.steps if frame.keys is None for value in (*frame.names, frame.mask)]
    return PER_STEP * len(part.steps) + sum(getattr(value, "size", 0) for value in held)
