  // ---- rows: a lane each, or all lanes of a place (a core, a stream) folded into one

  const places = [...new Set(lanes.map((lane) => lane.place))].map((name) => ({ name, lanes: lanes.filter((lane) => lane.place === name), folded: false }));
  const foldable = places.length > 1;
  if (places.length > 4) places.forEach((place) => { place.folded = true; });
  let rows = [];

  /** A place that is open has a row for its name and one for each of its lanes. */
  function layRows() {
    rows = places.flatMap((place) => [
      ...(foldable ? [{ name: `${place.folded ? "▸" : "▾"} ${place.name}`, place, lanes: place.folded ? place.lanes : [] }] : []),
      ...(place.folded ? [] : place.lanes.map((lane) => ({ name: lane.name, lanes: [lane] }))),
    ]);
  }

  /** The row of a lane, that of its place where it is folded; and its part of the row's height. */
  function rowOf(lane) {
    const row = rows.findIndex((each) => each.lanes.includes(lane));
    return { row, part: rows[row].lanes.indexOf(lane), parts: rows[row].lanes.length };
  }

  /** Top and height of a lane's bars on the canvas. */
  function bandOf(lane) {
    const { row, part, parts } = rowOf(lane), room = parts > 1 ? LANE - 4 : BAR;
    return { top: row * LANE + (LANE - room) / 2 + (part * room) / parts, high: Math.max(room / parts - (parts > 1 ? 0.5 : 0), 1) };
  }

  function showRows() {
    layRows();
    byId("lanes").textContent = "";
    showNames(byId("lanes"), rows.map((row) => [row.name, row.lanes.map((lane) => `${lane.name}: ${lane.items.length} instructions`).join(", ")]), LANE);
    rows.forEach((row, number) => {
      if (!row.place) return;
      byId("lanes").children[number].classList.add("fold");
      byId("lanes").children[number].addEventListener("click", () => { row.place.folded = !row.place.folded; showRows(); fitCanvases(); redraw(); });
    });
  }
