"""Pictures of a folder as samples: those of `prepare`, in the order of names, and every fault in one line. Calibration and test data, recorded
and made up."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.models.small import HEAD
from toolchain.api.model import prepare_picture
from toolchain.graph.preparation import Preparation
from toolchain.models import samples
from toolchain.models.load import load_text
from toolchain.models.model import Input, Model, Pictures
from toolchain.models.samples import picture_files, picture_samples, seeded_samples
from toolchain.runtime.contents import Interface
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
    monkeypatch.setattr(samples, "MOST_PICTURES", 2)
    assert "E0808 the 3 pictures of" in refused(folder)


def test_files_are_limited_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_BYTES", (folder / "a.png").stat().st_size + 100)
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


@pytest.mark.parametrize("shape", [(1, 3, 224, 224), (1, 1, 8, 8), (1, 3, 299, 160), (1, 77), (1, 5, 9)])
def test_values_are_whole_64ths_of_deviation_about_1(shape: tuple[int, ...]) -> None:
    samples = seeded_samples("image", shape, 8, "calibration")
    assert samples.shape == (8, *shape[1:])
    assert samples.dtype == np.float32
    assert (samples * 64 == np.rint(samples * 64)).all()
    assert samples.min() >= -2
    assert samples.max() < 2
    assert 0.6 < samples.std() < 1.3


def test_neighbours_are_alike_but_not_equal() -> None:
    picture = seeded_samples("image", (1, 3, 224, 224), 1, "calibration")[0]
    for far, least, most in ((1, 0.6, 0.95), (64, -0.4, 0.4)):
        assert least < np.corrcoef(picture[:, :, far:].ravel(), picture[:, :, :-far].ravel())[0, 1] < most
    assert 0.5 < np.corrcoef(picture[0].ravel(), picture[1].ravel())[0, 1] < 0.999


def test_samples_differ_by_number_name_and_purpose_and_not_by_count() -> None:
    shape = (1, 3, 16, 16)
    first, second = seeded_samples("image", shape, 2, "calibration")
    assert (first == seeded_samples("image", shape, 1, "calibration")[0]).all()
    others = [second, seeded_samples("image", shape, 1, "test")[0], seeded_samples("left", shape, 1, "calibration")[0]]
    assert all((first != other).mean() > 0.5 for other in others)


X = np.arange(2 * 4 * 12 * 10).reshape(2, 4, 12, 10).astype(np.int16)
TEST = "test: {file: d.npz, array: x, labels: y, scale: 0.25}\n"


def model(tmp_path: Path, more: str, **arrays: np.ndarray) -> Model:
    np.savez(tmp_path / "d.npz", **arrays)
    return load_text(f"{HEAD}layers: [relu]\n{more}", tmp_path / "m.yaml")


def test_made_up_calibration_is_the_default(tmp_path: Path) -> None:
    found = samples.calibration_samples(model(tmp_path, ""))
    assert (found["image"][:, 0] == seeded_samples("image", (1, 4, 12, 10), 8, "calibration")).all()
    assert len(samples.calibration_samples(model(tmp_path, "calibration: {seeded: 3}\n"))["image"]) == 3


def test_recorded_calibration_is_scaled(tmp_path: Path) -> None:
    found = samples.calibration_samples(model(tmp_path, "calibration: {file: d.npz, array: x, scale: 0.5}\n", x=X))
    assert found["image"].dtype == np.float32
    assert (found["image"][:, 0] * 2 == X).all()


def test_test_data_come_with_their_classes(tmp_path: Path) -> None:
    found = samples.labelled_samples(model(tmp_path, TEST, x=X, y=np.uint8([3, 1])))
    assert found is not None
    images, labels = found
    assert labels is not None
    assert (images["image"][:, 0] * 4 == X).all()
    assert labels.tolist() == [3, 1]
    assert samples.labelled_samples(model(tmp_path, "")) is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": X}, "there is no array 'x' in .*; known: z"),
        ({}, "there is no array 'x' in .*; known: none"),
        ({"x": X[:, :3]}, r"'x' is int16\[2, 3, 12, 10\], not numbers of shape \['n', 4, 12, 10\]"),
        ({"x": X[:0]}, r"'x' is int16\[0, 4, 12, 10\]"),
        ({"x": X.astype("U1")}, "'x' is <U1"),
        ({"x": np.where(X == 7, np.nan, X)}, "'x' holds numbers that are not finite"),
        ({"x": X.astype(object)}, "is not an .npz file of plain arrays"),
        ({"x": X, "y": np.float32([1, 2])}, "'y' is not one whole number for each of 2 samples"),
        ({"x": X, "y": np.uint8([1])}, "'y' is not one whole number for each of 2 samples"),
    ],
)
def test_data_that_do_not_fit_are_told(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    declared = model(tmp_path, TEST, **arrays)
    with pytest.raises(UserError, match=rf"m\.yaml:4:14: E0808 {'.*' if message.startswith('is') else ''}{message}"):
        samples.labelled_samples(declared)


@pytest.mark.parametrize("data", [None, b"", b"PK\x03\x04 cut", b"\x93NUMPY"])
def test_a_file_that_is_none_is_told(data: bytes | None, tmp_path: Path) -> None:
    declared = model(tmp_path, TEST, x=X)
    (tmp_path / "d.npz").unlink()
    if data is not None:
        (tmp_path / "d.npz").write_bytes(data)
    with pytest.raises(UserError, match="E0001 cannot read the sample file" if data is None else "E0808"):
        samples.labelled_samples(declared)


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    declared = model(tmp_path, TEST, x=X, y=np.uint8([3, 1]))
    whole = (tmp_path / "d.npz").read_bytes()
    codes: set[str] = set()
    for place in range(0, len(whole), 29):
        (tmp_path / "d.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            samples.labelled_samples(declared)
        except UserError as error:
            codes |= {found.code for found in error.diagnostics}
    assert codes == {"E0808"}


def test_a_folder_is_one_of_pictures(tmp_path: Path) -> None:
    Image.new("L", (10, 12), 7).save(tmp_path / "a.png")
    told = "model: {name: grey, summary: a test}\ninputs: {image: {shape: [1, 1, 12, 10], scale: 2}}\nlayers: [relu]\n"
    plain = load_text(told, tmp_path / "m.yaml")
    declared = load_text(f"{told}calibration: {{folder: .}}\n", tmp_path / "m.yaml")
    for found in (declared, samples.calibrated_by(plain, tmp_path)):
        assert (samples.calibration_samples(found)["image"] == np.full((1, 1, 1, 12, 10), 14, np.float32)).all()
        assert samples.sample_files(found.calibration) == (tmp_path, tmp_path / "a.png")
    (tmp_path / "a.png").unlink()
    with pytest.raises(UserError, match=r"m\.yaml:4:23: E0808 there is no picture in the folder"):
        samples.calibration_samples(declared)
