  // ---- a range of time, dragged with the shift key held: busy cycles in it by kind of instruction and by operation

  let range = null;

  function drawRange(context, canvas, high) {
    const from = (range.from - view.from) * scale(), wide = Math.max((range.to - range.from) * scale(), 1);
    context.fillStyle = ink("range");
    context.fillRect(from, 0, wide, high);
  }

  /** Cycles within the range by kind, by operation and all together; units at work at once count each, measured lanes none. */
  function sumRange() {
    const kinds = new Float64Array(data.kinds.length), operations = new Float64Array(data.operations.length + 1);
    let waited = 0;
    for (const lane of lanes.filter((each) => !each.measured)) {
      for (let at = above(lane.end, range.from); at < lane.items.length && lane.start[at] < range.to; at++) {
        const i = lane.items[at], inside = Math.min(lane.end[at], range.to) - Math.max(lane.start[at], range.from);
        kinds[column.kind[i]] += inside;
        operations[column.operation[i] + 1] += inside;
        waited += Math.max(0, Math.min(lane.start[at], range.to) - Math.max(lane.start[at] - column.waited[i], range.from));
      }
    }
    return { kinds, operations, waited };
  }

  function setRange(from, to) {
    range = from === to ? null : { from: Math.max(Math.min(from, to), 0), to: Math.min(Math.max(from, to), total) };
    tellRange();
    redraw();
  }

  function tellRange() {
    const place = byId("range");
    place.textContent = "";
    place.hidden = !range;
    if (!range) return;
    const { kinds, operations, waited } = sumRange(), heading = document.createElement("p");
    heading.textContent = `range ${numeral(range.from)} to ${numeral(range.to)}: ${amount(range.to - range.from)}; units waited ${amount(waited)}`;
    place.append(heading, sumTable("instruction", [...kinds].map((cycles, kind) => [data.kinds[kind], cycles])),
      sumTable("operation", [...operations].map((cycles, number) => [number ? data.operations[number - 1].name : "(none)", cycles])));
  }

  const amount = (cycles) => `${numeral(cycles)} cycles, ${ms(cycles)}`;

  function sumTable(head, sums) {
    const table = document.createElement("table"), shown = sums.filter(([, cycles]) => cycles > 0).sort((a, b) => b[1] - a[1]).slice(0, 12);
    for (const words of [[head, "busy cycles", "ms"], ...shown.map(([name, cycles]) => [name, numeral(cycles), (cycles / data.khz).toPrecision(4)])]) {
      const row = table.insertRow();
      for (const word of words) row.insertCell().textContent = word;
    }
    return table;
  }
