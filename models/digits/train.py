"""Trains the network of network.yaml on scikit-learn's handwritten digits; writes digits.onnx and digits.npz beside this file.

Needs `pip install '.[train]'`. Run `python models/digits/train.py` from the checkout; takes under a minute.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from onnx import numpy_helper
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from toolchain.models.load import load_model
from toolchain.models.model import Layered
from toolchain.models.operators import Add, Convolution, Dense, Flatten, Layer, Normalisation, Operator, Pool, Relu
from toolchain.models.shape_graph import shape_graph

FOLDER = Path(__file__).parent
SEED = 7
TRAINING, CALIBRATION = 1197, 100
EPOCHS, BATCH, RATE, DECAY = 60, 64, 0.1, 5e-4
TRAINED = Convolution | Normalisation | Dense
SCALE = 0.125
"""Pixels 0..16 are stored as -8..8 and worth an eighth each, so that inputs lie in -1..1 and are exact in eight bits."""


def main() -> None:
    """Trains, prints the accuracy on the test images, writes the files."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    images, labels = _data()
    model = load_model(str(FOLDER / "network.yaml"))
    assert isinstance(model.origin, Layered)
    network = Network(model.origin.network.layers)
    x, y = torch.tensor(images * np.float32(SCALE)), torch.tensor(labels)
    train(network, x[:TRAINING], y[:TRAINING])
    network.eval()
    with torch.no_grad():
        right = (network(x[TRAINING:]).argmax(1) == y[TRAINING:]).double().mean().item()
    print(f"{right:.4f} of {len(y) - TRAINING} test images right")
    bare = shape_graph(model.name, model.origin.network, model.inputs)
    values = network.values()
    bare.proto.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in bare.parameters)
    (FOLDER / "digits.onnx").write_bytes(bare.proto.SerializeToString(deterministic=True))
    arrays = {"calibration": images[:CALIBRATION], "test": images[TRAINING:], "labels": labels[TRAINING:].astype(np.uint8)}
    np.savez_compressed(FOLDER / "digits.npz", **arrays)


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Images [1797, 1, 8, 8] int8 and classes, in a seeded order: first what is trained on, then what is tested."""
    digits = load_digits()
    order = np.random.Generator(np.random.Philox(SEED)).permutation(len(digits.target))
    return (digits.images[order, None] - 8).astype(np.int8), digits.target[order]


class Network(nn.Module):
    """The layers of the model file, with parameters to train."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        super().__init__()
        self.layers = layers
        self.modules_by_name = nn.ModuleDict()
        channels = {"image": 1}
        for layer in layers:
            if isinstance(layer.operator, TRAINED):
                self.modules_by_name[_key(layer.name)] = _module(layer.operator, channels[layer.inputs[0]])
            channels[layer.name] = layer.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """The last layer's result for a batch of images."""
        tensors = {"image": x}
        for layer in self.layers:
            inputs = [tensors[name] for name in layer.inputs]
            compute = self.modules_by_name[_key(layer.name)] if isinstance(layer.operator, TRAINED) else _plain(layer)
            tensors[layer.name] = compute(*inputs)
        return tensors[self.layers[-1].name]

    def values(self) -> dict[str, np.ndarray]:
        """Every parameter by the name that the ONNX graph gives it."""
        found: dict[str, np.ndarray] = {}
        for layer in self.layers:
            if not isinstance(layer.operator, TRAINED):
                continue
            state = self.modules_by_name[_key(layer.name)].state_dict()
            names = {"weight": "weight", "bias": "bias"}
            if isinstance(layer.operator, Normalisation):
                names = {"weight": "scale", "bias": "bias", "running_mean": "mean", "running_var": "variance"}
            found |= {f"{layer.name}.{ours}": state[theirs].numpy() for theirs, ours in names.items() if theirs in state}
        return found


def _key(name: str) -> str:
    return name.replace(".", "_")


def _module(operator: Operator, channels: int) -> nn.Module:
    match operator:
        case Convolution(out=out, window=window, bias=bias):
            return nn.Conv2d(channels, out, window.kernel, window.stride, window.pads[:2], bias=bias)
        case Normalisation(epsilon=epsilon):
            return nn.BatchNorm2d(channels, eps=epsilon)
        case Dense(out=out):
            return nn.Linear(channels, out)
        case _:
            raise TypeError(operator)


def _plain(layer: Layer) -> Callable[..., Tensor]:
    match layer.operator:
        case Relu():
            return functional.relu
        case Add():
            return torch.add
        case Pool(window=window):
            return lambda x: functional.max_pool2d(x, window.kernel, window.stride)
        case Flatten():
            return lambda x: x.flatten(1)
        case operator:
            raise TypeError(operator)


def train(network: Network, x: Tensor, y: Tensor) -> None:
    """Stochastic gradient descent with a falling rate, on images shifted by up to a pixel."""
    optimiser = torch.optim.SGD(network.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=DECAY)
    steps = EPOCHS * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    network.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for start in range(0, len(x) // BATCH * BATCH, BATCH):
            chosen = order[start : start + BATCH]
            loss = functional.cross_entropy(network(_shifted(x[chosen])), y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


def _shifted(x: Tensor) -> Tensor:
    """Every image moved by -1, 0 or 1 pixels both ways; blank paper (-1) comes in."""
    padded = functional.pad(x, (1, 1, 1, 1), value=-1.0)
    rows, columns = torch.randint(0, 3, (len(x),)), torch.randint(0, 3, (len(x),))
    return torch.stack([image[:, r : r + 8, c : c + 8] for image, r, c in zip(padded, rows, columns, strict=True)])


if __name__ == "__main__":
    main()
