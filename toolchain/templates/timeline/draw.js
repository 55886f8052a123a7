  // ---- drawing

  const canvases = ["overview", "axis", "units", "memory"].map(byId);
  const [overview, axis, units, memory] = canvases;
  const scale = () => units.clientWidth / (view.to - view.from);

  function fitCanvases() {
    units.style.height = `${lanes.length * LANE}px`;
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

  /** One bar for each instruction of a lane that is seen; of those within a pixel the first. paint(index, x, width). */
  function eachBar(lane, from, to, width, paint) {
    const pixels = width / (to - from);
    let at = above(lane.end, from);
    while (at < lane.items.length && lane.start[at] < to) {
      const x = (lane.start[at] - from) * pixels, wide = (lane.end[at] - lane.start[at]) * pixels;
      paint(lane.items[at], x, Math.max(wide, 0.8));
      at = wide >= 1 ? at + 1 : Math.max(at + 1, above(lane.end, from + (Math.floor(x) + 1) / pixels, at));
    }
  }

  function dimmed(i) {
    return (matches && !matches.has(i)) || (marked >= 0 && column.operation[i] !== marked);
  }

  function drawUnits() {
    const context = units.getContext("2d"), width = units.clientWidth, colour = colours[byId("colour").value], pixels = scale();
    context.clearRect(0, 0, width, lanes.length * LANE);
    let drawn = 0;
    lanes.forEach((lane, row) => {
      const top = row * LANE + (LANE - BAR) / 2;
      context.fillStyle = "#f4f5f7";
      context.fillRect(0, top, width, BAR);
      eachBar(lane, view.from, view.to, width, (i, x, wide) => {
        drawn++;
        context.globalAlpha = dimmed(i) ? 0.18 : 1;
        if (column.waited[i] * pixels > 3) { context.fillStyle = "#f3d2d0"; context.fillRect(x - column.waited[i] * pixels, top + BAR - 4, column.waited[i] * pixels, 4); }
        if ((released[i] - end[i]) * pixels > 3) { context.fillStyle = "#f5deb3"; context.fillRect(x + wide, top, (released[i] - end[i]) * pixels, BAR); }
        context.fillStyle = colour(i);
        context.fillRect(x, top, wide > 4 ? wide - 0.6 : wide, BAR);
        if (wide > 60) nameBar(context, i, x, top, wide);
      });
    });
    context.globalAlpha = 1;
    if (matches) drawMatches(context, width, pixels);
    if (chosen >= 0) drawChosen(context, pixels);
    document.body.dataset.drawn = drawn;
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
    context.fillStyle = "#b3261e";
    for (const i of matches) {
      const x = (start[i] - view.from) * pixels;
      if (x >= 0 && x <= width) context.fillRect(x, column.lane[i] * LANE, 1.5, 4);
    }
  }

  /** The instruction that was clicked, and a line from the one that it waited for. */
  function drawChosen(context, pixels) {
    const at = (time) => (time - view.from) * pixels, middle = (i) => column.lane[i] * LANE + LANE / 2;
    context.strokeStyle = "#111";
    context.lineWidth = 1.5;
    context.strokeRect(at(start[chosen]), column.lane[chosen] * LANE + 2, Math.max((end[chosen] - start[chosen]) * pixels, 2), LANE - 4);
    const cause = column.producer[chosen];
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
      context.fillStyle = "#f4f5f7";
      context.fillRect(0, bottom - high, width, high);
      context.fillStyle = PALETTE[row % PALETTE.length];
      let at = Math.max(above(room.cycles, view.from) - 1, 0);
      while (at < room.cycles.length && room.cycles[at] < view.to) {
        const x = Math.max((room.cycles[at] - view.from) * pixels, 0), pixel = view.from + (Math.floor(x) + 1) / pixels;
        let most = room.bytes[at], next = at + 1;
        while (next < room.cycles.length && room.cycles[next] < pixel) most = Math.max(most, room.bytes[next++]);
        const until = next < room.cycles.length ? (room.cycles[next] - view.from) * pixels : (total - view.from) * pixels;
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
    const context = axis.getContext("2d"), width = axis.clientWidth, step = stepOf(view.to - view.from, width, 110);
    context.clearRect(0, 0, width, 22);
    context.fillStyle = "#667085";
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      const x = (time - view.from) * scale();
      context.fillRect(x, 15, 1, 7);
      const text = numeral(time), room = width - context.measureText(text).width;
      context.fillText(text, Math.min(x + 3, room), 12);
    }
  }

  function drawOverview() {
    const context = overview.getContext("2d"), width = overview.clientWidth, high = 40, each = high / Math.max(lanes.length, 1);
    context.clearRect(0, 0, width, high);
    lanes.forEach((lane, row) => {
      eachBar(lane, 0, total, width, (i, x, wide) => {
        context.fillStyle = colours.kind(i);
        context.fillRect(x, row * each, Math.max(wide, 1), Math.max(each - 1, 0.5));
      });
    });
    const left = (view.from / total) * width, wide = ((view.to - view.from) / total) * width;
    context.fillStyle = "rgba(255, 255, 255, 0.65)";
    context.fillRect(0, 0, left, high);
    context.fillRect(left + wide, 0, width - left - wide, high);
    context.strokeStyle = "#1d2127";
    context.strokeRect(left + 0.5, 0.5, Math.max(wide - 1, 2), high - 1);
  }
