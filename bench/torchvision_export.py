"""Exports torchvision's architectures with random weights, by both of torch's exporters; needs torch, torchvision and onnxscript.

python bench/torchvision_export.py FOLDER NAME_legacy NAME_dynamo ...
"""

import sys
import warnings
from pathlib import Path

import torch
from torchvision import models

SEED = 0
WITHOUT_TRAINING = {name: {"init_weights": False, "aux_logits": False} for name in ("inception_v3", "googlenet")}


def export(name: str, dynamo: bool, path: Path) -> None:
    """The network in evaluation mode, for one picture."""
    torch.manual_seed(SEED)
    net = getattr(models, name)(weights=None, **WITHOUT_TRAINING.get(name, {})).eval()
    size = 299 if name == "inception_v3" else 224
    options = {"dynamo": True, "external_data": False} if dynamo else {"dynamo": False}
    part = path.with_name(f"part.{path.name}")
    torch.onnx.export(net, (torch.zeros(1, 3, size, size),), str(part), input_names=["image"], verbose=False, **options)
    part.replace(path)


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[2:]:
        name, _, form = wanted.rpartition("_")
        export(name, form == "dynamo", folder / f"{wanted}.onnx")


if __name__ == "__main__":
    main()
