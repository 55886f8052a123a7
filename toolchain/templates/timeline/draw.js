  // ---- drawing

  const canvases = ["overview", "axis", "units", "memory"].map(byId);
  const [overview, axis, units, memory] = canvases;
  const scale = () => units.clientWidth / (view.to - view.from);

  function fitCanvases() {
    units.style.height = `${Math.max(rows.length, 1) * LANE}px`;
    memory.style.height = `${data.memories.length * ROOM}px`;
    for (const canvas of canvases) {
      const ratio = window.devicePixelRatio || 1, height = canvas.style.height ? parseFloat(canvas.style.height) : Number(canvas.dataset.height);
      canvas.style.height = `${height}px`;
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
  }

  function draw() {
    waiting = false;
    drawAxis();
    drawUnits();
    drawMemory();
    drawOverview();
    tellWindow();
  }

  function redraw() {
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  }

  /** One bar for each instruction of a lane that is seen; those within a pixel are one. paint(index, x, width, share of that width that is busy). */
  function eachBar(lane, from, to, width, paint) {
    const pixels = width / (to - from);
    let at = above(lane.end, from);
    while (at < lane.items.length && lane.start[at] < to) {
      const x = (lane.start[at] - from) * pixels, wide = (lane.end[at] - lane.start[at]) * pixels;
      if (wide >= 1) { paint(lane.items[at], x, wide, 1); at++; continue; }
      const left = Math.floor(x), next = Math.max(at + 1, above(lane.end, from + (left + 1) / pixels, at));
      paint(lane.items[at], left, 1, Math.min((lane.before[next] - lane.before[at]) * pixels, 1));
      at = next;
    }
  }

  function dimmed(i) {
    return (matches && !matches.has(i)) || (marked >= 0 && column.operation[i] !== marked);
  }

  function drawUnits() {
    const context = units.getContext("2d"), width = units.clientWidth, colour = colours[byId("colour").value];
    context.clearRect(0, 0, width, rows.length * LANE);
    context.fillStyle = ink("track");
    rows.forEach((row, number) => { if (row.lanes.length) context.fillRect(0, number * LANE + (LANE - BAR) / 2, width, BAR); });
    let drawn = 0;
    for (const lane of lanes) drawn += drawLane(context, lane, width, colour);
    context.globalAlpha = 1;
    if (matches) drawMatches(context, width, scale());
    if (range) drawRange(context, units, rows.length * LANE);
    if (chosen >= 0) drawChosen(context, scale());
    document.body.dataset.drawn = drawn;
  }

  function drawLane(context, lane, width, colour) {
    const { top, high } = bandOf(lane), pixels = scale();
    let drawn = 0;
    eachBar(lane, view.from, view.to, width, (i, x, wide, busy) => {
      drawn++;
      context.globalAlpha = (dimmed(i) ? 0.18 : 1) * Math.max(busy, 0.25);
      if (high >= BAR) drawWaiting(context, i, x, wide, top, pixels);
      context.fillStyle = colour(i);
      context.fillRect(x, top, wide > 4 ? wide - 0.6 : wide, high);
      if (wide > 60 && high >= BAR) nameBar(context, i, x, top, wide);
    });
    return drawn;
  }

  /** Before the bar: its unit was idle. After it: a full counter held the unit. */
  function drawWaiting(context, i, x, wide, top, pixels) {
    const waited = column.waited[i] * pixels, kept = column.held[i] * pixels;
    if (waited > 3) { context.fillStyle = ink("waited"); context.fillRect(x - waited, top + BAR - 4, waited, 4); }
    if (kept > 3) { context.fillStyle = ink("held"); context.fillRect(x + wide, top, kept, BAR); }
  }

  function nameBar(context, i, x, top, wide) {
    const left = Math.max(x, 0) + 4, room = Math.min(x + wide, units.clientWidth) - left - 4;
    const words = column.operation[i] < 0 ? data.kinds[column.kind[i]] : `${data.kinds[column.kind[i]]} ${data.operations[column.operation[i]].name}`;
    const letters = Math.floor(room / 6.2);
    if (letters < 3) return;
    context.fillStyle = "#fff";
    context.font = "11px system-ui, sans-serif";
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
    const context = memory.getContext("2d"), width = memory.clientWidth, pixels = scale();
    context.clearRect(0, 0, width, data.memories.length * ROOM);
    data.memories.forEach((room, row) => {
      const bottom = (row + 1) * ROOM - 4, high = ROOM - 8;
      context.fillStyle = ink("track");
      context.fillRect(0, bottom - high, width, high);
      context.fillStyle = PALETTE[row % PALETTE.length];
      let at = Math.max(above(room.cycles, view.from) - 1, 0);
      while (at < room.cycles.length && room.cycles[at] < view.to) {
        const x = Math.max((room.cycles[at] - view.from) * pixels, 0), pixel = view.from + (Math.floor(x) + 1) / pixels;
        const next = Math.max(at + 1, above(room.cycles, pixel, at)), most = mostOf(room.levels, at, next), until = next < room.cycles.length ? (room.cycles[next] - view.from) * pixels : (total - view.from) * pixels;
        const tall = (most / room.capacity) * high;
        context.fillRect(x, bottom - tall, Math.min(until, width) - x + 0.5, tall);  // half a pixel more closes the seam
        at = next;
      }
    });
  }

  /** A round step so that about one label stands in `room` pixels. */
  function stepOf(span, width, room) {
    const least = (span * room) / width, power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((times) => power * times >= least);
  }

  function drawAxis() {
    const context = axis.getContext("2d"), width = axis.clientWidth, step = stepOf(view.to - view.from, width, 170);
    context.clearRect(0, 0, width, 22);
    context.fillStyle = ink("soft");
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      const x = (time - view.from) * scale(), text = `${numeral(time)} · ${duration(time)}`;
      context.fillRect(x, 15, 1, 7);
      if (x + 3 + context.measureText(text).width <= width) context.fillText(text, x + 3, 12);  // the last one may have no room
    }
  }

  const whole = document.createElement("canvas");

  /** The whole run, which no movement changes. */
  function drawWhole(width, high) {
    const context = whole.getContext("2d"), each = high / Math.max(lanes.length, 1);
    whole.width = overview.width;
    whole.height = overview.height;
    context.scale(whole.width / width, whole.height / high);
    lanes.forEach((lane, row) => {
      eachBar(lane, 0, total, width, (i, x, wide, busy) => {
        context.globalAlpha = Math.max(busy, 0.25);
        context.fillStyle = colours.kind(i);
        context.fillRect(x, row * each, Math.max(wide, 1), Math.max(each - 1, 0.5));
      });
    });
  }

  function drawOverview() {
    const context = overview.getContext("2d"), width = overview.clientWidth, high = 40;
    if (whole.width !== overview.width || whole.height !== overview.height) drawWhole(width, high);
    context.clearRect(0, 0, width, high);
    context.drawImage(whole, 0, 0, width, high);
    const left = (view.from / total) * width, wide = ((view.to - view.from) / total) * width;
    context.fillStyle = ink("veil");
    context.fillRect(0, 0, left, high);
    context.fillRect(left + wide, 0, width - left - wide, high);
    context.strokeStyle = ink("ink");
    context.strokeRect(left + 0.5, 0.5, Math.max(wide - 1, 2), high - 1);
  }
