"use strict";
// Charts as SVG. Names are only ever set as text, so that none can become markup.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function html(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const DASHES = ["", "6 3", "1.5 2.5"];
const lineStyle = (i) => ({ color: `var(--c${i % 7})`, dash: DASHES[Math.floor(i / 7) % 3] });

function brief(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= unit) return `${Number((x / unit).toPrecision(3))}${name}`;
  return size < 1e-3 ? x.toExponential(0) : String(Number(x.toPrecision(3)));
}
const percent = (x) => `${Number((100 * x).toPrecision(3)).toLocaleString("en")}%`;
const exact = (x) => (Math.abs(x) >= 1000 ? x.toLocaleString("en", { maximumFractionDigits: 0 }) : String(Number(x.toPrecision(4))));

function linearTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const marks = last - first > 3 ? [1] : [1, 2, 5];
  for (let p = first; p <= last; p++)
    for (const m of marks) if (m * 10 ** p >= low * 0.999 && m * 10 ** p <= high * 1.001) ticks.push(m * 10 ** p);
  return ticks;
}

function scaleOf(low, high, from, to, log) {
  const f = log ? Math.log10 : (x) => x;
  const a = f(low), b = f(high);
  return (x) => from + ((f(x) - a) / (b - a || 1)) * (to - from);
}

// The least and the greatest of all that is drawn.
function extent(series, log) {
  let low = Infinity, high = -Infinity;
  for (const s of series)
    for (const values of [s.mean, s.low, s.high, ...(s.runs || [])])
      for (const v of values || []) {
        if (v === null || (log && v <= 0)) continue;
        if (v < low) low = v;
        if (v > high) high = v;
      }
  if (low > high) return null;
  if (log) return [low, high > low ? high : low * 2];
  const pad = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
  return [low - pad, high + pad];
}

function linePath(xs, ys, x, y, drawn) {
  let path = "", open = false;
  ys.forEach((v, i) => {
    if (v === null || !drawn(v)) { open = false; return; }
    // With nothing after it, h0 is a dot.
    path += `${open ? "L" : "M"}${x(xs[i]).toFixed(1)} ${y(v).toFixed(1)}${open ? "" : "h0"}`;
    open = true;
  });
  return path;
}

// One point is a dot: a thick line of no length with round ends.
const single = (s) => s.mean.filter((v) => v !== null).length === 1;

