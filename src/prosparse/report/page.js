"use strict";
// Draws the pictures and the table from the JSON in the page. Names only ever become text nodes.
(() => {
  const DATA = JSON.parse(document.getElementById("page-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const COLOURS = Array.from({ length: 16 }, (_, k) => `var(--c${k})`);  // light or dark: page.css
  const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const MISSING = COLOURS[11];
  const redraw = [];  // what to draw again when the window changes its width

  function add(parent, tag, attributes = {}, text) {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  const short = (text, most = 42) => {
    const letters = Array.from(text);
    return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
  };
  const shown = (value) => value === null ? "missing" : Number(value.toPrecision(4)).toString();

  function ticks(low, high, wanted = 6) {
    if (!(high > low)) return [low];
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
    const found = [];
    for (let t = Math.ceil(low / step); t * step <= high + 1e-9 * step; t++) found.push(t * step);
    return found;
  }

  function tickText(value) {
    const size = Math.abs(value);
    if (size >= 1e5 || (size > 0 && size < 1e-3)) return value.toExponential(0).replace("e+", "e");
    return Number(value.toPrecision(6)).toLocaleString("en");
  }

  // A frame with axes: returns the svg and the two maps from data to pixels.
  function frame(host, label, x, y, { height = 320, log = false, bottom = 46 } = {}) {
    host.replaceChildren();
    const width = Math.max(300, host.clientWidth || 900), left = 74, right = 18, top = 26;
    const svg = add(host, "svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
    });
    const across = (v) => left + (v - x.low) / (x.high - x.low || 1) * (width - left - right);
    const share = (v) => log ? (Math.log10(v) - Math.log10(y.low)) / (Math.log10(y.high / y.low) || 1)
      : (v - y.low) / (y.high - y.low || 1);
    const up = (v) => height - bottom - share(v) * (height - bottom - top);
    const floor = height - bottom;
    add(svg, "path", { class: "axis", d: `M${left},${top}V${floor}H${width - right}` });
    const marks = log ? powers(y.low, y.high) : ticks(y.low, y.high);
    for (const t of marks) {
      add(svg, "path", { class: "axis", d: `M${left - 5},${up(t)}h5` });
      add(svg, "text", { x: left - 9, y: up(t) + 4, "text-anchor": "end" },
        log ? `1e${Math.round(Math.log10(t))}` : tickText(t));
    }
    for (const t of x.ticks || ticks(x.low, x.high, width / 110)) {
      add(svg, "path", { class: "axis", d: `M${across(t)},${floor}v5` });
      add(svg, "text", { x: across(t), y: floor + 19, "text-anchor": "middle" }, tickText(t));
    }
    add(svg, "text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.label);
    add(svg, "text", { x: 4, y: 13 }, y.label);
    return { svg, across, up, left, top, floor, right: width - right, width };
  }

  function powers(low, high) {
    const from = Math.ceil(Math.log10(low)), to = Math.floor(Math.log10(high));
    const every = Math.max(1, Math.ceil((to - from + 1) / 6)), found = [];
    for (let p = from; p <= to; p += every) found.push(10 ** p);
    return found;
  }

  function span(values, margin = 0.05) {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
    if (!(high >= low)) return { low: 0, high: 1 };
    const room = (high - low || Math.abs(high) || 1) * margin;
    return { low: low - room, high: high + room };
  }

  // A label that follows the pointer; returns show(x, y, text) and hide().
  function tip(plot) {
    const group = add(plot.svg, "g", { visibility: "hidden", "pointer-events": "none" });
    const back = add(group, "rect", { class: "tipback", rx: 4, height: 24 });
    const text = add(group, "text", { class: "tip" });
    return {
      show(x, y, words) {
        text.textContent = words;
        group.setAttribute("visibility", "visible");
        const wide = text.getComputedTextLength() + 16;
        const at = Math.max(plot.left, Math.min(x + 10, plot.right - wide));
        const over = Math.max(2, y - 34);
        back.setAttribute("x", at); back.setAttribute("y", over); back.setAttribute("width", wide);
        text.setAttribute("x", at + 8); text.setAttribute("y", over + 17);
      },
      hide() { group.setAttribute("visibility", "hidden"); },
    };
  }

  function pointer(svg, event) {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [(event.clientX - box.left) * view.width / box.width,
      (event.clientY - box.top) * view.height / box.height];
  }

  const pathOf = (xs, ys, plot) =>
    xs.map((x, i) => `${i ? "L" : "M"}${plot.across(x).toFixed(1)},${plot.up(ys[i]).toFixed(1)}`).join("");

  function drawChoice(zoomed) {
    const c = DATA.choice, host = byId("choice-chart");
    let from = 0, to = c.x.length - 1;
    if (zoomed) { from = Math.max(0, c.best - 15); to = Math.min(to, c.best + 15); }
    const xs = c.x.slice(from, to + 1), ys = c.y.slice(from, to + 1), best = c.best - from;
    const word = `${Number(c.x[c.best].toPrecision(6)).toLocaleString("en")} ${c.noun}`;
    const label = `${c.caption} Marked: ${word}; shown from ${shown(xs[0])} to ${shown(xs.at(-1))}`;
    const plot = frame(host, label, { ...span(xs, 0.02), label: c.xLabel },
      { ...span(ys, 0.09), label: c.yLabel });
    add(plot.svg, "path", { class: "line", d: pathOf(xs, ys, plot) });
    if (xs.length <= 80) xs.forEach((x, i) =>
      add(plot.svg, "circle", { class: "dot", r: 3, cx: plot.across(x), cy: plot.up(ys[i]) }));
    const mx = plot.across(xs[best]), my = plot.up(ys[best]);
    add(plot.svg, "path", { class: "markline", d: `M${mx},${plot.floor}V${my}` });
    add(plot.svg, "circle", { class: "mark", r: 6, cx: mx, cy: my });
    const side = mx > plot.right - 60 ? "end" : mx < plot.left + 60 ? "start" : "middle";
    add(plot.svg, "text", { class: "marklabel", x: mx, y: my - 11, "text-anchor": side },
      c.noun === "penalty" ? `penalty ${shown(c.x[c.best])}` : word);
    const label2 = tip(plot);
    plot.svg.addEventListener("pointermove", (event) => {
      const [px] = pointer(plot.svg, event);
      let near = 0;
      xs.forEach((x, i) => { if (Math.abs(plot.across(x) - px) < Math.abs(plot.across(xs[near]) - px)) near = i; });
      label2.show(plot.across(xs[near]), plot.up(ys[near]), `${shown(xs[near])}: ${shown(ys[near])}`);
    });
    plot.svg.addEventListener("pointerleave", () => label2.hide());
  }

  function drawRelevance() {
    const host = byId("relevance-chart");
    if (!host) return;
    const bars = DATA.bars, places = DATA.places, last = places.at(-1);
    const shared = DATA.shared, what = shared ? "communality" : "relevance";
    const chosen = DATA.chosen.reduce((a, b) => a + b, 0);
    const few = bars.length <= 40;
    const label = `${shared ? "Communality" : "Relevance"} of the first ${last} variables in falling order; ` +
      `${chosen} are chosen`;
    const plot = frame(host, label,
      { low: 0.5, high: last + 0.5, label: few ? "" : `variables, ${shared ? "highest" : "most relevant"} first`, ticks: few ? [] : undefined },
      { low: 0, high: 1, label: what }, { height: few ? 340 : 300, bottom: few ? 110 : 46 });
    const slot = (plot.right - plot.left) / bars.length;
    const wide = bars.length > 150 ? slot + 0.6 : slot * (few ? 0.8 : 0.92);  // no stripes if many
    bars.forEach((k, i) => {
      const height = plot.floor - plot.up(DATA.relevance[k]), x = plot.across(places[i]);
      add(plot.svg, "rect", {
        class: DATA.chosen[k] ? "bar-chosen" : "bar-rest",
        x: (x - wide / 2).toFixed(1), width: wide.toFixed(1),
        y: (plot.floor - height).toFixed(1), height: Math.max(height, 0).toFixed(1),
      });
      if (few) add(plot.svg, "text", {
        "text-anchor": "end", transform: `translate(${x + 4},${plot.floor + 12}) rotate(-50)`,
      }, short(DATA.names[k], 16));
    });
    if (shared) {
      const y = plot.up(shared.chance);
      add(plot.svg, "path", { class: "chance", d: `M${plot.left},${y}H${plot.right}` });
    }
    const total = DATA.names.length;
    if (last < total) byId("relevance-note").textContent =
      `The first ${last.toLocaleString("en")} of ${total.toLocaleString("en")} are drawn.`;
    const label2 = tip(plot);
    plot.svg.addEventListener("pointermove", (event) => {
      const [px, py] = pointer(plot.svg, event);
      const far = (i) => Math.abs(plot.across(places[i]) - px);
      const i = places.reduce((a, _, b) => far(b) < far(a) ? b : a, 0), near = bars[i];
      label2.show(px, Math.max(py, 40), `${places[i]}. ${short(DATA.names[near])}: ${shown(DATA.relevance[near])}`);
    });
    plot.svg.addEventListener("pointerleave", () => label2.hide());
  }

  function drawConvergence() {
    const traces = DATA.traces.filter((t) => t.x.length > 1);
    if (!byId("convergence-figure")) return;
    if (!traces.length) { byId("convergence-figure").hidden = true; return; }
    const xs = traces.flatMap((t) => t.x), ys = traces.flatMap((t) => t.y);
    const low = Math.min(...ys), high = Math.max(...ys);
    const plot = frame(byId("convergence-chart"),
      `The objective's distance to its last value over ${Math.max(...xs)} iterations, on a logarithmic scale`,
      { low: 1, high: Math.max(...xs, 2), label: "iteration" },
      { low: low / 1.3, high: high * 1.3, label: "below the last value" }, { height: 280, log: true });
    traces.forEach((t, k) => {
      const line = add(plot.svg, "path", { class: "line", d: pathOf(t.x, t.y, plot) });
      if (traces.length > 1) line.style.stroke = COLOURS[k % COLOURS.length];
    });
  }

  // --- scores

  function mixed(share) {
    const at = Math.max(0, Math.min(1, share)) * (SCALE.length - 1);
    const k = Math.min(SCALE.length - 2, Math.floor(at)), f = at - k;
    return `rgb(${SCALE[k].map((c, i) => Math.round(c + f * (SCALE[k + 1][i] - c))).join(",")})`;
  }

  function drawScores() {
    const S = DATA.scores, L = S.label, d = S.values.length, n = S.rows.length;
    const off = new Set();
    const range = L && L.kind === "number" ? span(L.values, 0) : null;
    const colour = (i) => !L ? "var(--path)" : L.kind === "group" ? COLOURS[L.values[i] % COLOURS.length]
      : L.values[i] === null ? MISSING : mixed((L.values[i] - range.low) / (range.high - range.low || 1));
    const called = (i) => S.ids ? S.ids[i] : `row ${S.rows[i]}`;
    const labelled = (i) => !L ? "" : `, ${L.name}: ${L.kind === "group" ? L.groups[L.values[i]] : shown(L.values[i])}`;
    const tools = byId("scores-tools"), live = byId("scores-live"), host = byId("scores-chart");
    const axes = [0, Math.min(1, d - 1)];
    if (d > 1) ["across", "up"].forEach((way, k) => {
      const select = add(add(tools, "label", {}, `${way} `), "select", { id: `scores-${way}` });
      for (let c = 0; c < d; c++) add(select, "option", { value: c }, `component ${c + 1}`);
      select.value = axes[k];
      select.addEventListener("change", () => { axes[k] = Number(select.value); draw(); });
    });

    function draw() {
      const xs = d > 1 ? S.values[axes[0]] : S.rows, ys = d > 1 ? S.values[axes[1]] : S.values[0];
      const xName = d > 1 ? `component ${axes[0] + 1}` : "row";
      const yName = `component ${(d > 1 ? axes[1] : 0) + 1}`;
      const plot = frame(host, `Scores of ${n} rows: ${yName} against ${xName}. Use the arrow keys to read points.`,
        { ...span(xs), label: xName }, { ...span(ys), label: yName }, { height: 520 });
      plot.svg.setAttribute("tabindex", "0");
      const points = add(plot.svg, "g", { "fill-opacity": n > 500 ? 0.6 : 0.85 });
      const dots = xs.map((x, i) => {
        if (x === null || ys[i] === null || (L && L.kind === "group" && off.has(L.values[i]))) return null;
        const dot = add(points, "circle", {
          r: n > 500 ? 3.5 : 5, cx: plot.across(x).toFixed(1), cy: plot.up(ys[i]).toFixed(1),
        });
        dot.style.fill = colour(i);
        return dot;
      });
      const order = dots.map((dot, i) => i).filter((i) => dots[i]).sort((a, b) => xs[a] - xs[b]);
      const label2 = tip(plot);
      let current = -1;
      const read = (i) => {
        if (current >= 0 && dots[current]) dots[current].classList.remove("current");
        current = i;
        if (i < 0) { label2.hide(); return; }
        dots[i].classList.add("current");
        const words = `${called(i)}${labelled(i)}`;
        label2.show(plot.across(xs[i]), plot.up(ys[i]), short(words, 70));
        live.textContent = `${words}; ${xName} ${shown(xs[i])}, ${yName} ${shown(ys[i])}`;
      };
      plot.svg.addEventListener("pointermove", (event) => {
        const [px, py] = pointer(plot.svg, event);
        let best = -1, least = 400;
        for (const i of order) {
          const far = (plot.across(xs[i]) - px) ** 2 + (plot.up(ys[i]) - py) ** 2;
          if (far < least) { least = far; best = i; }
        }
        if (best !== current) read(best);
      });
      plot.svg.addEventListener("pointerleave", () => read(-1));
      plot.svg.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!step || !order.length) return;
        event.preventDefault();
        const place = order.indexOf(current);
        read(order[place < 0 ? 0 : (place + step + order.length) % order.length]);
      });
    }

    const legend = byId("scores-legend");
    if (L) add(legend, "span", {}, `${L.name}: `);
    if (L && L.kind === "group") L.groups.forEach((group, k) => {
      const button = add(legend, "button", { type: "button", "aria-pressed": "true", title: group });
      add(button, "span", { class: "swatch" }).style.background = COLOURS[k % COLOURS.length];
      add(button, "span", { class: "name" }, group);
      button.addEventListener("click", () => {
        if (!off.delete(k)) off.add(k);
        button.setAttribute("aria-pressed", String(!off.has(k)));
        draw();
      });
    });
    if (L && L.kind === "number") {
      add(legend, "span", {}, shown(range.low));
      const stops = SCALE.map((c) => `rgb(${c.join(",")})`).join(",");
      add(legend, "span", { class: "scale" }).style.background = `linear-gradient(to right,${stops})`;
      add(legend, "span", {}, shown(range.high));
    }
    draw();
    redraw.push(draw);
  }

  // --- the table

  function makeTable() {
    const PAGE = 50, table = byId("table"), body = table.tBodies[0];
    const all = DATA.names.map((name, k) =>
      ({ name, lower: name.toLowerCase(), rank: k + 1, relevance: DATA.relevance[k], chosen: DATA.chosen[k],
        qvalue: DATA.shared ? DATA.shared.qvalues[k] : null,
        frequency: DATA.frequency ? DATA.frequency[k] : null }));
    const known = DATA.link ? new RegExp(`^(?:${DATA.link.form})$`) : null;  // names to look up
    const words = { rank: "rank", name: "name", relevance: DATA.shared ? "communality" : "relevance",
      qvalue: "q-value", frequency: "share of halves", chosen: "chosen" };
    const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
    let key = "rank", direction = 1, page = 0, rows = all;

    function compare(a, b) {
      const by = key === "name" ? collator.compare(a.name, b.name) : a[key] - b[key];
      return direction * by || a.rank - b.rank;
    }
    function refresh() {
      const part = byId("search").value.trim().toLowerCase(), only = byId("only-chosen").checked;
      rows = all.filter((r) => (!only || r.chosen) && r.lower.includes(part)).sort(compare);
      page = 0;
      show();
    }
    function show() {
      const pages = Math.max(1, Math.ceil(rows.length / PAGE));
      page = Math.max(0, Math.min(page, pages - 1));
      body.replaceChildren();
      for (const r of rows.slice(page * PAGE, page * PAGE + PAGE)) {
        const line = add(body, "tr", r.chosen ? { class: "is-chosen" } : {});
        add(line, "td", {}, r.rank.toLocaleString("en"));
        const named = add(line, "td");
        if (known && known.test(r.name)) {
          const href = DATA.link.address + encodeURIComponent(r.name);
          add(named, "a", { href, rel: "noreferrer" }, r.name);
        } else named.textContent = r.name;
        const cell = add(line, "td");
        const meter = add(cell, "span", { class: "meter", "aria-hidden": "true" });
        add(meter, "span").style.width = `${100 * r.relevance}%`;
        cell.append(shown(r.relevance));
        if (DATA.shared) add(line, "td", {}, shown(r.qvalue));
        if (DATA.frequency) add(line, "td", {}, `${Math.round(100 * r.frequency)}%`);
        add(line, "td", {}, r.chosen ? "yes" : "no");
      }
      const way = direction > 0 ? "ascending" : "descending";
      byId("count").textContent = `${rows.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} variables` +
        (key === "rank" && direction > 0 ? "" : `, sorted by ${words[key]}, ${way}`);
      byId("place").textContent = `page ${page + 1} of ${pages}`;
      byId("previous").disabled = page === 0;
      byId("next").disabled = page === pages - 1;
    }
    for (const button of table.tHead.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const chosen = button.dataset.key;
        if (chosen === key) direction = -direction;
        else { key = chosen; direction = ["relevance", "chosen", "frequency"].includes(key) ? -1 : 1; }
        for (const head of table.tHead.rows[0].cells) {
          const mine = head.firstElementChild === button;
          head.setAttribute("aria-sort", mine ? (direction > 0 ? "ascending" : "descending") : "none");
        }
        refresh();
      });
    }
    byId("search").addEventListener("input", refresh);
    byId("only-chosen").addEventListener("change", refresh);
    byId("previous").addEventListener("click", () => { page--; show(); });
    byId("next").addEventListener("click", () => { page++; show(); });
    refresh();
  }

  if (DATA.choice) {
    const zoom = byId("choice-zoom"), zoomed = () => zoom.getAttribute("aria-pressed") === "true";
    if (DATA.choice.x.length <= 31) zoom.parentNode.hidden = true;
    zoom.addEventListener("click", () => {
      zoom.setAttribute("aria-pressed", String(!zoomed()));
      drawChoice(zoomed());
    });
    redraw.push(() => drawChoice(zoomed()));
  }
  redraw.push(drawRelevance, drawConvergence);
  for (const draw of redraw) draw();
  if (DATA.scores) drawScores();
  makeTable();

  let wide = document.documentElement.clientWidth, waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (document.documentElement.clientWidth === wide) return;
      wide = document.documentElement.clientWidth;
      for (const draw of redraw) draw();
    }, 150);
  });
})();
