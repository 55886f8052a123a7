  // ---- for measuring: how long a frame takes to draw, and how many the browser shows in a second

  const SPANS = [2, 50, 2000];  // parts of the whole that the window shows while it pans
  const BEFORE = 10;  // frames in which the browser still shows what was drawn before

  /** Milliseconds of so many views of every size, and those between as many frames of a window that pans; told by the body. */
  async function measure(frames) {
    const drawn = Array.from({ length: frames }, (_, frame) => Math.min(viewTime(frame), viewTime(frame), viewTime(frame))), // other processes only add
      apart = await panTimes(frames);
    tellTimes({ frame: mean(drawn), median: part(drawn, 0.5), late: part(drawn, 0.95), worst: part(drawn, 1), apart: part(apart, 0.5), gap: part(apart, 0.95), rate: 1000 / mean(apart) });
    look(0, total);
  }

  function viewTime(frame) {
    const began = performance.now(), span = total / 1.5 ** (frame % 20), from = ((frame * 0.381966) % 1) * (total - span);
    view.from = from;
    view.to = from + span;
    draw();
    return performance.now() - began;
  }

  async function panTimes(frames) {
    const times = [];
    for (let frame = -BEFORE; frame <= frames; frame++) {
      times.push(await new Promise(requestAnimationFrame));
      const at = Math.max(frame, 0), span = total / SPANS[Math.floor((at * SPANS.length) / (frames + 1))], from = ((at % 60) / 60) * Math.min(span, total - span);
      look(from, from + span);
    }
    return times.slice(BEFORE + 1).map((time, at) => time - times[at + BEFORE]);
  }

  const mean = (times) => times.reduce((sum, time) => sum + time, 0) / times.length;
  const part = (times, share) => times.toSorted((a, b) => a - b)[Math.ceil(times.length * share) - 1];
  const tellTimes = (times) => { for (const [name, ms] of Object.entries(times)) document.body.dataset[name] = ms.toFixed(3); };