function bandPath(xs, low, high, x, y, drawn) {
  const at = xs.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null && drawn(low[i]) && drawn(high[i]));
  if (at.length < 2) return "";
  const point = (i, values) => `${x(xs[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  return `M${at.map((i) => point(i, high)).join("L")}L${at.reverse().map((i) => point(i, low)).join("L")}Z`;
}

// spec: {series: [{name, style, x, mean, low, high, runs}], xName, yName, xText, yText, log, small, lines}
function lineChart(host, spec) {
  host.replaceChildren();
  const width = Math.max(host.clientWidth - (spec.small ? 14 : 0), 120);
  const height = spec.small ? 92 : Math.min(Math.max(width * 0.5, 240), 400);
  const series = spec.series.filter((s) => s.mean.some((v) => v !== null));
  const range = extent(series, spec.log);
  if (!range) {
    host.append(html("p", { class: "hint" }, spec.log ? "nothing above 0 to show on a log scale" : "nothing to show: choose an agent"));
    return;
  }
  const drawn = spec.log ? (v) => v > 0 : () => true;
  const yText = spec.yText || brief, xText = spec.xText || brief;
  const yTicks = spec.log ? logTicks(...range) : linearTicks(...range, spec.small ? 3 : 6);
  const left = spec.small ? 30 : 14 + 7 * Math.max(...yTicks.map((t) => yText(t).length), 3);
  const right = spec.small ? 4 : 16, top = 8, bottom = spec.small ? 14 : 38;
  const xHigh = Math.max(...series.map((s) => s.x[s.x.length - 1]));
  const first = Math.min(...series.map((s) => s.x[0])), xLow = first < xHigh ? first : 0;
  const x = scaleOf(xLow, xHigh > xLow ? xHigh : xLow + 1, left, width - right, false);
  const y = scaleOf(...range, height - bottom, top, spec.log);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${spec.yName} over ${spec.xName}` });
  for (const t of yTicks) {
    svg.append(element("line", { class: "axis", x1: left, x2: width - right, y1: y(t), y2: y(t) }));
    svg.append(element("text", { x: left - 5, y: y(t) + 4, "text-anchor": "end" }, yText(t)));
  }
  for (const t of linearTicks(xLow, xHigh > xLow ? xHigh : xLow + 1, spec.small ? 2 : Math.max(4, width / 110)))
    svg.append(element("text", { x: x(t), y: height - bottom + 14, "text-anchor": "middle" }, xText(t)));
  if (!spec.small) {
    svg.append(element("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, spec.xName));
  }
  for (const [name, value] of spec.lines || []) {
    if (value === null || value === undefined || value < range[0] || value > range[1] || !drawn(value)) continue;
    svg.append(element("line", { class: "zero", "stroke-dasharray": "2 3", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    if (!spec.small) svg.append(element("text", { x: width - right, y: y(value) - 4, "text-anchor": "end" }, name));
  }
  for (const s of series) {
    if (s.low && s.high)
      svg.append(element("path", { d: bandPath(s.x, s.low, s.high, x, y, drawn), fill: s.style.color, "fill-opacity": 0.18, class: "band" }));
    for (const run of s.runs || [])
      svg.append(element("path", { d: linePath(s.x, run, x, y, drawn), fill: "none", stroke: s.style.color, "stroke-opacity": 0.45, "stroke-width": 0.8, "stroke-linecap": "round", class: "run" }));
  }
  for (const s of series)
    svg.append(element("path", { d: linePath(s.x, s.mean, x, y, drawn), fill: "none", stroke: s.style.color, "stroke-width": single(s) ? 7 : spec.small ? 1.3 : 2, "stroke-dasharray": s.style.dash, "stroke-linejoin": "round", "stroke-linecap": single(s) ? "round" : "butt", class: "line" }));
  host.append(svg);
  if (!spec.small) hover(host, svg, series, x, { ...spec, yText: spec.exact || exact, xText, left, right, top, bottom, width, height });
}

function hover(host, svg, series, x, spec) {
  const rule = element("line", { class: "zero", y1: spec.top, y2: spec.height - spec.bottom, visibility: "hidden" });
  svg.append(rule);
  const tip = html("div", { class: "tip", hidden: "" });
  host.append(tip);
  const grid = series.reduce((a, s) => (s.x.length > a.length ? s.x : a), []);
  const leave = () => { tip.hidden = true; rule.setAttribute("visibility", "hidden"); };
  // A finger that is lifted leaves the chart too: what it asked for stays until the next touch.
  host.onpointerleave = (event) => { if (event.pointerType !== "touch") leave(); };
  host.onpointermove = host.onpointerdown = (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * spec.width;
    let best = 0;
    grid.forEach((v, i) => { if (Math.abs(x(v) - at) < Math.abs(x(grid[best]) - at)) best = i; });
    const step = grid[best];
    const rows = series
      .map((s) => ({ s, i: nearest(s.x, step) }))
      .filter(({ s, i }) => s.mean[i] !== null)
      .sort((a, b) => b.s.mean[b.i] - a.s.mean[a.i]);
    if (!rows.length) return leave();
    tip.replaceChildren(html("div", {}, html("span"), html("span", {}, `${spec.xText(step)} ${spec.xName}`), html("span")));
    for (const { s, i } of rows) {
      const mark = html("span");
      mark.style.background = s.style.color;
      const limits = s.low && s.low[i] !== null ? ` [${spec.yText(s.low[i])}, ${spec.yText(s.high[i])}]` : "";
      tip.append(html("div", {}, mark, html("span", {}, s.name), html("span", {}, spec.yText(s.mean[i]) + limits)));
    }
    tip.hidden = false;
    const px = (x(step) / spec.width) * box.width;
    rule.setAttribute("x1", x(step)); rule.setAttribute("x2", x(step)); rule.setAttribute("visibility", "visible");
    tip.style.left = `${Math.max(0, px > box.width / 2 ? px - tip.offsetWidth - 10 : Math.min(px + 10, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${spec.top}px`;
  };
}

document.addEventListener("pointerdown", (event) => {
  for (const tip of document.querySelectorAll(".tip"))
    if (!tip.parentElement.contains(event.target)) tip.hidden = true;
});

function nearest(xs, value) {
  let best = 0;
  xs.forEach((v, i) => { if (Math.abs(v - value) < Math.abs(xs[best] - value)) best = i; });
  return best;
}

// Linear up to 10%, logarithmic beyond, for bars of which one can be a hundred times another.
const symlog = (v) => Math.sign(v) * (Math.abs(v) <= 0.1 ? Math.abs(v) * 10 : 1 + Math.log10(Math.abs(v) * 10));

function barChart(host, bars) {
  host.replaceChildren();
  if (!bars.length) {
    host.append(html("p", { class: "hint" }, "no game has both agents and a random score"));
    return;
  }
  const width = Math.max(host.clientWidth, 200), row = 17, top = 20;
  const height = top + bars.length * row + 6;
  const left = Math.min(170, 12 + 7 * Math.max(...bars.map((b) => b.name.length))), right = 52;
  const wide = bars.some((b) => Math.abs(b.value) >= 1), at = wide ? symlog : (v) => v;
  const high = Math.max(...bars.map((b) => at(b.value)), wide ? 0.2 : 0.02), low = Math.min(...bars.map((b) => at(b.value)), 0);
  const x = scaleOf(low, high, left + (low < 0 ? 54 : 0), width - right, false);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "improvement of each game" });
  let last = -Infinity;
  for (const t of wide ? [-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100, 1000] : linearTicks(low, high, width / 90)) {
    if (at(t) < low || at(t) > high) continue;
    svg.append(element("line", { class: Math.abs(t) > 1e-9 ? "axis" : "zero", x1: x(at(t)), x2: x(at(t)), y1: top - 4, y2: height }));
    if (x(at(t)) - last > 42) {
      svg.append(element("text", { x: x(at(t)), y: 11, "text-anchor": "middle" }, percent(t)));
      last = x(at(t));
    }
  }
  bars.forEach((bar, i) => {
    const y = top + i * row, end = x(at(bar.value)), zero = x(0);
    const rect = element("rect", { x: Math.min(end, zero), width: Math.max(Math.abs(end - zero), 0.8), y: y + 2, height: row - 5, fill: bar.value > 0 ? "var(--better)" : "var(--worse)", rx: 2 });
    svg.append(rect, element("text", { x: left - 6, y: y + 12, "text-anchor": "end" }, bar.name.length > 22 ? `${bar.name.slice(0, 21)}…` : bar.name));
    svg.append(element("text", { x: end + (bar.value > 0 ? 4 : -4), y: y + 12, "text-anchor": bar.value > 0 ? "start" : "end" }, percent(bar.value)));
  });
  host.append(svg);
}

// rows: [{name, style, value, low, high}]
function intervalChart(box, title, rows) {
  const width = Math.max(box.clientWidth, 200), row = 20, height = rows.length * row + 22;
  const values = rows.flatMap((r) => [r.value, r.low, r.high]).filter((v) => v !== null);
  let low = Math.min(...values), high = Math.max(...values);
  const pad = (high - low) * 0.06 || 0.1;
  low -= pad; high += pad;
  const left = Math.min(width * 0.4, 12 + 6.6 * Math.max(...rows.map((r) => r.name.length)));
  const x = scaleOf(low, high, left, width - 10, false);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title });
  for (const t of linearTicks(low, high, width / 75)) {
    svg.append(element("line", { class: "axis", x1: x(t), x2: x(t), y1: 0, y2: height - 20 }));
    svg.append(element("text", { x: x(t), y: height - 6, "text-anchor": "middle" }, percent(t)));
  }
  rows.forEach((r, i) => {
    const y = i * row, room = Math.floor((left - 8) / 6.6);
    svg.append(element("text", { x: left - 6, y: y + 14, "text-anchor": "end" }, r.name.length > room ? `${r.name.slice(0, room - 1)}…` : r.name));
    if (r.low !== null) svg.append(element("rect", { x: x(r.low), width: Math.max(x(r.high) - x(r.low), 1), y: y + 4, height: row - 8, fill: r.style.color, "fill-opacity": 0.35, rx: 2 }));
    svg.append(element("line", { x1: x(r.value), x2: x(r.value), y1: y + 3, y2: y + row - 3, stroke: r.style.color, "stroke-width": 2.4 }));
  });
  box.append(svg);
}
