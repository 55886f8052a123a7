// ---- the page: opens a region's timeline and maps, and joins all parts by the selection

const { regions, operations } = JSON.parse(document.getElementById("data").textContent);
let shown = -1, timeline = null, maps = null;

const linkAt = (number) => Object.keys(operations).find((link) => operations[link].region === regions[shown].title && operations[link].index === number) ?? "";
const marked = () => (operations[selection.link]?.region === regions[shown]?.title ? operations[selection.link]?.index ?? -1 : -1);

function openRegion(number) {
  if (number === shown || !regions[number]) return;
  timeline?.close();
  shown = number;
  maps?.close();
  maps = null;
  timeline = startTimeline(regions[number], {
    mark: (operation) => select(operation < 0 ? "" : linkAt(operation)),
    choose: (i) => select(linkAt(timeline.column.operation[i])),
    draw: () => maps?.draw(marked()),
  });
  maps = startMaps(regions[number], timeline, (operation) => select(linkAt(operation)));
  maps.draw(marked());
  const choice = document.getElementById("region");
  if (choice) choice.value = number;
}

/** Opens the region of an operation, and shows it in every part. */
function follow(link) {
  const operation = operations[link], number = operation ? regions.findIndex((region) => region.title === operation.region) : -1;
  if (number >= 0) openRegion(number);
  timeline?.mark(marked(), false);
  tellSelection(operation, regions[number], timeline);
}

/** Shows the arrows of one block of a machine. */
function showArrows(block) {
  const picture = block.closest("svg"), on = picture.dataset.block !== block.dataset.block;
  picture.dataset.block = on ? block.dataset.block : "";
  picture.classList.toggle("some", on);
  for (const path of picture.querySelectorAll("path[data-ends]")) path.classList.toggle("on", on && path.dataset.ends.split(" ").includes(block.dataset.block));
}

selection.listeners.push(follow);
document.addEventListener("click", (event) => {
  const chosen = event.target.closest("[data-operation]"), node = event.target.closest("[data-node]"), block = event.target.closest("[data-block]");
  if (chosen) select(chosen.dataset.operation);
  else if (node) select(Object.keys(operations).find((link) => link.startsWith("/") && `, ${operations[link].facts.nodes}, `.includes(`, ${node.dataset.node}, `)) ?? "");
  else if (block?.closest(".machine")) showArrows(block);
});
document.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.dataset?.operation) select(event.target.dataset.operation); });
document.getElementById("region")?.addEventListener("change", (event) => openRegion(Number(event.target.value)));

/** For measuring: when the page was painted first, and the frames of its timeline and memory maps. */
async function measurePage(frames) {
  document.getElementById("time")?.scrollIntoView();
  await timeline?.measure(frames);
  document.body.dataset.paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime.toFixed(0) ?? "";
  document.body.dataset.measured = 1;
}

/** Deep links: #operation=NAME, #operation=REGION/NAME, #region=NAME; with &show=PART the page begins there. */
function readFragment() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.has("region")) openRegion(regions.findIndex((region) => region.title === asked.get("region")));
  if (asked.has("operation")) select(linkNamed(operations, asked.get("operation")));
  document.getElementById(asked.get("show") ?? "")?.scrollIntoView();
  if (asked.has("measure")) measurePage(Number(asked.get("measure")));
}

if (regions.length) openRegion(0);
readFragment();
window.addEventListener("hashchange", readFragment);
window.addEventListener("message", ({ source, data }) => {
  if (source === parent && parent !== window) select(linkNamed(operations, data.operation) || linkNamed(operations, data.operation.replace(/^.*?\//, "")));
});
document.body.dataset.opened = performance.now().toFixed(0);
