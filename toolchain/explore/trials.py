"""A study's trials in Optuna's journal, a file: what was measured stays, and several processes may take points from it."""

import json
import os
import socket
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolchain.explore.measure import Outcome
from toolchain.explore.study import OBJECTIVES, QUEUED, Point, Study, point_text
from toolchain.spec.errors import fail
from toolchain.spec.typed_json import MistypedError, Tree, from_json, to_json

if TYPE_CHECKING:
    import optuna

JOURNAL, LOCK, JOURNAL_LOCK = "study.journal", ".study.lock", ".journal.lock"
BATCH = 8
"""Points that a search which learns asks for at once, however many processes measure them."""
DIGEST, OUTCOME, OWNER, LOST, QUEUED_POINT = "digest", "outcome", "owner", "lost", "point"
"""Keys of attributes: of the study; of a trial its outcome, the process that measures it, whether that one died, its point where it was queued."""


FIXED = "fixed_params"
"""Optuna's own key of a queued trial's values."""


class JournalLock:
    """Optuna's interface of a lock. Its own stay behind when a process is killed, and hold up all others; the system lets go of this one."""

    def __init__(self, path: Path) -> None:
        import filelock

        self._lock = filelock.FileLock(path)

    def acquire(self) -> bool:
        """Waits as long as another process writes."""
        self._lock.acquire()
        return True

    def release(self) -> None:
        self._lock.release()


@dataclass(frozen=True)
class Trial:
    """A point to measure. handle: Optuna's own."""

    point: Point
    handle: "optuna.Trial"


