// ---- one selection for the whole page: an operation by its link, REGION/NAME; listeners hear of every change

const selection = { link: "", listeners: [] };

/** Selects an operation, "" for none. */
function select(link) {
  if (link === selection.link) return;
  selection.link = link;
  for (const listen of selection.listeners) listen(link);
  if (parent === window) history.replaceState(null, "", link ? `#operation=${encodeURIComponent(link)}` : location.pathname);
  else parent.postMessage({ operation: link }, "*"); // beside another build: the page around both tells that one
}

/** The link that a fragment asks for: a whole link, or the first operation of that name. */
function linkNamed(operations, words) {
  if (words in operations) return words;
  return Object.keys(operations).find((link) => operations[link].name === words) ?? "";
}

/** Marks everything that stands for the selection, and every edge at it. */
function markElements(link) {
  for (const old of document.querySelectorAll(".on[data-operation], .graph path.on")) old.classList.remove("on");
  if (!link) return;
  for (const each of document.querySelectorAll("[data-operation]")) each.classList.toggle("on", each.dataset.operation === link);
  for (const path of document.querySelectorAll(".graph path")) path.classList.toggle("on", path.dataset.from === link || path.dataset.to === link);
}

/** Scrolls the graph's own window to the selected box; the page stays where it is. */
function showBox(link) {
  const box = [...document.querySelectorAll(".box")].find((each) => each.dataset.operation === link), frame = box?.closest(".scroll");
  if (!frame) return;
  const at = box.querySelector("rect");
  frame.scrollTop = at.y.baseVal.value - frame.clientHeight / 2;
  frame.scrollLeft = at.x.baseVal.value - frame.clientWidth / 2;
}

selection.listeners.push(markElements, showBox);
