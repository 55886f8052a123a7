"use strict";
// Draws at most one bar a pixel and lane: a frame costs (width x lanes x log instructions), however long the program is.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const column = data.columns, count = column.kind.length;
  const start = Float64Array.from(column.start), end = Float64Array.from(column.end), released = Float64Array.from(column.released);
  const total = Math.max(data.cycles, 1), LANE = 24, BAR = 16, ROOM = 44, ROW = 20;
  const PALETTE = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#5f6b7a", "#b5a33a", "#3fa7b5", "#7d9b3c", "#a85f8d"];
  const byId = (id) => document.getElementById(id);
  const view = { from: 0, to: total };
  let chosen = -1, hovered = -1, marked = -1, matches = null, waiting = false;

  // ---- data by lane: instructions in the order in which they start, busy cycles before each of them

  const lanes = data.lanes.map((name) => ({ name, items: [] }));
  for (let i = 0; i < count; i++) lanes[column.lane[i]].items.push(i);
  for (const lane of lanes) {
    lane.items.sort((a, b) => start[a] - start[b] || a - b);
    lane.start = Float64Array.from(lane.items, (i) => start[i]);
    lane.end = Float64Array.from(lane.items, (i) => end[i]);
    lane.before = new Float64Array(lane.items.length + 1);
    lane.items.forEach((i, at) => { lane.before[at + 1] = lane.before[at] + end[i] - start[i]; });
  }

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

  const colours = {
    kind: (i) => PALETTE[column.kind[i] % PALETTE.length],
    operation: (i) => (column.operation[i] < 0 ? "#9aa1ad" : `hsl(${(column.operation[i] * 137.508) % 360} 55% 52%)`),
  };

{% include "draw.js" %}

  // ---- words

  const numeral = (value) => (Math.round(value * 10) / 10).toLocaleString("en-US");
  const ms = (cycles) => `${(cycles / data.khz).toPrecision(4)} ms`;

  /** Utilisation and occupancy of the part that is seen. */
  function tellWindow() {
    const span = view.to - view.from;
    byId("window").textContent = `cycles ${numeral(view.from)} to ${numeral(view.to)}: ${numeral(span)} cycles, ${ms(span)}`;
    lanes.forEach((lane, row) => {
      const busy = busyUntil(lane, view.to) - busyUntil(lane, view.from);
      byId("lanes").children[row].lastChild.textContent = `${((100 * busy) / span).toFixed(1)} %`;
    });
    data.memories.forEach((room, row) => {
      let most = 0;
      for (let at = Math.max(above(room.cycles, view.from) - 1, 0); at < room.cycles.length && room.cycles[at] < view.to; at++) most = Math.max(most, room.bytes[at]);
      byId("rooms").children[row].lastChild.textContent = `${((100 * most) / room.capacity).toFixed(1)} %`;
    });
    spans.forEach((each, number) => {
      byId("operations").children[number].classList.toggle("seen", each.from < view.to && each.to > view.from);
    });
  }

  function describe(i) {
    const lines = [`#${i} ${data.kinds[column.kind[i]]} on ${data.lanes[column.lane[i]]}: cycles ${numeral(start[i])} to ${numeral(end[i])} (${numeral(end[i] - start[i])})`];
    if (column.operation[i] >= 0) lines.push(`${data.operations[column.operation[i]].name} (${data.operations[column.operation[i]].kind})`);
    if (data.labels[column.label[i]]) lines.push(data.labels[column.label[i]]);
    return lines.concat(data.causes[i] || [], column.text[i], column.footprint[i]).join("\n");
  }

