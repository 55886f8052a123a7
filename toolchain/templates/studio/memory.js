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
    title.textContent = `${map.name}: ${columns.begin.length} rectangle${columns.begin.length === 1 ? "" : "s"}, addresses 0 to ${high.toLocaleString("en-US")} of ${map.capacity.toLocaleString("en-US")} bytes`;
    canvas.addEventListener("pointermove", (event) => tell(event));
    canvas.addEventListener("click", (event) => { const at = under(event); if (at >= 0 && columns.operation[at] >= 0) chooseOperation(columns.operation[at]); });
    return { columns, high, canvas, pixels: new Pixels(canvas), seen: true };

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
  let kept = -1;
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) maps.find((map) => map.canvas === target).seen = isIntersecting;
    draw(kept);
  });
  for (const map of maps) observer.observe(map.canvas);

  /** Those that the reader sees. */
  function draw(marked) {
    kept = marked;
    for (const map of maps) if (map.seen) drawMap(map, timeline, marked);
  }

  return { draw, close: () => observer.disconnect() };
}

const FULL = 0.85, FAINT = 0.15;

/** With an operation marked the others are faint, and below it. */
function drawMap(map, timeline, marked) {
  const { pixels } = map, track = timeline.inkBytes("track"), colours = (share) => Uint32Array.from(timeline.operationBytes, (bytes) => mixed(bytes, share, track));
  if (pixels.fit()) placeRows(map);
  pixels.clear();
  fillRectangles(map, timeline, colours(marked >= 0 ? FAINT : FULL), () => true);
  if (marked >= 0) fillRectangles(map, timeline, colours(FULL), (operation) => operation === marked);
  pixels.show();
}

/** The rows of pixels of each rectangle; tall ones leave one free to the next. */
function placeRows(map) {
  const { columns, pixels: { height }, high } = map, row = (byte) => Math.round(height - (byte / high) * height);
  map.top = Int32Array.from(columns.high, row);
  map.bottom = Int32Array.from(columns.low, (low, at) => Math.max(row(low) - (row(low) - map.top[at] > 4), map.top[at] + 1));
}

/** Those in view of the operations that are wanted; colours: of each operation, that of none before them. */
function fillRectangles({ columns, pixels, top, bottom }, timeline, colours, wanted) {
  const { from, to } = timeline.view, across = pixels.width / (to - from), { begin, stop, operation } = columns;
  for (let at = timeline.above(columns.furthest, from); at < begin.length && begin[at] < to; at++) {
    if (stop[at] <= from || !wanted(operation[at])) continue;
    const left = Math.floor(Math.max((begin[at] - from) * across, 0)), right = Math.floor(Math.min((stop[at] - from) * across, pixels.width));
    pixels.fill(left, top[at], Math.max(right, left + 1), bottom[at], colours[operation[at] + 1]);
  }
}
