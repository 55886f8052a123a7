  // ---- rows: a lane each, or all lanes of a place (a core) folded into one, or all places of a group (a cluster)

  const places = [...new Set(lanes.map((lane) => lane.place))].map((name) => ({ name, group: groupOf(name), lanes: lanes.filter((lane) => lane.place === name), folded: false }));
  const foldable = places.length > 1;
  const groups = [...new Set(places.map((place) => place.group))].map((name) => ({ name, places: places.filter((place) => place.group === name), folded: false }));
  if (places.length > 4) places.forEach((place) => { place.folded = true; });
  if (places.length > 16) groups.forEach((group) => { group.folded = group.name !== "" && groups.length > 1; });
  let rows = [];

  /** `cluster 1` of `cluster 1 core 3`; nothing where there is one level. */
  function groupOf(place) {
    const words = place.split(" "), levels = words.length - (words.length % 2); // a last word apart says whether it was measured
    return levels > 2 ? words.slice(0, levels - 2).join(" ") : "";
  }

  /** `core 3` of `cluster 1 core 3`: names of rows are short, their titles tell the whole. */
  const shortOf = (place) => (place.group ? place.name.split(" ").slice(place.group.split(" ").length).join(" ") : place.name);
  const headOf = (fold, lanes, parts) => ({ name: `${fold.folded ? "▸" : "▾"} ${fold.places ? fold.name : shortOf(fold)}`, fold, lanes: fold.folded ? lanes : [], parts });

  /** A place or a group that is open has a row for its name and rows for its parts. */
  function layRows() {
    rows = groups.flatMap((group) => [
      ...(group.name && groups.length > 1 ? [headOf(group, group.places.flatMap((place) => place.lanes), group.places.map((place) => place.lanes))] : []),
      ...(group.folded ? [] : group.places.flatMap((place) => [
        ...(foldable ? [headOf(place, place.lanes, place.lanes.map((lane) => [lane]))] : []),
        ...(place.folded ? [] : place.lanes.map((lane) => ({ name: lane.name, lanes: [lane], parts: [[lane]] }))),
      ])),
    ]);
    rows.forEach((row, number) => row.lanes.length && row.parts.forEach((part, at) => {
      for (const lane of part) lane.at = { row: number, part: at, parts: row.parts.length };  // where it is folded, the row of its place or group
    }));
  }

  /** Top and height of a lane's bars on the canvas. */
  function bandOf(lane) {
    const { row, part, parts } = lane.at, room = parts > 1 ? LANE - 4 : BAR;
    return { top: row * LANE + (LANE - room) / 2 + (part * room) / parts, high: Math.max(room / parts - (parts > 1 ? 0.5 : 0), 1) };
  }

  function showRows() {
    layRows();
    byId("lanes").textContent = "";
    showNames(byId("lanes"), rows.map((row) => [row.name, row.lanes.map((lane) => `${lane.place} ${lane.name}: ${lane.items.length} instructions`).slice(0, 12).join(", ")]), LANE);
    rows.forEach((row, number) => {
      if (!row.fold) return;
      byId("lanes").children[number].classList.add("fold");
      byId("lanes").children[number].addEventListener("click", () => { row.fold.folded = !row.fold.folded; showRows(); fitCanvases(); redraw(); });
    });
  }
