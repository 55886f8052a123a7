  // ---- data: columns as typed arrays, instructions by lane in the order in which they start, busy cycles before each of them

  const TYPES = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

  /** A column of the file: little-endian numbers in base64; with `of` they are indices of its values. */
  function unpack({ type, data: text, of }) {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    const numbers = new TYPES[type](bytes.buffer);
    if (!of) return numbers;
    const table = unpack(of), values = new table.constructor(numbers.length);
    for (let at = 0; at < numbers.length; at++) values[at] = table[numbers[at]];
    return values;
  }

  /** Cycles of steps in thousandths of a cycle. */
  function timesOf(steps) {
    let last = 0;
    return Float64Array.from(steps, (step) => (last += step) / 1000);
  }

  const column = Object.fromEntries(Object.entries(data.columns).map(([name, packed]) => [name, unpack(packed)]));
  const count = column.step.length, total = Math.max(data.cycles, 1), last = new Float64Array(data.lanes.length);
  const start = new Float64Array(count), end = new Float64Array(count);
  for (let i = 0; i < count; i++) { start[i] = (last[column.lane[i]] += column.step[i]) / 1000; end[i] = start[i] + column.length[i]; }
  const causeOf = (i) => (column.back[i] ? i - column.back[i] : -1), LANE = 24, BAR = 16, ROOM = 44, ROW = 20;
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
  for (const room of data.memories) { room.cycles = timesOf(unpack(room.step)); room.levels = mostLevels(unpack(room.bytes)); room.bytes = room.levels[0]; }

  /** The first index whose value is above `limit`, from `low` up to `high`; values ascend. */
  function above(values, limit, low = 0, high = values.length) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** The same, for one that is near `low`: by steps that double. */
  function aboveNear(values, limit, low) {
    let step = 1;
    while (low + step < values.length && values[low + step] <= limit) { low += step; step *= 2; }
    return above(values, limit, low, Math.min(low + step, values.length));
  }

  /** The values, the most of each 16 of them, the most of each 16 of those, and so on. */
  function mostLevels(values) {
    const levels = [values];
    for (let below = values; below.length > 16; levels.push(below)) {
      const from = below;
      below = new Float64Array(Math.ceil(from.length / 16));
      for (let at = 0; at < from.length; at++) below[at >> 4] = Math.max(below[at >> 4], from[at]);
    }
    return levels;
  }

  /** The most of the values from `low` up to, not including, `high`. */
  function mostOf(levels, low, high) {
    let most = 0;
    for (let step = 0; low < high; step++) {
      const level = levels[step], last = step === levels.length - 1;
      while (low < high && (last || low % 16)) most = Math.max(most, level[low++]);
      while (low < high && high % 16) most = Math.max(most, level[--high]);
      low /= 16;
      high /= 16;
    }
    return most;
  }

  /** Busy cycles of a lane from cycle 0 to `time`. */
  function busyUntil(lane, time) {
    const at = above(lane.start, time) - 1;
    return at < 0 ? 0 : lane.before[at] + Math.min(time, lane.end[at]) - lane.start[at];
  }

  // ---- colours: those of the page's style, in the dark too; twelve kinds are told apart well, further ones turn on the wheel

  const PALETTE = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#5f6b7a", "#b5a33a", "#3fa7b5", "#7d9b3c", "#a85f8d"];
  const wheel = (number) => `hsl(${(number * 137.508) % 360} 55% 52%)`, present = [...new Set(column.kind)].sort((a, b) => a - b);
  const place = (kind) => (data.kinds.length > PALETTE.length ? present.indexOf(kind) : kind), kindColour = (kind) => PALETTE[place(kind)] ?? wheel(kind);
  const operationColour = (number) => (number < 0 ? "#9aa1ad" : wheel(number));
  const kindBytes = data.kinds.map((_, kind) => bytesOf(kindColour(kind))), operationBytes = [-1, ...data.operations.keys()].map((number) => bytesOf(operationColour(number)));
  const roomBytes = data.memories.map((_, row) => bytesOf(PALETTE[row % PALETTE.length]));
  const bytesBy = { kind: (i) => kindBytes[column.kind[i]], operation: (i) => operationBytes[column.operation[i] + 1] };
  const style = getComputedStyle(document.documentElement), inks = new Map();

  /** A colour of the style, and its bytes; both are forgotten where the colours change. */
  function ink(name) {
    if (!inks.has(name)) {
      const words = style.getPropertyValue(`--${name}`).trim();
      inks.set(name, { words, bytes: bytesOf(words) });
    }
    return inks.get(name).words;
  }

  const inkBytes = (name) => ink(name) && inks.get(name).bytes;
