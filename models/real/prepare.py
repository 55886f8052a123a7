#!/usr/bin/env python3
"""Makes what the models of this folder need beside their packages, in the user's cache: arrays of pictures, and ONNX files where a package has none.

Usage: python models/real/prepare.py [MODEL ...]

Without a name for all of them; a file that is there stays, one that cannot be made is told with its reason, and the exit code is 1.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from exports import EXPORTS, FORMS  # noqa: E402
from samples import SAMPLES  # noqa: E402

from toolchain.models.files import cache_folder  # noqa: E402


def needed(model: Path) -> Iterator[str]:
    """Files of the cache that a model names, in the order in which they are made."""
    told = yaml.safe_load(model.read_text())
    entries = [told[key].get("file") for key in ("calibration", "test") if key in told] + [told["onnx"]]
    names = [entry["cache"] for entry in entries if isinstance(entry, dict) and "cache" in entry]
    if any(Path(name).stem in FORMS for name in names):
        names.insert(1, "real/efficientnet_lite0.onnx")
    yield from dict.fromkeys(names)


def make(name: str) -> str:
    """Makes a file that is not there; why it cannot be made, or nothing."""
    path = cache_folder() / name
    if path.is_file():
        return ""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part.{path.name}")
    try:
        if path.suffix == ".npz":
            np.savez_compressed(part, **SAMPLES[path.stem]())
            part.replace(path)
        else:
            EXPORTS[path.stem](path)
    except (ImportError, FileNotFoundError) as error:
        return f"{name}: {error}"
    print(f"made {path}")
    return ""


def main() -> int:
    models = [HERE / f"{name}.yaml" for name in sys.argv[1:]] or sorted(HERE.glob("*.yaml"))
    wrong = [told for name in dict.fromkeys(name for model in models for name in needed(model)) if (told := make(name))]
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
