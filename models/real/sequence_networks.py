"""Small networks of sequences, trained for a minute on made-up ones: a U-Net, convolutions with and without an LSTM, a tagger with a GRU."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from sequences import MADE, TAGS, WORDS
from torch import Tensor, nn


def _block(read: int, made: int) -> nn.Sequential:
    layers = [(nn.Conv1d(size, made, 7, padding=3), nn.BatchNorm1d(made), nn.ReLU()) for size in (read, made)]
    return nn.Sequential(*layers[0], *layers[1])


class UNet(nn.Module):
    """Two halvings of the length, and back, as in U-Time (Perslev et al., 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool1d(2)
        self.down = nn.ModuleList([_block(2, 16), _block(16, 32), _block(32, 64)])
        self.widen = nn.ModuleList([nn.ConvTranspose1d(64, 32, 2, 2), nn.ConvTranspose1d(32, 16, 2, 2)])
        self.up = nn.ModuleList([_block(64, 32), _block(32, 16)])
        self.last = nn.Conv1d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x)
        second = self.down[1](self.pool(first))
        third = self.down[2](self.pool(second))
        third = self.up[0](torch.cat([self.widen[0](third), second], 1))
        return self.last(self.up[1](torch.cat([self.widen[1](third), first], 1)))


class Sounds(nn.Module):
    """Convolutions on the wave itself, as M5 has them (Dai et al., 2017); then the mean over time, or an LSTM."""

    def __init__(self, steps: bool) -> None:
        super().__init__()
        sizes = ((1, 32, 16, 4, 4), (32, 64, 3, 1, 4), (64, 64, 3, 1, 2))
        parts = [[nn.Conv1d(i, o, k, s), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(p)] for i, o, k, s, p in sizes]
        self.features = nn.Sequential(*(layer for part in parts for layer in part))
        self.steps = nn.LSTM(64, 64, batch_first=True) if steps else None
        self.last = nn.Linear(64, 6)

    def forward(self, x: Tensor) -> Tensor:
        found = self.features(x)
        return self.last(found.mean(-1) if self.steps is None else self.steps(found.transpose(1, 2))[0][:, -1])


class Tagger(nn.Module):
    """A GRU in both directions over words, and a linear layer for each."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.steps = nn.Embedding(WORDS, 48), nn.GRU(48, 48, batch_first=True, bidirectional=True)
        self.last = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, TAGS))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.steps(self.words(x))[0])


def _tags(found: Tensor, wanted: Tensor) -> Tensor:
    return nn.functional.cross_entropy(found.flatten(0, 1), wanted.flatten())


@dataclass(frozen=True)
class Training:
    """samples: by their name in MADE. loss: of what the network makes and the answers."""

    net: Callable[[], nn.Module]
    samples: str
    loss: Callable[[Tensor, Tensor], Tensor]
    steps: int = 150


TRAININGS: Mapping[str, Training] = MappingProxyType(
    {
        "eeg_unet": Training(UNet, "spindles", nn.functional.binary_cross_entropy_with_logits, 120),
        "sound_cnn": Training(partial(Sounds, False), "sound_kinds", nn.functional.cross_entropy),
        "sound_lstm": Training(partial(Sounds, True), "sound_kinds", nn.functional.cross_entropy),
        "gru_tagger": Training(Tagger, "tagged_words", _tags, 300),
    }
)
"""By the name of the model."""


def export(path: Path, name: str) -> None:
    """Trains a network on one thread from seeds, and writes it."""
    told = TRAININGS[name]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, random, make = told.net(), np.random.default_rng(0), MADE[told.samples]
    steps = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(told.steps):
        read, wanted = make(16, random)
        steps.zero_grad()
        told.loss(net(torch.from_numpy(read)), torch.from_numpy(wanted)).backward()
        steps.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.from_numpy(make(1, random)[0])
        torch.onnx.export(net.eval(), (one,), str(path), dynamo=False, input_names=["x"], output_names=["y"])
