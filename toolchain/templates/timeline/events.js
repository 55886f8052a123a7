  // ---- events

  const closing = new AbortController(), signal = closing.signal;

  /** The cycle under the pointer. */
  const timeAt = (event) => view.from + (event.clientX - units.getBoundingClientRect().left) / scale();

  function listen() {
    let held = null;
    units.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), timeAt(event));
    }, { passive: false, signal });
    units.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, from: view.from, to: view.to, moved: false, range: event.shiftKey, at: timeAt(event) };
      units.setPointerCapture(event.pointerId);
    }, { signal });
    units.addEventListener("pointermove", (event) => {
      if (!held) return showTip(event);
      if (held.range) return setRange(held.at, timeAt(event));
      const by = (event.clientX - held.x) / scale();
      held.moved ||= Math.abs(event.clientX - held.x) > 3;
      look(held.from - by, held.to - by);
    }, { signal });
    units.addEventListener("pointerup", (event) => { if (held && !held.moved && !held.range) choose(under(event), false); held = null; }, { signal });
    units.addEventListener("pointerleave", () => { byId("tip").hidden = true; }, { signal });
    overview.addEventListener("pointerdown", (event) => { overview.setPointerCapture(event.pointerId); jump(event); }, { signal });
    overview.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); }, { signal });
    byId("search").addEventListener("input", (event) => find(event.target.value), { signal });
    byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") step(!event.shiftKey); if (event.key === "Escape") event.target.blur(); }, { signal });
    byId("colour").addEventListener("change", () => { showLegend(); redraw(); }, { signal });
    byId("fit").addEventListener("click", () => { mark(-1, false); look(0, total); }, { signal });
    window.addEventListener("resize", () => { fitCanvases(); redraw(); }, { signal });
    const observer = new ResizeObserver(() => { if (units.clientWidth !== unitPixels.wide) { fitCanvases(); redraw(); } });  // a bar for scrolling takes room, too
    observer.observe(units);
    signal.addEventListener("abort", () => observer.disconnect());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { inks.clear(); drawWhole(); redraw(); }, { signal });
    document.addEventListener("keydown", (event) => { if (!/INPUT|SELECT/.test(event.target.tagName)) press(event); }, { signal });
  }

  function press(event) {
    const span = view.to - view.from;
    const keys = {
      ArrowLeft: () => look(view.from - span / 4, view.to - span / 4), ArrowRight: () => look(view.from + span / 4, view.to + span / 4),
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), f: () => look(0, total),
      c: () => { if (chosen >= 0 && causeOf(chosen) >= 0) choose(causeOf(chosen), true); },
      "/": () => byId("search").focus(), Escape: () => { choose(-1, false); mark(-1, false); setRange(0, 0); },
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  }

  function jump(event) {
    const at = ((event.clientX - overview.getBoundingClientRect().left) / overview.clientWidth) * total, half = (view.to - view.from) / 2;
    look(at - half, at + half);
  }

  const TOLD = 5;

  function showTip(event) {
    const tip = byId("tip");
    hovered = under(event);
    tip.hidden = hovered < 0;
    if (hovered < 0) return;
    tip.textContent = describe(hovered).split("\n").slice(0, TOLD).join("\n");  // the rest would cover the rows below
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
  }

