// ---- memory over time: a canvas for each memory, cycles across as in the timeline, addresses upwards

function startMaps(region, timeline, chooseOperation) {
  const place = document.getElementById("maps"), note = document.getElementById("map-name");
  place.textContent = "";
  const maps = region.maps.map((map) => {
    const columns = Object.fromEntries(Object.entries(map.columns).map(([name, packed]) => [name, timeline.unpack(packed)]));
    columns.begin = timeline.timesOf(columns.step);
    columns.stop = columns.begin.map((begin, at) => begin + columns.length[at]);
    columns.furthest = columns.stop.slice();  // of all up to one: rises, so that the first in view is found by halving
    for (let at = 1; at < columns.furthest.length; at++) columns.furthest[at] = Math.max(columns.furthest[at], columns.furthest[at - 1]);
    const high = columns.high.reduce((most, value) => Math.max(most, value), 1), title = element("p", "", place), canvas = element("canvas", "", place);
    title.textContent = `${map.name}: ${columns.begin.length} rectangles, addresses 0 to ${high.toLocaleString("en-US")} of ${map.capacity.toLocaleString("en-US")} bytes`;
    canvas.addEventListener("pointermove", (event) => tell(event));
    canvas.addEventListener("click", (event) => { const at = under(event); if (at >= 0 && columns.operation[at] >= 0) chooseOperation(columns.operation[at]); });
    return { map, columns, high, canvas, thin: new ThinRectangles(timeline.operationColour), tell, under };

    /** The last rectangle that is drawn under the pointer. */
    function under(event) {
      const box = canvas.getBoundingClientRect(), { from, to } = timeline.view;
      const time = from + ((event.clientX - box.left) / box.width) * (to - from), byte = (1 - (event.clientY - box.top) / box.height) * high;
      for (let at = columns.begin.length - 1; at >= 0; at--) {
        if (columns.begin[at] <= time && time < columns.stop[at] && columns.low[at] <= byte && byte < columns.high[at]) return at;
      }
      return -1;
    }

    function tell(event) {
      const at = under(event);
      note.textContent = at < 0 ? "\u00a0" : `${map.names[columns.name[at]]}: bytes ${columns.low[at]} to ${columns.high[at]}, cycles ${columns.begin[at].toFixed(1)} to ${columns.stop[at].toFixed(1)}`;
    }
  });
  const draw = (marked) => { for (const map of maps) drawMap(map, timeline, marked); };
  return { draw };
}

function drawMap({ columns, high, canvas, thin }, timeline, marked) {
  const ratio = window.devicePixelRatio || 1, { from, to } = timeline.view, width = canvas.clientWidth, tall = canvas.clientHeight, context = canvas.getContext("2d");
  canvas.width = Math.max(Math.round(width * ratio), 1);
  canvas.height = Math.max(Math.round(tall * ratio), 1);
  context.scale(ratio, ratio);
  const across = width / (to - from), up = tall / high;
  let style = NaN;
  thin.begin(canvas, ratio);
  for (let at = timeline.above(columns.furthest, from); at < columns.begin.length && columns.begin[at] < to; at++) {
    if (columns.stop[at] <= from) continue;
    const x = Math.max((columns.begin[at] - from) * across, 0), right = Math.min((columns.stop[at] - from) * across, width), operation = columns.operation[at];
    const top = tall - columns.high[at] * up, deep = Math.max((columns.high[at] - columns.low[at]) * up - 0.3, 0.7), faint = marked >= 0 && operation !== marked;
    if (right - x < 1) { thin.fill(x, top, deep, operation, faint); continue; }
    context.globalAlpha = faint ? FAINT : FULL;
    if (style !== operation) context.fillStyle = timeline.operationColour((style = operation));
    context.fillRect(x, top, right - x, deep);
  }
  thin.end(context, width, tall);
}

const FULL = 0.85, FAINT = 0.15;

/** Rectangles narrower than a pixel: as pixels of a picture, tens of thousands cost a frame little. */
class ThinRectangles {
  constructor(colourOf) {
    Object.assign(this, { colourOf, canvas: document.createElement("canvas"), colours: new Map() });
    this.context = this.canvas.getContext("2d");
  }

  begin({ width, height }, ratio) {
    Object.assign(this, { ratio, width, height, image: null });
  }

  fill(x, top, deep, operation, faint) {
    if (!this.image) {
      this.image = this.context.createImageData(this.width, this.height);
      this.bits = new Uint32Array(this.image.data.buffer);
    }
    const { bits } = this, colour = this.colourBits(operation, faint);
    const first = Math.max(Math.floor(top * this.ratio), 0), last = Math.min(Math.ceil((top + deep) * this.ratio), this.height), left = Math.min(Math.floor(x * this.ratio), this.width - 1);
    for (let row = first; row < last; row++) {
      const place = row * this.width + left;
      if (!faint || !bits[place]) bits[place] = colour;  // a faint one hides none
    }
  }

  /** The bytes red, green, blue and opacity as one number. */
  colourBits(operation, faint) {
    const key = 2 * operation + faint;
    if (!this.colours.has(key)) {
      this.context.fillStyle = this.colourOf(operation);
      const [red, green, blue] = this.context.fillStyle.match(/[0-9a-f]{2}/g).map((byte) => parseInt(byte, 16));
      this.colours.set(key, ((Math.round(255 * (faint ? FAINT : FULL)) << 24) | (blue << 16) | (green << 8) | red) >>> 0);
    }
    return this.colours.get(key);
  }

  end(context, width, tall) {
    if (!this.image) return;
    Object.assign(this.canvas, { width: this.width, height: this.height });
    this.context.putImageData(this.image, 0, 0);
    context.globalAlpha = 1;
    context.drawImage(this.canvas, 0, 0, width, tall);
  }
}
