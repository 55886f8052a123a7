  // ---- moving

  function look(from, to) {
    const span = Math.min(Math.max(to - from, 4), total);
    view.from = Math.min(Math.max(from, 0), total - span);
    view.to = view.from + span;
    if (!byId("tip").hidden) byId("tip").hidden = true;  // it speaks of an instruction that is no longer under the pointer
    redraw();
  }

  function zoom(times, at = (view.from + view.to) / 2) {
    look(at - (at - view.from) * times, at + (view.to - at) * times);
  }

  function choose(i, move) {
    chosen = i;
    if (i < 0) return redraw();
    told.choose?.(i);
    byId("detail").textContent = describe(i);
    if (column.operation[i] >= 0) showRow(column.operation[i]);
    if (move && (start[i] < view.from || end[i] > view.to)) { const half = (view.to - view.from) / 2; look(start[i] - half, start[i] + half); }
    redraw();
  }

  /** The instruction under the pointer, or within three pixels of it. */
  function under(event) {
    const box = units.getBoundingClientRect(), y = event.clientY - box.top, row = rows[Math.floor(y / LANE)];
    if (!row || !row.lanes.length) return -1;
    const part = row.parts[Math.min(Math.floor(((y % LANE) / LANE) * row.parts.length), row.parts.length - 1)], time = timeAt(event), reach = 3 / scale();
    for (const lane of part) {
      const at = above(lane.end, time - reach);
      if (at < lane.items.length && lane.start[at] <= time + reach) return lane.items[at];
    }
    return -1;
  }

  function find(words) {
    const wanted = words.trim().toLowerCase();
    matches = null;
    if (wanted) {
      matches = new Set();
      const names = data.operations.map((operation) => operation.name.toLowerCase().includes(wanted)), labels = data.labels.map((label) => label.toLowerCase().includes(wanted));
      for (let i = 0; i < count; i++) {
        if (names[column.operation[i]] || labels[column.label[i]] || textOf(i).toLowerCase().includes(wanted) || footprintOf(i).toLowerCase().includes(wanted)) matches.add(i);
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
