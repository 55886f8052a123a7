"""Real pictures that Python packages bring, and text set in Pillow's own typeface."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Bytes = np.typing.NDArray[np.uint8]
PHOTOS = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "clock_motion.png",
    "coffee.png",
    "motorcycle_left.png",
    "rocket.jpg",
    "china.jpg",
    "flower.jpg",
)
"""Pictures of the world as a camera sees it."""
OTHERS = ("brick.png", "cell.png", "coins.png", "color.png", "grass.png", "gravel.png", "horse.png", "hubble_deep_field.jpg", "ihc.png",
          "microaneurysms.png", "moon.png", "page.png", "retina.jpg", "text.png")  # fmt: skip
"""Textures, drawings, and what microscopes and telescopes see."""
FOLDERS = {"skimage": "data", "sklearn": "datasets/images"}


def picture(name: str) -> Bytes:
    """[height, width, 3] of a picture of scikit-image or scikit-learn."""
    found = np.array(Image.open(picture_file(name)).convert("RGB"))
    return found.astype(np.uint8)


def picture_file(name: str) -> Path:
    """Raises FileNotFoundError where neither package is installed, or has no such picture."""
    for package, inside in FOLDERS.items():
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (path := Path(folder) / inside / name).is_file():
                return path
    raise FileNotFoundError(f"no picture {name}: pip install scikit-image scikit-learn")


def small_faces() -> Bytes:
    """[200, 25, 25] grey: a hundred faces, then a hundred patches without one (Labeled Faces in the Wild, as scikit-image brings a part of it)."""
    stored = np.load(picture_file("lfw_subset.npy"))
    return np.rint(stored * 255).astype(np.uint8)


def square(image: Bytes, size: int, share: float = 1.0, down: float = 0.5, right: float = 0.5) -> Bytes:
    """[size, size, 3]: the square of `share` of the shorter side, `down` and `right` of the room that is left, scaled."""
    height, width = image.shape[:2]
    side = int(min(height, width) * share)
    y, x = int((height - side) * down), int((width - side) * right)
    return scaled(image[y : y + side, x : x + side], size, size)


def scaled(image: Bytes, height: int, width: int) -> Bytes:
    """Bilinear; a smaller picture is smoothed first."""
    return np.array(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def boxed(image: Bytes, size: int, fill: int = 0) -> Bytes:
    """[size, size, 3]: the whole picture in the upper left corner, the rest filled up."""
    height, width = (round(side * size / max(image.shape[:2])) for side in image.shape[:2])
    found = np.full((size, size, 3), fill, np.uint8)
    found[:height, :width] = scaled(image, height, width)
    return found


def lines_on(image: Bytes, lines: Sequence[tuple[int, int, str]], size: int, colour: tuple[int, int, int] = (20, 20, 20)) -> Bytes:
    """The picture with texts at (x, y), `size` pixels high."""
    canvas = Image.fromarray(image)
    draw, font = ImageDraw.Draw(canvas), _font(size)
    for x, y, text in lines:
        draw.text((x, y), text, colour, font=font)
    return np.array(canvas)


def line(text: str, height: int, width: int, size: int, paper: int = 235, ink: int = 25, tilt: float = 0.0) -> Bytes:
    """[height, width, 3]: one line of text on plain paper, in the middle from the left, turned by `tilt` degrees."""
    canvas = Image.new("RGB", (width, height), (paper, paper, paper))
    ImageDraw.Draw(canvas).text((6, height // 2), text, (ink, ink, ink), font=_font(size), anchor="lm")
    if tilt:
        canvas = canvas.rotate(tilt, Image.Resampling.BILINEAR, fillcolor=(paper, paper, paper))
    return np.array(canvas)


def _font(size: int) -> Any:
    return ImageFont.load_default(size)
