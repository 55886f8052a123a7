// ---- memory over time: a canvas for each memory, cycles across as in the timeline, addresses upwards

function startMaps(region, timeline, chooseOperation) {
  const place = document.getElementById("maps"), note = document.getElementById("map-name");
  place.textContent = "";
  const maps = region.maps.map((map) => {
    const columns = Object.fromEntries(Object.entries(map.columns).map(([name, packed]) => [name, timeline.unpack(packed)]));
    columns.begin = timeline.timesOf(columns.step);
    columns.stop = columns.begin.map((begin, at) => begin + columns.length[at]);
    const high = columns.high.reduce((most, value) => Math.max(most, value), 1), title = element("p", "", place), canvas = element("canvas", "", place);
    title.textContent = `${map.name}: ${columns.begin.length} rectangles, addresses 0 to ${high.toLocaleString("en-US")} of ${map.capacity.toLocaleString("en-US")} bytes`;
    canvas.addEventListener("pointermove", (event) => tell(event));
    canvas.addEventListener("click", (event) => { const at = under(event); if (at >= 0 && columns.operation[at] >= 0) chooseOperation(columns.operation[at]); });
    return { map, columns, high, canvas, tell, under };

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
  const draw = (marked) => { for (const map of maps) drawMap(map, timeline.view, marked, timeline.operationColour); };
  return { draw };
}

function drawMap({ columns, high, canvas }, { from, to }, marked, colour) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, tall = canvas.clientHeight, context = canvas.getContext("2d");
  canvas.width = Math.max(Math.round(width * ratio), 1);
  canvas.height = Math.max(Math.round(tall * ratio), 1);
  context.scale(ratio, ratio);
  const across = width / (to - from), up = tall / high, filled = new Int32Array(Math.ceil(tall) + 1).fill(-1);
  let style = NaN;
  for (let at = 0; at < columns.begin.length && columns.begin[at] < to; at++) {
    if (columns.stop[at] <= from) continue;
    const x = Math.max((columns.begin[at] - from) * across, 0), right = Math.min((columns.stop[at] - from) * across, width);
    const row = Math.max(Math.floor(tall - columns.high[at] * up), 0), pixel = Math.floor(x) * 4096 + ((columns.operation[at] + 1) & 4095);
    if (right - x < 1 && filled[row] === pixel) continue;  // another one of its operation stands in this pixel
    filled[row] = pixel;
    const height = Math.max((columns.high[at] - columns.low[at]) * up, 0.7);
    context.globalAlpha = marked >= 0 && columns.operation[at] !== marked ? 0.15 : 0.85;
    if (style !== columns.operation[at]) context.fillStyle = colour((style = columns.operation[at]));
    context.fillRect(x, tall - columns.high[at] * up, Math.max(right - x, 0.7), Math.max(height - 0.3, 0.7));
  }
}
