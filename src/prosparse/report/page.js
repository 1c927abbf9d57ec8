"use strict";
// Draws the plots and the table from the JSON in the page. Names become text nodes, never HTML.
(() => {
  const DATA = JSON.parse(document.getElementById("page-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const COLOURS = Array.from({ length: 16 }, (_, k) => `var(--c${k})`);  // defined in page.css
  const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const MISSING = COLOURS[11];
  const redraw = [];  // functions to call when the width of the window changes

  function add(parent, tag, attributes = {}, text) {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  const shorten = (text, maximum = 42) => {
    const letters = Array.from(text);
    return letters.length <= maximum ? text : letters.slice(0, maximum - 1).join("") + "…";
  };
  const format = (value) => value === null ? "missing" : Number(value.toPrecision(4)).toString();

  function ticks(low, high, count = 6) {
    if (!(high > low)) return [low];
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
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

  // Draws axes; returns the SVG element and the two maps from data to pixels.
  function frame(host, label, x, y, { height = 320, log = false, bottom = 46 } = {}) {
    host.replaceChildren();
    const width = Math.max(300, host.clientWidth || 900), left = 74, right = 18, top = 26;
    const svg = add(host, "svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
    });
    const toX = (v) => left + (v - x.low) / (x.high - x.low || 1) * (width - left - right);
    const fraction = (v) => log ? (Math.log10(v) - Math.log10(y.low)) / (Math.log10(y.high / y.low) || 1)
      : (v - y.low) / (y.high - y.low || 1);
    const toY = (v) => height - bottom - fraction(v) * (height - bottom - top);
    const floor = height - bottom;
    add(svg, "path", { class: "axis", d: `M${left},${top}V${floor}H${width - right}` });
    const marks = log ? powers(y.low, y.high) : ticks(y.low, y.high);
    for (const t of marks) {
      add(svg, "path", { class: "axis", d: `M${left - 5},${toY(t)}h5` });
      add(svg, "text", { x: left - 9, y: toY(t) + 4, "text-anchor": "end" },
        log ? `1e${Math.round(Math.log10(t))}` : tickText(t));
    }
    for (const t of x.ticks || ticks(x.low, x.high, width / 110)) {
      add(svg, "path", { class: "axis", d: `M${toX(t)},${floor}v5` });
      add(svg, "text", { x: toX(t), y: floor + 19, "text-anchor": "middle" }, tickText(t));
    }
    add(svg, "text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.label);
    add(svg, "text", { x: 4, y: 13 }, y.label);
    return { svg, toX, toY, left, top, floor, right: width - right, width };
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

  // Adds a tooltip; returns show(x, y, content) and hide().
  function addTooltip(plot) {
    const group = add(plot.svg, "g", { visibility: "hidden", "pointer-events": "none" });
    const back = add(group, "rect", { class: "tipback", rx: 4, height: 24 });
    const text = add(group, "text", { class: "tip" });
    return {
      show(x, y, content) {
        text.textContent = content;
        group.setAttribute("visibility", "visible");
        const width = text.getComputedTextLength() + 16;
        const left = Math.max(plot.left, Math.min(x + 10, plot.right - width));
        const top = Math.max(2, y - 34);
        back.setAttribute("x", left); back.setAttribute("y", top); back.setAttribute("width", width);
        text.setAttribute("x", left + 8); text.setAttribute("y", top + 17);
      },
      hide() { group.setAttribute("visibility", "hidden"); },
    };
  }

  function pointerPosition(svg, event) {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [(event.clientX - box.left) * view.width / box.width,
      (event.clientY - box.top) * view.height / box.height];
  }

  const pathOf = (xs, ys, plot) =>
    xs.map((x, i) => `${i ? "L" : "M"}${plot.toX(x).toFixed(1)},${plot.toY(ys[i]).toFixed(1)}`).join("");

  function drawSize(zoomed) {
    const c = DATA.path, host = byId("size-chart");
    let from = 0, to = c.x.length - 1;
    if (zoomed) { from = Math.max(0, c.best - 15); to = Math.min(to, c.best + 15); }
    const xs = c.x.slice(from, to + 1), ys = c.y.slice(from, to + 1), best = c.best - from;
    const size = `${Number(c.x[c.best].toPrecision(6)).toLocaleString("en")} ${c.noun}`;
    const label = `${c.caption} Marked: ${size}; shown from ${format(xs[0])} to ${format(xs.at(-1))}`;
    const plot = frame(host, label, { ...span(xs, 0.02), label: c.xLabel },
      { ...span(ys, 0.09), label: c.yLabel });
    add(plot.svg, "path", { class: "line", d: pathOf(xs, ys, plot) });
    if (xs.length <= 80) xs.forEach((x, i) =>
      add(plot.svg, "circle", { class: "dot", r: 3, cx: plot.toX(x), cy: plot.toY(ys[i]) }));
    const mx = plot.toX(xs[best]), my = plot.toY(ys[best]);
    add(plot.svg, "path", { class: "markline", d: `M${mx},${plot.floor}V${my}` });
    add(plot.svg, "circle", { class: "mark", r: 6, cx: mx, cy: my });
    const side = mx > plot.right - 60 ? "end" : mx < plot.left + 60 ? "start" : "middle";
    add(plot.svg, "text", { class: "marklabel", x: mx, y: my - 11, "text-anchor": side },
      c.noun === "penalty" ? `penalty ${format(c.x[c.best])}` : size);
    const tooltip = addTooltip(plot);
    plot.svg.addEventListener("pointermove", (event) => {
      const [px] = pointerPosition(plot.svg, event);
      let near = 0;
      xs.forEach((x, i) => { if (Math.abs(plot.toX(x) - px) < Math.abs(plot.toX(xs[near]) - px)) near = i; });
      tooltip.show(plot.toX(xs[near]), plot.toY(ys[near]), `${format(xs[near])}: ${format(ys[near])}`);
    });
    plot.svg.addEventListener("pointerleave", () => tooltip.hide());
  }

  function drawRelevance() {
    const host = byId("relevance-chart");
    if (!host) return;
    const bars = DATA.bars, positions = DATA.positions, last = positions.at(-1);
    const tests = DATA.tests, quantity = tests ? "communality" : "relevance";
    const nSelected = DATA.selected.reduce((a, b) => a + b, 0);
    const few = bars.length <= 40;
    const longest = Math.max(...bars.map((k) => shorten(DATA.names[k], 16).length));
    const bottom = few ? 26 + 5.5 * longest : 46;  // room for rotated names
    const label = `${tests ? "Communality" : "Relevance"} of the first ${last} variables in decreasing order; ` +
      `${nSelected} are selected`;
    const plot = frame(host, label,
      { low: 0.5, high: last + 0.5, label: few ? "" : `variables, ${tests ? "highest" : "most relevant"} first`, ticks: few ? [] : undefined },
      { low: 0, high: 1, label: quantity }, { height: 254 + bottom, bottom });
    const slot = (plot.right - plot.left) / bars.length;
    const wide = bars.length > 150 ? slot + 0.6 : slot * (few ? 0.8 : 0.92);  // without stripes if there are many
    bars.forEach((k, i) => {
      const height = plot.floor - plot.toY(DATA.relevance[k]), x = plot.toX(positions[i]);
      add(plot.svg, "rect", {
        class: DATA.selected[k] ? "bar-selected" : "bar-rest",
        x: (x - wide / 2).toFixed(1), width: wide.toFixed(1),
        y: (plot.floor - height).toFixed(1), height: Math.max(height, 0).toFixed(1),
      });
      if (few) add(plot.svg, "text", {
        "text-anchor": "end", transform: `translate(${x + 4},${plot.floor + 12}) rotate(-50)`,
      }, shorten(DATA.names[k], 16));
    });
    if (tests) {
      const y = plot.toY(tests.nullCommunality);
      add(plot.svg, "path", { class: "null", d: `M${plot.left},${y}H${plot.right}` });
    }
    const total = DATA.names.length;
    if (last < total) byId("relevance-note").textContent =
      `The first ${last.toLocaleString("en")} of ${total.toLocaleString("en")} are shown.`;
    const tooltip = addTooltip(plot);
    plot.svg.addEventListener("pointermove", (event) => {
      const [px, py] = pointerPosition(plot.svg, event);
      const distance = (i) => Math.abs(plot.toX(positions[i]) - px);
      const i = positions.reduce((a, _, b) => distance(b) < distance(a) ? b : a, 0), near = bars[i];
      tooltip.show(px, Math.max(py, 40), `${positions[i]}. ${shorten(DATA.names[near])}: ${format(DATA.relevance[near])}`);
    });
    plot.svg.addEventListener("pointerleave", () => tooltip.hide());
  }

  function drawConvergence() {
    const paths = DATA.objectives.filter((t) => t.x.length > 1);
    if (!byId("convergence-figure")) return;
    if (!paths.length) { byId("convergence-figure").hidden = true; return; }
    const xs = paths.flatMap((t) => t.x), ys = paths.flatMap((t) => t.y);
    const low = Math.min(...ys), high = Math.max(...ys);
    const plot = frame(byId("convergence-chart"),
      `Distance of the objective from its final value over ${Math.max(...xs)} iterations, on a logarithmic scale`,
      { low: 1, high: Math.max(...xs, 2), label: "iteration" },
      { low: low / 1.3, high: high * 1.3, label: "distance to the final value" }, { height: 280, log: true });
    paths.forEach((t, k) => {
      const line = add(plot.svg, "path", { class: "line", d: pathOf(t.x, t.y, plot) });
      if (paths.length > 1) line.style.stroke = COLOURS[k % COLOURS.length];
    });
  }

  // --- scores

  function interpolateColour(fraction) {
    const position = Math.max(0, Math.min(1, fraction)) * (SCALE.length - 1);
    const k = Math.min(SCALE.length - 2, Math.floor(position)), f = position - k;
    return `rgb(${SCALE[k].map((c, i) => Math.round(c + f * (SCALE[k + 1][i] - c))).join(",")})`;
  }

  // Ellipse that contains 95 % of a normal distribution with the moments of the points.
  function ellipse(points) {
    const n = points.length, mean = [0, 1].map((k) => points.reduce((t, p) => t + p[k], 0) / n);
    const moment = (i, j) => points.reduce((t, p) => t + (p[i] - mean[i]) * (p[j] - mean[j]), 0) / (n - 1);
    const a = moment(0, 0), b = moment(0, 1), c = moment(1, 1);
    const half = Math.hypot((a - c) / 2, b), angle = Math.atan2(2 * b, a - c) / 2;
    const [long, short] = [half, -half].map((h) => Math.sqrt(Math.max(0, 5.991 * ((a + c) / 2 + h))));
    return Array.from({ length: 73 }, (_, k) => {
      const u = long * Math.cos(k * Math.PI / 36), v = short * Math.sin(k * Math.PI / 36);
      return [mean[0] + u * Math.cos(angle) - v * Math.sin(angle),
        mean[1] + u * Math.sin(angle) + v * Math.cos(angle)];
    });
  }

  // Indices of the points that are far from the mean, the farthest first.
  function farthest(xs, ys, drawn) {
    const distance = new Map(drawn.map((i) => [i, 0]));
    for (const values of [xs, ys]) {
      const mean = drawn.reduce((t, i) => t + values[i], 0) / drawn.length;
      const variance = drawn.reduce((t, i) => t + (values[i] - mean) ** 2, 0) / drawn.length || 1;
      for (const i of drawn) distance.set(i, distance.get(i) + (values[i] - mean) ** 2 / variance);
    }
    return drawn.filter((i) => distance.get(i) > 5.991)
      .sort((i, j) => distance.get(j) - distance.get(i)).slice(0, 8);
  }

  // Writes names beside points; a name that would overlap another one moves up or down.
  function writeNames(plot, names) {
    const taken = [];
    for (const [x, y, name] of names) {
      const width = 6.6 * name.length, right = x + width + 8 < plot.right;
      const left = right ? x + 7 : x - 7 - width;
      const free = (top) => taken.every(([l, w, t]) => left > l + w || l > left + width || Math.abs(t - top) > 13);
      const shift = [0, 13, -13, 26, -26].find((s) => free(y + s));
      if (shift === undefined) continue;
      taken.push([left, width, y + shift]);
      add(plot.svg, "text", { class: "pointname", x: left, y: y + shift + 4 }, name);
    }
  }

  function drawScores() {
    const S = DATA.scores, L = S.label, d = S.values.length, n = S.rows.length;
    const hidden = new Set();  // labels that are switched off
    const range = L && L.kind === "number" ? span(L.values, 0) : null;
    const colour = (i) => !L ? "var(--path)" : L.kind === "group" ? COLOURS[L.values[i] % COLOURS.length]
      : L.values[i] === null ? MISSING : interpolateColour((L.values[i] - range.low) / (range.high - range.low || 1));
    const nameOf = (i) => S.ids ? S.ids[i] : `row ${S.rows[i]}`;
    const labelOf = (i) => !L ? "" : `, ${L.name}: ${L.kind === "group" ? L.groups[L.values[i]] : format(L.values[i])}`;
    const tools = byId("scores-tools"), live = byId("scores-live"), host = byId("scores-chart");
    const axes = [0, Math.min(1, d - 1)];
    if (d > 1) ["horizontal", "vertical"].forEach((axis, k) => {
      const select = add(add(tools, "label", {}, `${axis} `), "select", { id: `scores-${axis}` });
      for (let c = 0; c < d; c++) add(select, "option", { value: c }, `component ${c + 1}`);
      select.value = axes[k];
      select.addEventListener("change", () => { axes[k] = Number(select.value); draw(); });
    });

    function draw() {
      const xs = d > 1 ? S.values[axes[0]] : S.rows, ys = d > 1 ? S.values[axes[1]] : S.values[0];
      const axisName = (k) => `component ${k + 1}` +
        (S.variance ? ` (${(100 * S.variance[k]).toFixed(1)}% of the variance)` : "");
      const xName = d > 1 ? axisName(axes[0]) : "row", yName = axisName(d > 1 ? axes[1] : 0);
      const drawn = xs.map((x, i) => i).filter((i) => xs[i] !== null && ys[i] !== null &&
        !(L && L.kind === "group" && hidden.has(L.values[i])));
      const groups = L && L.kind === "group" && L.groups.length <= 8 && d > 1 ? L.groups : [];
      const outlines = groups.map((group, k) => [k, drawn.filter((i) => L.values[i] === k)])
        .filter(([, rows]) => rows.length >= 4)
        .map(([k, rows]) => [k, ellipse(rows.map((i) => [xs[i], ys[i]]))]);
      const extent = (values, k) => span([...values, ...outlines.flatMap(([, o]) => o.map((p) => p[k]))]);
      const plot = frame(host, `Scores of ${n} rows: ${yName} against ${xName}. Use the arrow keys to identify points.`,
        { ...extent(xs, 0), label: xName }, { ...extent(ys, 1), label: yName }, { height: 520 });
      plot.svg.setAttribute("tabindex", "0");
      const points = add(plot.svg, "g", { "fill-opacity": n > 500 ? 0.6 : 0.85 });
      const shown = new Set(drawn);
      const dots = xs.map((x, i) => {
        if (!shown.has(i)) return null;
        const dot = add(points, "circle", {
          r: n > 500 ? 3.5 : 5, cx: plot.toX(x).toFixed(1), cy: plot.toY(ys[i]).toFixed(1),
        });
        dot.style.fill = colour(i);
        return dot;
      });
      for (const [k, outline] of outlines) {
        const path = pathOf(outline.map((p) => p[0]), outline.map((p) => p[1]), plot);
        add(plot.svg, "path", { class: "ellipse", d: path }).style.stroke = COLOURS[k % COLOURS.length];
      }
      if (S.ids && d > 1) writeNames(plot, farthest(xs, ys, drawn).map(
        (i) => [plot.toX(xs[i]), plot.toY(ys[i]), shorten(S.ids[i], 20)]));
      const order = [...drawn].sort((a, b) => xs[a] - xs[b]);
      const tooltip = addTooltip(plot);
      let current = -1;
      const identify = (i) => {
        if (current >= 0 && dots[current]) dots[current].classList.remove("current");
        current = i;
        if (i < 0) { tooltip.hide(); return; }
        dots[i].classList.add("current");
        const description = `${nameOf(i)}${labelOf(i)}`;
        tooltip.show(plot.toX(xs[i]), plot.toY(ys[i]), shorten(description, 70));
        live.textContent = `${description}; ${xName} ${format(xs[i])}, ${yName} ${format(ys[i])}`;
      };
      plot.svg.addEventListener("pointermove", (event) => {
        const [px, py] = pointerPosition(plot.svg, event);
        let best = -1, smallest = 400;  // squared pixels
        for (const i of order) {
          const distance = (plot.toX(xs[i]) - px) ** 2 + (plot.toY(ys[i]) - py) ** 2;
          if (distance < smallest) { smallest = distance; best = i; }
        }
        if (best !== current) identify(best);
      });
      plot.svg.addEventListener("pointerleave", () => identify(-1));
      plot.svg.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!step || !order.length) return;
        event.preventDefault();
        const index = order.indexOf(current);
        identify(order[index < 0 ? 0 : (index + step + order.length) % order.length]);
      });
    }

    const legend = byId("scores-legend");
    if (L) add(legend, "span", {}, `${L.name}: `);
    if (L && L.kind === "group") L.groups.forEach((group, k) => {
      const button = add(legend, "button", { type: "button", "aria-pressed": "true", title: group });
      add(button, "span", { class: "swatch" }).style.background = COLOURS[k % COLOURS.length];
      add(button, "span", { class: "name" }, group);
      button.addEventListener("click", () => {
        if (!hidden.delete(k)) hidden.add(k);
        button.setAttribute("aria-pressed", String(!hidden.has(k)));
        draw();
      });
    });
    if (L && L.kind === "number") {
      add(legend, "span", {}, format(range.low));
      const stops = SCALE.map((c) => `rgb(${c.join(",")})`).join(",");
      add(legend, "span", { class: "scale" }).style.background = `linear-gradient(to right,${stops})`;
      add(legend, "span", {}, format(range.high));
    }
    draw();
    redraw.push(draw);
  }

  // --- table of variables

  function makeTable() {
    const PAGE = 50, table = byId("table"), body = table.tBodies[0];
    const all = DATA.names.map((name, k) =>
      ({ name, lower: name.toLowerCase(), rank: k + 1, relevance: DATA.relevance[k], selected: DATA.selected[k],
        qvalue: DATA.tests ? DATA.tests.qvalues[k] : null,
        frequency: DATA.frequency ? DATA.frequency[k] : null }));
    const titles = { rank: "rank", name: "name", relevance: DATA.tests ? "communality" : "relevance",
      qvalue: "q-value", frequency: "selection frequency", selected: "selection" };
    const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
    let key = "rank", direction = 1, page = 0, rows = all;

    function compare(a, b) {
      const by = key === "name" ? collator.compare(a.name, b.name) : a[key] - b[key];
      return direction * by || a.rank - b.rank;
    }
    function refresh() {
      const part = byId("search").value.trim().toLowerCase(), only = byId("only-selected").checked;
      rows = all.filter((r) => (!only || r.selected) && r.lower.includes(part)).sort(compare);
      page = 0;
      show();
    }
    function show() {
      const pages = Math.max(1, Math.ceil(rows.length / PAGE));
      page = Math.max(0, Math.min(page, pages - 1));
      body.replaceChildren();
      for (const r of rows.slice(page * PAGE, page * PAGE + PAGE)) {
        const line = add(body, "tr", r.selected ? { class: "is-selected" } : {});
        add(line, "td", {}, r.rank.toLocaleString("en"));
        add(line, "td", {}, r.name);
        const cell = add(line, "td");
        const meter = add(cell, "span", { class: "meter", "aria-hidden": "true" });
        add(meter, "span").style.width = `${100 * r.relevance}%`;
        cell.append(format(r.relevance));
        if (DATA.tests) add(line, "td", {}, format(r.qvalue));
        if (DATA.frequency) add(line, "td", {}, `${Math.round(100 * r.frequency)}%`);
        add(line, "td", {}, r.selected ? "yes" : "no");
      }
      const order = direction > 0 ? "ascending" : "descending";
      byId("count").textContent = `${rows.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} variables` +
        (key === "rank" && direction > 0 ? "" : `, sorted by ${titles[key]}, ${order}`);
      byId("page-number").textContent = `page ${page + 1} of ${pages}`;
      byId("previous").disabled = page === 0;
      byId("next").disabled = page === pages - 1;
    }
    for (const button of table.tHead.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const clicked = button.dataset.key;
        if (clicked === key) direction = -direction;
        else { key = clicked; direction = ["relevance", "selected", "frequency"].includes(key) ? -1 : 1; }
        for (const head of table.tHead.rows[0].cells) {
          const sorted = head.firstElementChild === button;
          head.setAttribute("aria-sort", sorted ? (direction > 0 ? "ascending" : "descending") : "none");
        }
        refresh();
      });
    }
    byId("search").addEventListener("input", refresh);
    byId("only-selected").addEventListener("change", refresh);
    byId("previous").addEventListener("click", () => { page--; show(); });
    byId("next").addEventListener("click", () => { page++; show(); });
    refresh();
  }

  if (DATA.path) {
    const zoom = byId("size-zoom"), zoomed = () => zoom.getAttribute("aria-pressed") === "true";
    if (DATA.path.x.length <= 31) zoom.parentNode.hidden = true;
    zoom.addEventListener("click", () => {
      zoom.setAttribute("aria-pressed", String(!zoomed()));
      drawSize(zoomed());
    });
    redraw.push(() => drawSize(zoomed()));
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
