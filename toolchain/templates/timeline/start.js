  // ---- the page

  /** For measuring: so many views drawn one after the other, milliseconds of each on average and at most. */
  function measure(frames) {
    let sum = 0, worst = 0;
    for (let frame = 0; frame < frames; frame++) {
      const began = performance.now();
      const span = total / 1.5 ** (frame % 20), from = ((frame * 0.381966) % 1) * (total - span);
      view.from = from;
      view.to = from + span;
      draw();
      told.draw?.();
      const spent = performance.now() - began;
      sum += spent;
      worst = Math.max(worst, spent);
    }
    document.body.dataset.frame = (sum / frames).toFixed(3);
    document.body.dataset.worst = worst.toFixed(3);
    look(0, total);
  }

  for (const canvas of canvases) canvas.dataset.height = canvas.getAttribute("height");
  const assumed = data.bounds.assumed.length ? `; assumed: ${data.bounds.assumed.join(", ")}` : "";
  byId("facts").textContent = `${data.machine}: ${numeral(data.cycles)} cycles, ${ms(data.cycles)}, ${numeral(count - lanes.reduce((sum, lane) => sum + (lane.measured ? lane.items.length : 0), 0))} instructions; at least ${numeral(data.bounds.cycles)} (${data.bounds.by})`;
  byId("facts").title = `at ${data.khz / 1000} MHz${assumed}`;
  for (const id of ["lanes", "rooms", "operations", "edges"]) byId(id).textContent = "";
  showRows();
  showNames(byId("rooms"), data.memories.map((room) => [room.name, `${numeral(room.capacity)} bytes, counted by ${numeral(room.block)}; the most in view`]), ROOM);
  showOperations();
  showLegend();
  fitCanvases();
  listen();
  draw();
  document.body.dataset.instructions = count;
  return {
    column, unpack, timesOf, textOf, footprintOf, choose, mark, find, step, measure, view, setRange,
    measuredAt: (i) => lanes[column.lane[i]].measured,
    redraw: () => { fitCanvases(); redraw(); },
    operationColour: (number) => (number < 0 ? "#9aa1ad" : wheel(number)),
    close: () => closing.abort(),
  };