{% include "graph.js" %}

  // ---- moving

  function look(from, to) {
    const span = Math.min(Math.max(to - from, 4), total);
    view.from = Math.min(Math.max(from, 0), total - span);
    view.to = view.from + span;
    redraw();
  }

  function zoom(times, at = (view.from + view.to) / 2) {
    look(at - (at - view.from) * times, at + (view.to - at) * times);
  }

  function choose(i, move) {
    chosen = i;
    if (i < 0) return redraw();
    byId("detail").textContent = describe(i);
    if (column.operation[i] >= 0) byId("operations").children[column.operation[i]].scrollIntoView({ block: "nearest" });
    if (move && (start[i] < view.from || end[i] > view.to)) { const half = (view.to - view.from) / 2; look(start[i] - half, start[i] + half); }
    redraw();
  }

  /** The instruction under the pointer, or within three pixels of it. */
  function under(event) {
    const box = units.getBoundingClientRect(), lane = lanes[Math.floor((event.clientY - box.top) / LANE)];
    if (!lane) return -1;
    const time = view.from + (event.clientX - box.left) / scale(), reach = 3 / scale();
    const at = above(lane.end, time - reach);
    return at < lane.items.length && lane.start[at] <= time + reach ? lane.items[at] : -1;
  }

  function find(words) {
    const wanted = words.trim().toLowerCase();
    matches = null;
    if (wanted) {
      matches = new Set();
      const names = data.operations.map((operation) => operation.name.toLowerCase().includes(wanted)), labels = data.labels.map((label) => label.toLowerCase().includes(wanted));
      for (let i = 0; i < count; i++) {
        if (names[column.operation[i]] || labels[column.label[i]] || column.text[i].toLowerCase().includes(wanted) || column.footprint[i].toLowerCase().includes(wanted)) matches.add(i);
      }
    }
    byId("matches").textContent = matches ? `${numeral(matches.size)} of ${numeral(count)}` : "";
    redraw();
  }

  /** The next match in time, or the one before. */
  function step(forward) {
    if (!matches || !matches.size) return;
    const order = [...matches].sort((a, b) => start[a] - start[b] || a - b), at = order.indexOf(chosen);
    choose(order[(at < 0 ? (forward ? 0 : order.length - 1) : at + (forward ? 1 : -1) + order.length) % order.length], true);
  }

  // ---- events

  function listen() {
    let held = null;
    units.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), view.from + (event.clientX - units.getBoundingClientRect().left) / scale());
    }, { passive: false });
    units.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from: view.from, to: view.to, moved: false }; units.setPointerCapture(event.pointerId); });
    units.addEventListener("pointermove", (event) => {
      if (!held) return showTip(event);
      const by = (event.clientX - held.x) / scale();
      held.moved ||= Math.abs(event.clientX - held.x) > 3;
      look(held.from - by, held.to - by);
    });
    units.addEventListener("pointerup", (event) => { if (held && !held.moved) choose(under(event), false); held = null; });
    units.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
    overview.addEventListener("pointerdown", (event) => { overview.setPointerCapture(event.pointerId); jump(event); });
    overview.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); });
    byId("search").addEventListener("input", (event) => find(event.target.value));
    byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") step(!event.shiftKey); if (event.key === "Escape") event.target.blur(); });
    byId("colour").addEventListener("change", () => { showLegend(); redraw(); });
    byId("fit").addEventListener("click", () => { mark(-1, false); look(0, total); });
    window.addEventListener("resize", () => { fitCanvases(); redraw(); });
    document.addEventListener("keydown", (event) => { if (!/INPUT|SELECT/.test(event.target.tagName)) press(event); });
  }

  function press(event) {
    const span = view.to - view.from;
    const keys = {
      ArrowLeft: () => look(view.from - span / 4, view.to - span / 4), ArrowRight: () => look(view.from + span / 4, view.to + span / 4),
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), f: () => look(0, total),
      c: () => { if (chosen >= 0 && column.producer[chosen] >= 0) choose(column.producer[chosen], true); },
      "/": () => byId("search").focus(), Escape: () => { choose(-1, false); mark(-1, false); },
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  }

  function jump(event) {
    const at = ((event.clientX - overview.getBoundingClientRect().left) / overview.clientWidth) * total, half = (view.to - view.from) / 2;
    look(at - half, at + half);
  }

  function showTip(event) {
    const tip = byId("tip");
    hovered = under(event);
    tip.hidden = hovered < 0;
    if (hovered < 0) return;
    tip.textContent = describe(hovered);
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
  }

  // ---- the page

  function showLegend() {
    const legend = byId("legend");
    legend.textContent = "";
    if (byId("colour").value !== "kind") return;
    for (const kind of [...new Set(column.kind)].sort((a, b) => a - b)) {
      const entry = document.createElement("span"), box = document.createElement("i");
      box.style.background = PALETTE[kind % PALETTE.length];
      entry.append(box, data.kinds[kind]);
      legend.append(entry);
    }
  }

  function showNames(parent, names, height) {
    for (const [name, title] of names) {
      const row = document.createElement("div"), bold = document.createElement("b");
      row.style.height = row.style.lineHeight = `${height}px`;
      row.title = title;
      bold.textContent = name;
      row.append(bold, document.createElement("span"));
      parent.append(row);
    }
  }

  /** For measuring: so many views drawn one after the other, milliseconds of each on average. */
  function measure(frames) {
    const began = performance.now();
    for (let frame = 0; frame < frames; frame++) {
      const span = total / 1.5 ** (frame % 20), from = ((frame * 0.381966) % 1) * (total - span);
      view.from = from;
      view.to = from + span;
      draw();
    }
    document.body.dataset.frame = ((performance.now() - began) / frames).toFixed(3);
    look(0, total);
  }

  for (const canvas of canvases) canvas.dataset.height = canvas.getAttribute("height");
  const assumed = data.bounds.assumed.length ? `; assumed: ${data.bounds.assumed.join(", ")}` : "";
  byId("facts").textContent = `${data.machine}: ${numeral(data.cycles)} cycles, ${ms(data.cycles)}, ${numeral(count)} instructions; at least ${numeral(data.bounds.cycles)} (${data.bounds.by})`;
  byId("facts").title = `at ${data.khz / 1000} MHz${assumed}`;
  showNames(byId("lanes"), lanes.map((lane) => [lane.name, `${lane.items.length} instructions`]), LANE);
  showNames(byId("rooms"), data.memories.map((room) => [room.name, `${numeral(room.capacity)} bytes, counted by ${numeral(room.block)}; the most in view`]), ROOM);
  showOperations();
  showLegend();
  fitCanvases();
  listen();
  draw();
  const hash = new URLSearchParams(location.hash.slice(1));
  if (hash.has("measure")) measure(Number(hash.get("measure")));
  if (hash.has("find")) { byId("search").value = hash.get("find"); find(hash.get("find")); step(true); }
  if (hash.has("operation")) mark(Number(hash.get("operation")), true);
  if (hash.has("choose")) choose(Number(hash.get("choose")), true);
  document.body.dataset.instructions = count;
})();
