// What a reader sees of a studio page, as JSON: panels with their contents, canvases that are not blank, places where the pointer finds something.
(() => {
  const all = (query) => [...document.querySelectorAll(query)];
  const colours = (canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return new Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
  };
  const light = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
  const body = getComputedStyle(document.body);
  return {
    panels: Object.fromEntries(all("main > section").map((section) => [section.id, section.textContent.trim().length])),
    canvases: all("canvas").map((canvas) => [canvas.id || canvas.previousSibling.textContent, colours(canvas)]),
    headings: all("#figures h3").map((head) => head.textContent),
    roofs: all(".roof circle").length,
    noise: all("#figures h3").find((head) => head.textContent === "Accuracy by tensor")?.nextElementSibling.nextElementSibling.querySelectorAll("tr").length ?? 0,
    folds: all("#lanes .fold").map((each) => each.textContent),
    rows: all("#lanes > div").length,
    told: document.getElementById("told").textContent,
    selected: document.querySelector("#selected h2").textContent,
    facts: all("#told th").map((cell) => cell.textContent),
    listing: all("#told [data-instruction]").map((line) => [Number(line.dataset.instruction), line.textContent]),
    detail: document.getElementById("detail")?.textContent,
    name: document.getElementById("map-name")?.textContent.trim(),
    range: document.getElementById("range")?.textContent,
    paper: light(body.backgroundColor),
    ink: light(body.color),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
})();
