  // ---- drawing

  const [overview, axis, units, memory] = ["overview", "axis", "units", "memory"].map(byId), pixels = [overview, axis, units, memory].map((canvas) => new Pixels(canvas));
  const [overviewPixels, axisPixels, unitPixels, memoryPixels] = pixels;
  const scale = () => unitPixels.wide / (view.to - view.from);
  let drawn = 0;

  function fitCanvases() {
    units.style.height = `${Math.max(rows.length, 1) * LANE}px`;
    memory.style.height = `${Math.max(data.memories.length, 1) * ROOM}px`;
    for (const each of pixels) if (each.fit() && each === overviewPixels) drawWhole();
  }

  function draw() {
    waiting = false;
    drawAxis();
    drawUnits();
    drawMemory();
    showPlace();
    told.draw?.();
    tellWindow();
  }

  function redraw() {
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  }

  /** One bar for each instruction of a lane that is seen; shorter ones that begin in one pixel are one. paint(index, x, width, share of that width that is busy). */
  function eachBar(lane, from, to, width, paint) {
    const across = width / (to - from), busy = (at, time) => (at < lane.items.length ? lane.before[at] + Math.max(time - lane.start[at], 0) : lane.before[at]);
    let at = above(lane.end, from), free = 0;
    while (at < lane.items.length && lane.start[at] < to) {
      const x = (lane.start[at] - from) * across, wide = (lane.end[at] - lane.start[at]) * across;
      if (wide >= 1) { paint(lane.items[at], x, wide, 1); at++; continue; }
      const left = Math.max(Math.floor(x), free), begin = from + left / across, end = begin + 1 / across, next = Math.max(at + 1, aboveNear(lane.end, end, at));
      paint(lane.items[at], left, 1, Math.min((busy(next, end) - busy(at, begin)) * across, 1));
      free = left + 1;
      at = next;
    }
  }

  function dimmed(i) {
    return (matches && !matches.has(i)) || (marked >= 0 && column.operation[i] !== marked);
  }

  function drawUnits() {
    const { context, width, ratio } = unitPixels, named = [], track = inkBytes("track");
    drawn = 0;
    unitPixels.clear();
    rows.forEach((row, number) => {
      const top = number * LANE + (LANE - BAR) / 2;
      if (row.lanes.length) unitPixels.fill(0, Math.round(top * ratio), width, Math.round((top + BAR) * ratio), mixed(track, 1, track));
    });
    for (const lane of lanes) drawLane(lane, named);
    unitPixels.show();
    context.fillStyle = "#fff";
    context.font = "11px system-ui, sans-serif";
    for (const [i, x, top, wide, strength] of named) { context.globalAlpha = strength; nameBar(context, i, x, top, wide); }
    context.globalAlpha = 1;
    if (matches) drawMatches(context, unitPixels.wide, scale());
    if (range) drawRange(context, units, rows.length * LANE);
    if (chosen >= 0) drawChosen(context, scale());
  }

  /** Collects the bars that have room for their names. */
  function drawLane(lane, named) {
    const { top, high } = bandOf(lane), { width, ratio } = unitPixels, bytes = bytesBy[byId("colour").value], track = inkBytes("track");
    const above = Math.round(top * ratio), below = Math.max(Math.round((top + high) * ratio), above + 1);
    eachBar(lane, view.from, view.to, width, (i, x, wide, busy) => {
      drawn++;
      const strength = dimmed(i) ? 0.18 : 1, left = Math.round(x), right = Math.max(Math.round(x + wide) - (wide > 4), left + 1);
      if (high >= BAR) drawWaiting(i, x, wide, above, below, strength);
      unitPixels.fill(left, above, right, below, mixed(bytes(i), strength * Math.max(busy, 0.25), track));
      if (wide > 60 * ratio && high >= BAR) named.push([i, x / ratio, top, wide / ratio, strength]);
    });
  }

  /** Before the bar: its unit was idle. After it: a full counter held the unit. */
  function drawWaiting(i, x, wide, above, below, strength) {
    const { width, ratio } = unitPixels, across = width / (view.to - view.from), track = inkBytes("track");
    const waited = column.waited[i] * across, kept = column.held[i] * across;
    if (waited > 3 * ratio) unitPixels.fill(Math.round(x - waited), below - Math.round(4 * ratio), Math.round(x), below, mixed(inkBytes("waited"), strength, track));
    if (kept > 3 * ratio) unitPixels.fill(Math.round(x + wide), above, Math.round(x + wide + kept), below, mixed(inkBytes("held"), strength, track));
  }

  function nameBar(context, i, x, top, wide) {
    const left = Math.max(x, 0) + 4, room = Math.min(x + wide, unitPixels.wide) - left - 4;
    const words = column.operation[i] < 0 ? data.kinds[column.kind[i]] : `${data.kinds[column.kind[i]]} ${data.operations[column.operation[i]].name}`;
    const letters = Math.floor(room / 6.2);
    if (letters < 3) return;
    context.fillText(words.length > letters ? `${words.slice(0, letters - 1)}…` : words, left, top + BAR - 4.5);
  }

  /** A mark above each match, also where another bar covers it. */
  function drawMatches(context, width, pixels) {
    context.fillStyle = ink("bad");
    for (const i of matches) {
      const x = (start[i] - view.from) * pixels;
      if (x >= 0 && x <= width) context.fillRect(x, lanes[column.lane[i]].at.row * LANE, 1.5, 4);
    }
  }

  /** The instruction that was clicked, and a line from the one that it waited for. */
  function drawChosen(context, pixels) {
    const at = (time) => (time - view.from) * pixels, row = (i) => lanes[column.lane[i]].at.row, middle = (i) => row(i) * LANE + LANE / 2;
    context.strokeStyle = ink("ink");
    context.lineWidth = 1.5;
    context.strokeRect(at(start[chosen]), row(chosen) * LANE + 2, Math.max((end[chosen] - start[chosen]) * pixels, 2), LANE - 4);
    const cause = causeOf(chosen);
    if (cause < 0) return;
    context.beginPath();
    context.moveTo(at(end[cause]), middle(cause));
    context.lineTo(at(start[chosen]), middle(chosen));
    context.stroke();
  }

  function drawMemory() {
    const { width, ratio } = memoryPixels, across = width / (view.to - view.from), track = inkBytes("track");
    memoryPixels.clear();
    data.memories.forEach((room, row) => {
      const bottom = Math.round(((row + 1) * ROOM - 4) * ratio), high = Math.round((ROOM - 8) * ratio), colour = mixed(roomBytes[row], 1, track);
      memoryPixels.fill(0, bottom - high, width, bottom, mixed(track, 1, track));
      let at = Math.max(above(room.cycles, view.from) - 1, 0);
      while (at < room.cycles.length && room.cycles[at] < view.to) {
        const left = Math.max(Math.floor((room.cycles[at] - view.from) * across), 0), next = Math.max(at + 1, aboveNear(room.cycles, view.from + (left + 1) / across, at));
        const until = ((next < room.cycles.length ? room.cycles[next] : total) - view.from) * across;
        memoryPixels.fill(left, bottom - Math.ceil((mostOf(room.levels, at, next) / room.capacity) * high), Math.max(Math.floor(until), left + 1), bottom, colour);
        at = next;
      }
    });
    memoryPixels.show();
  }

  /** A round step so that about one label stands in `room` pixels. */
  function stepOf(span, width, room) {
    const least = (span * room) / width, power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((times) => power * times >= least);
  }

  function drawAxis() {
    const { context, wide } = axisPixels, step = stepOf(view.to - view.from, wide, 170);
    context.clearRect(0, 0, wide, 22);
    context.fillStyle = ink("soft");
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(view.from / step) * step, free = 0; time <= view.to; time += step) {
      const x = (time - view.from) * scale(), text = `${numeral(time)} · ${duration(time)}`, room = context.measureText(text).width;
      const left = x + 3 + room <= wide ? x + 3 : x - 3 - room;  // the last one may have no room behind its mark
      context.fillRect(x, 15, 1, 7);
      if (left < free) continue;
      context.fillText(text, left, 12);
      free = left + room + 6;
    }
  }

  /** The whole run, which no movement changes. */
  function drawWhole() {
    const { width, height } = overviewPixels, each = height / Math.max(lanes.length, 1), track = inkBytes("track");
    overviewPixels.clear();
    lanes.forEach((lane, row) => {
      const top = Math.round(row * each), below = Math.max(Math.round((row + 1) * each) - (each > 2), top + 1);
      eachBar(lane, 0, total, width, (i, x, wide, busy) => {
        const left = Math.round(x);
        overviewPixels.fill(left, top, Math.max(Math.round(x + wide), left + 1), below, mixed(kindBytes[column.kind[i]], Math.max(busy, 0.25), track));
      });
    });
    overviewPixels.show();
  }

  /** A frame around the part of the whole run that is seen. */
  function showPlace() {
    const frame = byId("place"), across = overviewPixels.wide / total;
    frame.style.transform = `translateX(${view.from * across}px)`;
    frame.style.width = `${Math.max((view.to - view.from) * across, 3)}px`;
  }
