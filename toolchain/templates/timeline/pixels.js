// ---- canvases whose pixels the script sets itself: tens of thousands of rectangles cost a frame little

/** Places and sizes are pixels of the screen; colours are the bytes red, green, blue and opacity as one number. */
class Pixels {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = this.height = 0;
  }

  /** Takes the size that the element has on the screen; says whether it is another one. */
  fit() {
    const { canvas, context } = this, ratio = window.devicePixelRatio || 1, size = (css) => Math.max(Math.round(css * ratio), 1);
    const width = size(canvas.clientWidth), height = size(canvas.clientHeight);
    this.wide = canvas.clientWidth;
    if (width === this.width && height === this.height && ratio === this.ratio) return false;
    Object.assign(this, { width, height, ratio });
    Object.assign(canvas, { width, height });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);  // for what is drawn on top
    this.image = context.createImageData(width, height);
    this.bits = new Uint32Array(this.image.data.buffer);
    return true;
  }

  clear() {
    this.bits.fill(0);
  }

  /** A rectangle of whole pixels, cut to the canvas. */
  fill(left, top, right, bottom, colour) {
    const { bits, width } = this, begin = Math.max(left, 0), end = Math.min(right, width), below = Math.min(bottom, this.height);
    for (let row = Math.max(top, 0); row < below; row++) {
      const line = row * width;
      if (end - begin > 16) bits.fill(colour, line + begin, line + end);
      else for (let at = begin; at < end; at++) bits[line + at] = colour;
    }
  }

  show() {
    this.context.putImageData(this.image, 0, 0);
  }
}

/** The bytes of a colour in words of CSS. */
const bytesOf = (() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  return (words) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = words;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
})();

/** A colour as one number, as much of it as `share` says; the rest is that of the bytes `under`. */
function mixed([red, green, blue], share, under) {
  const part = (over, below) => Math.round(over * share + below * (1 - share));
  return ((255 << 24) | (part(blue, under[2]) << 16) | (part(green, under[1]) << 8) | part(red, under[0])) >>> 0;
}
