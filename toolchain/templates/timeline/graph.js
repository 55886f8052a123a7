  // ---- operations beside the timeline: a row each, edges from the results that they read

  const spans = data.operations.map(() => ({ from: Infinity, to: -Infinity }));
  for (let i = 0; i < count; i++) {
    const span = spans[column.operation[i]];
    if (span) { span.from = Math.min(span.from, start[i]); span.to = Math.max(span.to, end[i]); }
  }

  /** Edges in columns: neighbours in the first, each longer one in the first column that is free over all its rows. */
  function placeEdges() {
    const edges = [], free = [];
    data.operations.forEach((operation, to) => operation.reads.forEach((from) => edges.push({ from, to })));
    edges.sort((a, b) => a.to - a.from - (b.to - b.from) || a.from - b.from);
    for (const edge of edges) {
      if (edge.to - edge.from === 1) { edge.column = 0; continue; }
      let place = free.findIndex((rows) => rows.every((other) => other.to <= edge.from || other.from >= edge.to));
      if (place < 0) place = free.push([]) - 1;
      free[place].push(edge);
      edge.column = place + 1;
    }
    return { edges, columns: free.length + 1 };
  }

  function showOperations() {
    const { edges, columns } = placeEdges(), shown = Math.min(columns, 12), room = shown * 7 + 12, svg = byId("edges");
    svg.setAttribute("width", room);
    svg.setAttribute("height", data.operations.length * ROW);
    for (const edge of edges) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const x = room - 8, side = x - Math.min(edge.column, shown - 1) * 7, a = edge.from * ROW + ROW / 2, b = edge.to * ROW + ROW / 2;
      path.setAttribute("d", edge.column ? `M${x} ${a} C${side} ${a} ${side} ${a + 8} ${side} ${a + 12} V${b - 12} C${side} ${b - 8} ${side} ${b} ${x} ${b}` : `M${x} ${a} V${b}`);
      path.dataset.ends = `${edge.from} ${edge.to}`;
      svg.append(path);
    }
    data.operations.forEach((operation, number) => {
      const row = document.createElement("li"), small = document.createElement("small");
      row.style.paddingLeft = `${room}px`;
      row.textContent = operation.name;
      row.title = `${operation.name} (${operation.kind}): cycles ${numeral(spans[number].from)} to ${numeral(spans[number].to)}`;
      small.textContent = operation.kind;
      row.append(small);
      row.addEventListener("click", () => { mark(marked === number ? -1 : number, true); told.mark?.(marked); });
      byId("operations").append(row);
    });
  }

  /** Scrolls the list of operations alone, never the page. */
  function showRow(number) {
    const frame = byId("operations").parentElement, top = number * ROW;
    if (top < frame.scrollTop || top + ROW > frame.scrollTop + frame.clientHeight) frame.scrollTop = top - frame.clientHeight / 2;
  }

  function mark(number, move) {
    marked = number;
    if (number >= 0) showRow(number);
    [...byId("operations").children].forEach((row, at) => row.classList.toggle("on", at === number));
    for (const path of byId("edges").children) path.classList.toggle("on", path.dataset.ends.split(" ").includes(String(number)));
    if (move && number >= 0) { const each = spans[number], edge = (each.to - each.from) * 0.05; look(each.from - edge, each.to + edge); }
    redraw();
  }
