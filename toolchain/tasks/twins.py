"""Results of a stage that a build in another folder has made of the very same parts: a machine with a wider bus has the graph of the one without."""

import glob
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from toolchain.spec.errors import UserError
from toolchain.spec.files import write_atomic
from toolchain.tasks.receipts import Receipt, changed, read_receipt
from toolchain.tasks.stage import Step


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
