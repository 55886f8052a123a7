  // ---- words

  const tenths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 }), millionths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });
  const numeral = (value) => tenths.format(Math.round(value * 10) / 10);
  const ms = (cycles) => `${(cycles / data.khz).toPrecision(4)} ms`;

  /** For a reader's eye: the unit follows the size. */
  function duration(cycles) {
    const us = (cycles / data.khz) * 1000;
    const [value, unit] = us === 0 || us >= 1000 ? [us / 1000, "ms"] : us >= 1 ? [us, "µs"] : [us * 1000, "ns"];
    return `${millionths.format(Number(value.toPrecision(5)))} ${unit}`;
  }

  /** An element's text, where it is another one. */
  function say(element, text) {
    if (!element.firstChild) element.append(text);
    else if (element.firstChild.data !== text) element.firstChild.data = text;
  }

  /** Utilisation and occupancy of the part that is seen. */
  function tellWindow() {
    const span = view.to - view.from;
    say(byId("window"), `cycles ${numeral(view.from)} to ${numeral(view.to)}: ${numeral(span)} cycles, ${ms(span)}`);
    rows.forEach((row, number) => {
      const busy = row.lanes.reduce((sum, lane) => sum + busyUntil(lane, view.to) - busyUntil(lane, view.from), 0);
      say(byId("lanes").children[number].lastChild, row.lanes.length ? `${((100 * busy) / span / row.lanes.length).toFixed(1)} %` : "");
    });
    data.memories.forEach((room, row) => {
      const most = mostOf(room.levels, Math.max(above(room.cycles, view.from) - 1, 0), above(room.cycles, view.to));
      say(byId("rooms").children[row].lastChild, `${((100 * most) / room.capacity).toFixed(1)} %`);
    });
    spans.forEach((each, number) => {
      const seen = each.from < view.to && each.to > view.from;
      if (seen !== each.seen) byId("operations").children[number].classList.toggle("seen", (each.seen = seen));
    });
  }

  const laneName = (i) => data.lanes[column.lane[i]].filter(Boolean).join(" ");

  function describe(i) {
    const lines = [`#${i} ${data.kinds[column.kind[i]]} on ${laneName(i)}: cycles ${numeral(start[i])} to ${numeral(end[i])} (${numeral(end[i] - start[i])}, ${ms(end[i] - start[i])})`];
    if (column.operation[i] >= 0) lines.push(`${data.operations[column.operation[i]].name} (${data.operations[column.operation[i]].kind})`);
    if (data.labels[column.label[i]]) lines.push(data.labels[column.label[i]]);
    return lines.concat(data.causes[i] || [], textOf(i), footprintOf(i)).filter(Boolean).join("\n");
  }

  function showLegend() {
    const legend = byId("legend");
    legend.textContent = "";
    if (byId("colour").value !== "kind") return;
    for (const kind of present) {
      const entry = document.createElement("span"), box = document.createElement("i");
      box.style.background = kindColour(kind);
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
