  // ---- the page

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
    column, unpack, timesOf, above, textOf, footprintOf, choose, mark, find, step, measure, view, setRange,
    measuredAt: (i) => lanes[column.lane[i]].measured,
    redraw, inkBytes, operationBytes,
    close: () => closing.abort(),
  };
