"""Runs one stage: under the folder's lock, whole or not at all, its receipt last; or adopts the results that another folder has of the same parts."""

import glob
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from toolchain.process import rare_modules_deferred, stop_if_interrupted
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import write_atomic
from toolchain.tasks.folders import locked
from toolchain.tasks.receipts import Receipt, SeenFile, changed, new_receipt, read_receipt, write_receipt
from toolchain.tasks.stage import Say, Step


def adopt(step: Step, parts: Mapping[str, str]) -> Receipt | None:
    """The receipt of a twin whose parts are these and whose files are as it wrote them; they are copied into the step's folder. parts: of the step,
    as they are now.

    Nobody holds the twin's folder meanwhile: the hash of each file is that of the bytes which are copied.
    """
    for folder, receipt in _twins(step, parts):
        if not changed({Path(name): entry for name, entry in receipt.read.items()}) and _copied(receipt, folder, step.folder):
            return receipt
    return None


def _twins(step: Step, parts: Mapping[str, str]) -> Iterator[tuple[Path, Receipt]]:
    """Folders of the same stage of the same model, and their receipts: of one machine in the same configuration, whose name is no part."""
    job = step.job
    if not step.stage.untimed or len(job.targets) > 1 or job.deployment:
        return
    plain = replace(job.target, params=(), without=()).label
    for path in sorted(job.root.glob(f"{glob.escape(plain)}*/{glob.escape(step.home.name)}/{step.receipt_path.name}")):
        changes = path.parent.parent.name.removeprefix(plain)
        if changes[:1] in ("", "+") and path != step.receipt_path and (receipt := read_receipt(path)) and receipt.parts == parts:
            yield path.parent / step.stage.name, receipt


def _copied(receipt: Receipt, source: Path, folder: Path) -> bool:
    """Whether all files came over as they were written. What was copied before one that did not is overwritten, or swept away, by the stage."""
    for name, entry in receipt.written.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            return False
        try:
            data = (source / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != entry.digest:
                return False
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, data)
        except (OSError, UserError):
            return False
    return True


@dataclass(frozen=True)
class Made:
    """written: the stage's files, all below its folder.

    read: files from elsewhere whose change means that it must run again, each as it was before it was read.
    digests: SHA-256 in hex of those written files that were hashed while they were written.
    """

    written: Sequence[Path]
    read: Mapping[Path, SeenFile] = field(default_factory=dict[Path, SeenFile])
    digests: Mapping[Path, str] = field(default_factory=dict[Path, str])


Action = Callable[[Step, Say], Made]


def fulfil(step: Step, say: Say) -> None:
    """Performs a step after those that it needs, each only where something changed. say: is told each step, behind its title.

    Raises as `perform`.
    """
    for each in step.chain:
        if each.changes():
            perform(each, lambda text, title=each.title: say(f"{title}: {text}"))


def perform(step: Step, say: Say) -> None:
    """Makes the step's files unless another build just did. Raises UserError of whatever goes wrong; nothing half made is believed."""
    stop_if_interrupted()
    with ExitStack() as held:
        for folder in sorted({step.home, *(before.home for before in step.before)}):  # one order for all builds, so that none waits for ever
            held.enter_context(locked(folder, reading=folder != step.home))
        if not step.changes():
            return
        files, before = step.files(), _unedited(step)
        parts = step.parts(files)
        try:
            step.receipt_path.unlink(missing_ok=True)
            step.folder.mkdir(parents=True, exist_ok=True)
            made = _adopted(step, parts) or _action(step)(step, say)
            _require_unchanged({**files, **made.read})
            _tidy(step.folder, made.written)  # before the receipt: later stages read what is in the folder
            write_receipt(step.receipt_path, new_receipt(parts, made.read, made.written, step.folder, made.digests))
        except UserError:
            if before and step.stage.edited:  # so that an edit is still known as one
                write_receipt(step.receipt_path, before)
            raise
        except MemoryError:
            raise fail("E0005", f"there is not enough memory for {step.title}", place=str(step.job.path)) from None
        except OSError as error:
            raise fail("E0005", f"the system refused: {error.strerror}", place=str(error.filename or step.folder)) from None


def _adopted(step: Step, parts: Mapping[str, str]) -> Made | None:
    """Without the stage's action, where a build in another folder did the same."""
    receipt = adopt(step, parts)
    if receipt is None:
        return None
    digests = {step.folder / name: entry.digest for name, entry in receipt.written.items()}
    return Made([*digests], {Path(name): entry for name, entry in receipt.read.items()}, digests)


def _unedited(step: Step) -> Receipt | None:
    """The receipt of the last run. Raises UserError E1408 where a user has changed or added files that the stage would overwrite."""
    before = step.receipt()
    if before and step.stage.edited and (foreign := before.foreign(step.folder)):
        hint = f"copy it elsewhere, build with {step.stage.name}=COPY, and delete this one"
        raise fail("E1408", "this file is not as the build wrote it, and the build would overwrite it", hint=hint, place=str(foreign[0]))
    return before


def _require_unchanged(files: Mapping[Path, SeenFile]) -> None:
    """Raises UserError E1206 where a file was written while the stage read it: nothing tells which of its bytes were read.

    Hidden files are left to the next build: editors write such while a user only looks.
    """
    for path in changed({path: before for path, before in files.items() if not path.name.startswith(".")})[:1]:
        raise fail("E1206", "the file changed while it was read", hint="build again", place=str(path))


def _action(step: Step) -> Action:
    module, _, name = step.stage.action.partition(":")
    with rare_modules_deferred():
        return getattr(import_module(f"toolchain.tasks.actions.{module}"), name)


def _tidy(folder: Path, written: Sequence[Path]) -> None:
    """Takes away files of earlier runs."""
    kept = {*written}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in kept:
            path.unlink()
