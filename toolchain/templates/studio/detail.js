// ---- the selected operation in words: facts, then its instructions with assembly, bytes and memory ranges

const LINES = 200;

function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent?.append(made);
  return made;
}

function tellSelection(operation, region, timeline) {
  const place = document.getElementById("told");
  place.textContent = "";
  document.querySelector("#selected h2").textContent = operation ? operation.name : "Selection";
  document.getElementById("selected").classList.toggle("full", Boolean(operation));
  if (!operation) return element("p", "Click an operation anywhere.", place);
  const table = element("table", "", place);
  for (const [name, text] of Object.entries(operation.facts)) {
    const row = table.insertRow();
    element("th", name, row);
    row.insertCell().textContent = text;
  }
  if (region && operation.index >= 0) tellInstructions(operation, region, timeline, place);
}

/** The listing of an operation, its first lines; a click shows the instruction in the timeline. */
function tellInstructions(operation, region, timeline, place) {
  const own = [];
  timeline.column.operation.forEach((number, i) => { if (number === operation.index && !timeline.measuredAt(i)) own.push(i); });
  element("p", `${own.length} instructions${own.length > LINES ? `, the first ${LINES}` : ""}${region.text ? "" : "; this page has no room for their listing, build/.../bundle has it"}`, place);
  const listing = element("pre", "", place);
  for (const i of own.slice(0, LINES)) {
    const line = element("div", `${i}  ${timeline.textOf(i) || region.kinds[timeline.column.kind[i]]}`, listing);
    line.dataset.instruction = i;
    const words = [region.labels[timeline.column.label[i]], timeline.footprintOf(i), region.hex ? region.hex[i].replace(/(.{8})(?=.)/g, "$1 ") : ""];
    for (const text of words.filter(Boolean)) element("small", text, line);
    line.addEventListener("click", () => timeline.choose(i, true));
  }
}
