"""Pictures of a folder as samples: those of `prepare`, in the order of names, and every fault in one line."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from toolchain.graph.preparation import Preparation
from toolchain.models import pictures
from toolchain.models.model import Input, Pictures
from toolchain.models.pictures import picture_files, picture_samples
from toolchain.runtime.contents import Interface
from toolchain.runtime.pictures import prepare_picture
from toolchain.spec.errors import UserError

COLOUR = Preparation("nhwc", (0.5, 0.25, 0.0), (0.5, 2.0, 1.0), 1 / 255)
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 12, 10, 3), np.uint8)
ENTRY = Input((1, 3, 6, 5), preparation=COLOUR)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Written against the order of names, with files beside them that do not count."""
    for number, name in ((1, "b.BMP"), (0, "a.png"), (2, "c.png")):
        Image.fromarray(PIXELS[number]).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "._a.png").write_bytes(b"of another system")
    (tmp_path / "d.png").mkdir()
    return tmp_path


def refused(folder: Path, entry: Input = ENTRY) -> str:
    with pytest.raises(UserError) as caught:
        picture_samples(Pictures(folder), {"image": entry})
    return str(caught.value)


@pytest.mark.parametrize("shape", [(1, 3, 6, 5), (1, 12, 10, 3)])
def test_they_are_what_a_bundle_makes_of_them(shape: tuple[int, ...], folder: Path) -> None:
    found = picture_samples(Pictures(folder), {"image": Input(shape, preparation=COLOUR)})["image"]
    entry = Interface("image", shape, "float32", preparation=COLOUR)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.stack([prepare_picture(each, entry, resize=True) for each in PIXELS]))


def test_bytes_of_one_channel_are_grey(folder: Path) -> None:
    found = picture_samples(Pictures(folder), {"image": Input((1, 12, 10, 1), "uint8")})["image"]
    grey = PIXELS @ np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
    assert found.dtype == np.uint8
    assert np.abs(found[:, 0, :, :, 0] - grey).max() <= 1


def test_a_lossy_picture_is_nearly_the_same(tmp_path: Path) -> None:
    Image.new("RGB", (10, 12), (200, 100, 50)).save(tmp_path / "a.jpeg", quality=95)
    found = picture_samples(Pictures(tmp_path), {"image": Input((1, 3, 12, 10), preparation=Preparation())})["image"]
    assert np.abs(found[0, 0] - np.array([200, 100, 50])[:, None, None]).max() < 4


def test_only_pictures_count(folder: Path) -> None:
    assert [path.name for path in picture_files(folder)] == ["a.png", "b.BMP", "c.png"]
    assert picture_files(folder / "none") == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Input((1, 3)), r"takes no single picture of 1, 3 or 4 channels: it is float32 \[1, 3\]"),
        (Input((2, 3, 6, 5), preparation=COLOUR), "takes no single picture"),
        (Input((1, 5, 6, 7), preparation=COLOUR), "takes no single picture"),
        (Input((1, 3, 6, 5), "string"), "takes no single picture"),
        (Input((1, 3, 6, 5)), "the model does not say how a picture becomes the input 'image'; give 'mean'"),
        (Input((1, 3, 40000, 40000), preparation=COLOUR), "the 3 pictures of .* are more than"),
    ],
)
def test_an_input_that_no_picture_becomes_is_told(entry: Input, message: str, folder: Path) -> None:
    with pytest.raises(UserError, match=f"E0808 .*{message}"):
        picture_samples(Pictures(folder), {"image": entry})


def test_several_inputs_are_told(folder: Path) -> None:
    with pytest.raises(UserError, match="E0808 there are 2 inputs: a, b"):
        picture_samples(Pictures(folder), {"a": ENTRY, "b": ENTRY})


def test_faults_of_files_name_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{folder / 'd.png'}: E0808 there is no picture in the folder" in refused(folder / "d.png")
    (folder / "b.BMP").write_text("no picture")
    assert f"{folder / 'b.BMP'}: E0808 this is no picture that Pillow can read" in refused(folder)
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(folder / "a.png")
    assert f"{folder / 'a.png'}: E0808 the picture has more than eight bits a channel" in refused(folder)
    Image.new("1", (1 << 13, 1 << 13)).save(folder / "a.png")
    assert "E0808 the picture has 8192 x 8192 pixels, more than" in refused(folder)
    monkeypatch.setattr(pictures, "MOST_PICTURES", 2)
    assert "E0808 the 3 pictures of" in refused(folder)


def test_files_are_limited_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", (folder / "a.png").stat().st_size + 100)
    assert f"{folder / 'b.BMP'}: E0330" in refused(folder, Input((1, 3, 2, 2), "uint8"))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP"])
def test_a_damaged_picture_is_read_or_told(form: str, tmp_path: Path) -> None:
    held = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(held, form)
    whole, codes = held.getvalue(), set[str]()
    for place in range(0, len(whole), 5):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            (tmp_path / "a.png").write_bytes(data)
            try:
                picture_samples(Pictures(tmp_path), {"image": ENTRY})
            except UserError as error:
                codes |= {found.code for found in error.diagnostics}
    assert codes == {"E0808"}


def test_without_pillow_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setattr("toolchain.spec.packages.find_spec", lambda _name: None)
    assert "E0009" in (told := refused(folder))
    assert "pip install 'tilewright[calibration]'" in told
