// plot.js - small plots of points as SVG: sharp on paper, small in the file.
import { el, svg } from "./page.js";
import * as format from "./format.js";

// Round tick values between low and high, about n of them.
function ticks(low, high, n) {
  const raw = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(raw)), unit = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const out = [];
  for (let v = Math.ceil(low / unit) * unit; v <= high + unit * 1e-9; v += unit) out.push(Number(v.toPrecision(12)));
  return out;
}
const short = (v) => (Math.abs(v) >= 1e4 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(0) : Number(v.toPrecision(4)).toString());

export function fit(x, y) {
  const n = x.length, mx = x.reduce((a, b) => a + b, 0) / n, my = y.reduce((a, b) => a + b, 0) / n;
  let sxy = 0, sxx = 0, syy = 0;
  for (let i = 0; i < n; i++) { sxy += (x[i] - mx) * (y[i] - my); sxx += (x[i] - mx) ** 2; syy += (y[i] - my) ** 2; }
  return sxx > 0 ? { slope: sxy / sxx, at: my - (sxy / sxx) * mx, r: sxy / Math.sqrt(sxx * syy) } : null;
}

// kind: "fit" (dots and a straight line), "spikes" (stems from zero), "line" or "dots".
// texts: how to write the ticks, {x(v), y(v)}.
export function plot(e, kind, texts = {}) {
  const W = 340, H = 200, m = { left: 44, right: 8, top: 26, bottom: 40 }, pairs = e.x.map((x, i) => [x, e.y[i]]).filter(([x, y]) => x != null && y != null);
  if (!pairs.length) return null;
  const xs = pairs.map((p) => p[0]), ys = pairs.map((p) => p[1]), min = (a) => a.reduce((p, q) => Math.min(p, q)), max = (a) => a.reduce((p, q) => Math.max(p, q));
  let [x0, x1, y0, y1] = [min(xs), max(xs), min(ys), max(ys)];
  if (kind === "spikes") y0 = Math.min(0, y0);
  const px = (x1 - x0 || 1) * 0.04, py = (y1 - y0 || Math.abs(y1) || 1) * 0.08;
  x0 -= px; x1 += px; if (kind !== "spikes") y0 -= py; y1 += py;
  const X = (x) => (m.left + ((x - x0) / (x1 - x0)) * (W - m.left - m.right)).toFixed(1), Y = (y) => (H - m.bottom - ((y - y0) / (y1 - y0)) * (H - m.top - m.bottom)).toFixed(1);
  const parts = [], whole = xs.every(Number.isInteger);
  for (const t of ticks(y0, y1, 4)) parts.push(svg("line", { x1: m.left, x2: W - m.right, y1: Y(t), y2: Y(t), class: "grid" }), svg("text", { x: m.left - 6, y: Y(t), dy: "0.32em", "text-anchor": "end" }, (texts.y ?? short)(t)));
  for (const t of ticks(x0, x1, 5).filter((v) => !whole || Number.isInteger(v))) parts.push(svg("text", { x: X(t), y: H - m.bottom + 16, "text-anchor": "middle" }, (texts.x ?? short)(t)));
  parts.push(svg("line", { x1: m.left, x2: W - m.right, y1: H - m.bottom, y2: H - m.bottom, class: "base" }));
  parts.push(svg("text", { x: (m.left + W - m.right) / 2, y: H - 6, "text-anchor": "middle", class: "label" }, e.x_label ?? ""));
  parts.push(svg("text", { x: 4, y: 11, class: "label" }, e.y_label ?? ""));
  let told = `${e.name}: ${pairs.length} points`;
  if (kind === "spikes") parts.push(svg("path", { class: "spike", d: pairs.map(([x, y]) => `M${X(x)} ${Y(Math.max(0, y0))}V${Y(y)}`).join("") }));
  if (kind === "line") parts.push(svg("path", { class: "line", d: "M" + [...pairs].sort((a, b) => a[0] - b[0]).map(([x, y]) => `${X(x)} ${Y(y)}`).join("L") }));
  // One path of tiny round-capped strokes draws thousands of dots cheaply.
  if (kind !== "line" || pairs.length < 60) parts.push(svg("path", { class: pairs.length > 400 ? "dots many" : "dots", d: pairs.map(([x, y]) => `M${X(x)} ${Y(y)}h0`).join("") }));
  const line = kind === "fit" ? fit(xs, ys) : null;
  if (line) {
    const a = min(xs), b = max(xs);
    parts.push(svg("line", { x1: X(a), x2: X(b), y1: Y(line.at + line.slope * a), y2: Y(line.at + line.slope * b), class: "fit" }));
    told = `${short(line.at)} ${line.slope < 0 ? "−" : "+"} ${short(Math.abs(line.slope))} · x, r = ${line.r.toFixed(3)}, ${format.plural(pairs.length, "point")}`;
  }
  return el("figure", { class: "evidence" }, el("div", { class: "figure-title" }, e.name), svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${e.name}. ${told}` }, ...parts), line ? el("figcaption", {}, "fit: " + told) : null);
}
