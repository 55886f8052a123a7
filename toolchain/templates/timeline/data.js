  // ---- data: columns as typed arrays, instructions by lane in the order in which they start, busy cycles before each of them

  const TYPES = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

  /** A column of the file: little-endian numbers in base64. */
  function unpack({ type, data: text }) {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    return new TYPES[type](bytes.buffer);
  }

  const column = Object.fromEntries(Object.entries(data.columns).map(([name, packed]) => [name, unpack(packed)]));
  const start = column.start, count = start.length, total = Math.max(data.cycles, 1);
  const end = Float64Array.from(column.length, (length, i) => start[i] + length), LANE = 24, BAR = 16, ROOM = 44, ROW = 20;
  const byId = (id) => document.getElementById(id);
  const textOf = (i) => (data.text ? data.text[i] : ""), footprintOf = (i) => (data.footprint ? data.footprint[i] : "");
  const view = { from: 0, to: total };
  let chosen = -1, hovered = -1, marked = -1, matches = null, waiting = false;

  const lanes = data.lanes.map(([place, name, where]) => ({ place, name, measured: where === "measured", items: [] }));
  for (let i = 0; i < count; i++) lanes[column.lane[i]].items.push(i);
  for (const lane of lanes) {
    if (lane.items.some((i, at) => at && start[i] < start[lane.items[at - 1]])) lane.items.sort((a, b) => start[a] - start[b] || a - b);
    lane.start = Float64Array.from(lane.items, (i) => start[i]);
    lane.end = Float64Array.from(lane.items, (i) => end[i]);
    lane.before = new Float64Array(lane.items.length + 1);
    for (let at = 0; at < lane.items.length; at++) lane.before[at + 1] = lane.before[at] + lane.end[at] - lane.start[at];
  }
  for (const room of data.memories) { room.cycles = unpack(room.cycles); room.bytes = unpack(room.bytes); }

  /** The first index whose value is above `limit`, from `low` on; values ascend. */
  function above(values, limit, low = 0) {
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** Busy cycles of a lane from cycle 0 to `time`. */
  function busyUntil(lane, time) {
    const at = above(lane.start, time) - 1;
    return at < 0 ? 0 : lane.before[at] + Math.min(time, lane.end[at]) - lane.start[at];
  }

  // ---- colours: those of the page's style, in the dark too; the first twelve kinds are told apart best, further ones turn on the wheel

  const PALETTE = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#5f6b7a", "#b5a33a", "#3fa7b5", "#7d9b3c", "#a85f8d"];
  const wheel = (number) => `hsl(${(number * 137.508) % 360} 55% 52%)`;
  const kindColour = (kind) => (kind < PALETTE.length ? PALETTE[kind] : wheel(kind));
  const colours = {
    kind: (i) => kindColour(column.kind[i]),
    operation: (i) => (column.operation[i] < 0 ? "#9aa1ad" : wheel(column.operation[i])),
  };
  const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(`--${name}`).trim();