@dataclass(frozen=True)
class Trials:
    """study: ours. held: Optuna's."""

    study: Study
    held: "optuna.Study"
    storage: "optuna.storages.JournalStorage"

    def finished(self) -> dict[Point, Outcome]:
        """Every measured or refused point once, in the order of the study. Raises UserError E1502 for a journal that is not ours."""
        states = self.held.get_trials(deepcopy=False)
        found = {self._point(each.params): _outcome(each.user_attrs) for each in states if each.state.is_finished() and OUTCOME in each.user_attrs}
        return {point: found[point] for point in sorted(found, key=self.study.number)}

    def next(self) -> Iterator[Trial]:
        """Points to measure next; none where the study is done. Of a search that knows its points all that nobody took, one by one."""
        if self.study.search in QUEUED:
            yield from self._queued()
            return
        while not (found := self._batch()) and not self._done():
            pass
        yield from found

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Stores the outcome; a refused point is a failure to Optuna, so that no search learns figures from it."""
        import optuna

        trial.handle.set_user_attr(OUTCOME, to_json(outcome))
        if outcome.refused or any(name not in outcome.figures for name in self.study.objectives):
            self.held.tell(trial.handle, state=optuna.trial.TrialState.FAIL)
        else:
            self.held.tell(trial.handle, [outcome.figures[name] for name in self.study.objectives])

    def lose(self, trial: "optuna.trial.FrozenTrial") -> None:
        """The process that measured it died: the point goes back, before the trial ends, as this process may die too. One that died before it took
        its values leaves those that were queued, or none."""
        import optuna

        handle = optuna.Trial(self.held, trial._trial_id)  # pyright: ignore[reportPrivateUsage]
        handle.set_user_attr(LOST, True)
        values = trial.system_attrs.get(FIXED, trial.params)
        if all(axis.name in values for axis in self.study.axes):
            self.held.enqueue_trial(dict(values), user_attrs={QUEUED_POINT: point_text(self.study, self._point(values))})
        self.held.tell(handle, state=optuna.trial.TrialState.FAIL)

    def _point(self, values: Mapping[str, Any]) -> Point:
        """values: of a trial, by axis. Raises UserError E1502."""
        try:
            return tuple(axis.values[int(values[axis.name])] for axis in self.study.axes)
        except (KeyError, IndexError, ValueError, TypeError):
            raise _foreign(JOURNAL) from None

    def _waiting(self) -> bool:
        import optuna

        return bool(self.held.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)))

    def _queued(self) -> Iterator[Trial]:
        while self._waiting():
            trial = self._ask()
            if QUEUED_POINT not in trial.handle.user_attrs:  # another process took the last one between the two lines
                self._drop(trial)
                return
            yield trial

    def _batch(self) -> list[Trial]:
        """Asks for a batch; points that were measured before are told again at once, and cost none of the budget."""
        self.held.sampler = _sampler(self.study, len(self.held.get_trials(deepcopy=False)))
        known, found = self.finished(), list[Trial]()
        room = min(BATCH, self.study.budget - len(known), self.study.size - len(known))
        for trial in [self._ask() for _ in range(room)]:
            if trial.point in known:
                self.tell(trial, known[trial.point])
            elif trial.point in [other.point for other in found]:
                self._drop(trial)
            else:
                found.append(trial)
        return found

    def _done(self) -> bool:
        """Whether the budget is spent; a search that finds nothing new for long is done too."""
        count, known = len(self.held.get_trials(deepcopy=False)), len(self.finished())
        return known >= min(self.study.budget, self.study.size) or count >= 20 * self.study.budget

    def _ask(self) -> Trial:
        trial = self.held.ask()
        for axis in self.study.axes:
            trial.suggest_int(axis.name, 0, len(axis.values) - 1)
        trial.set_user_attr(OWNER, _me())
        return Trial(self._point(trial.params), trial)

    def _drop(self, trial: Trial) -> None:
        import optuna

        self.held.tell(trial.handle, state=optuna.trial.TrialState.FAIL)


def open_trials(study: Study, folder: Path) -> Trials:
    """Makes the study, or goes on with it. Raises UserError E1502 for a folder with another study or a damaged one, E1503 without Optuna."""
    import filelock

    optuna = _library()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / LOCK), quiet():
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        _mend(folder)
        try:
            storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL), lock_obj=cast("Any", JournalLock(folder / JOURNAL_LOCK))))
            ways = ["maximize" if OBJECTIVES[name].more else "minimize" for name in study.objectives]
            held = optuna.create_study(storage=storage, study_name="study", directions=ways, load_if_exists=True)
        except (ValueError, KeyError, TypeError):
            raise _foreign(str(folder)) from None
        trials = Trials(study, held, storage)
        _begin(trials, str(folder))
        return trials


def _mend(folder: Path) -> None:
    """Cuts off the line that a process was writing when it died, or when the disk was full: the next one would be written behind it.

    Raises UserError E1502 where another line is damaged.
    """
    path, lock = folder / JOURNAL, JournalLock(folder / JOURNAL_LOCK)
    if not path.exists():
        return
    lock.acquire()
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(path, len(whole))
    finally:
        lock.release()
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            json.loads(line)
        except ValueError:
            hint = "delete that line and those behind it, or give another folder with -o"
            raise fail("E1502", f"line {number} of the study's journal is damaged", hint=hint, place=str(path)) from None


def _library() -> Any:
    try:
        import optuna
    except ImportError:
        raise fail("E1503", "explorations need the package 'optuna', which is not installed", hint="pip install 'tilewright[explore]'") from None
    return optuna


@contextmanager
def quiet() -> Generator[None]:
    """Without the library's warnings of parts that may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _begin(trials: Trials, place: str) -> None:
    """Queues points where the search knows them, and gives back those of processes that died."""
    digest = trials.held.user_attrs.get(DIGEST)
    if digest is None:
        trials.held.set_user_attr(DIGEST, trials.study.digest)
    elif digest != trials.study.digest:
        raise _foreign(place)
    known = {str(each.user_attrs[QUEUED_POINT]) for each in trials.held.get_trials(deepcopy=False) if QUEUED_POINT in each.user_attrs}
    start = [trials.study.start] if trials.study.start else []
    for point in trials.study.queue() if trials.study.search in QUEUED else start:
        if (text := point_text(trials.study, point)) not in known:
            given = {axis.name: axis.values.index(value) for axis, value in zip(trials.study.axes, point, strict=True)}
            trials.held.enqueue_trial(given, user_attrs={QUEUED_POINT: text})
    _revive(trials)


def _revive(trials: Trials) -> None:
    """Points that a process of this host was measuring when it died wait again."""
    import optuna

    for each in trials.held.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        if not _alive(str(each.user_attrs.get(OWNER, ""))):
            trials.lose(each)


def _me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _alive(owner: str) -> bool:
    """Whether a trial's process may still be at work; one of another host may."""
    host, _, number = owner.rpartition(":")
    if host != socket.gethostname():
        return bool(host)
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return int(number) != os.getpid()


def _sampler(study: Study, seen: int) -> "optuna.samplers.BaseSampler":
    """seen: trials before it, which a study that goes on has as well."""
    import optuna

    with quiet():
        if study.search == "evolution":
            return optuna.samplers.NSGAIISampler(population_size=BATCH, seed=study.seed + seen)
        return optuna.samplers.TPESampler(n_startup_trials=BATCH, multivariate=True, constant_liar=True, seed=study.seed + seen)


def _outcome(attributes: dict[str, Any]) -> Outcome:
    """Raises UserError E1502."""
    try:
        return from_json(Outcome, cast("Tree", attributes[OUTCOME]))
    except MistypedError:
        raise _foreign(JOURNAL) from None


def _foreign(place: str) -> Exception:
    hint = "give another folder with -o, or delete this one"
    return fail("E1502", "this folder holds another study: other points, objectives, models or another search", hint=hint, place=place)
