// heatmap.js - workers as cells: x DP rank, y pipeline stage, colour slowdown. Wide jobs are folded into bands, so that every worker of
// ten thousand has a cell of its own. Beside the cells stand strips for whole stages and DP ranks.
import { canvas, showTip, hideTip, theme, css } from "./page.js";
import { heatIndex, heatRamp, heatInk, heatRange } from "./colors.js";

const left = 40, top = 22, gap = 5;

// Cell sizes and bands for a width: cells as wide as fit, at least 4 pixels, then as many bands as it takes.
export function layout(width, dp, pp, strips) {
  const room = width - left - (strips ? 36 : 4);
  const cell = Math.max(4, Math.min(104, Math.floor(room / dp)));
  let across = Math.min(dp, Math.max(1, Math.floor(room / cell)));
  if (across < dp && across > 8) across -= across % 8;
  const bands = Math.ceil(dp / across);
  const height = Math.max(4, Math.floor(Math.min(pp <= 10 && dp <= 256 ? Math.max(34, Math.min(84, 250 / pp)) : 22, Math.floor((bands > 1 ? 560 : 420) / (pp * bands)))));
  const strip = strips ? Math.max(4, Math.min(14, height)) : 0;
  const band = top + pp * height + (strips ? gap + strip : 0) + 10;
  return { cell, across, bands, height, strip, band, total: bands * band, stripX: left + across * cell + gap };
}

// o: dp, pp, value(stage, dp), byStage[], byDp[] (or null), label, text(worker), onSelect(worker), selected()
export function heatmap(host, o) {
  let at, cursor = null;
  const strips = Boolean(o.byStage);
  const live = document.createElement("div");
  live.className = "sr";
  live.setAttribute("aria-live", "polite");
  host.append(live);

  const place = (w) => ({ x: left + (w.dp % at.across) * at.cell, y: Math.floor(w.dp / at.across) * at.band + top + w.stage * at.height });

  function cellColor(context, ramp, s, x, y, w, h) {
    context.fillStyle = s == null ? css("--soft") : ramp.colors[heatIndex(s)];
    context.fillRect(x, y, w, h);
    if (s == null && w > 8) { context.strokeStyle = css("--muted"); context.beginPath(); context.moveTo(x + 3, y + h - 3); context.lineTo(x + w - 3, y + 3); context.stroke(); }
  }
  function outline(context, w, color, wide) {
    const { x, y } = place(w);
    context.lineWidth = wide;
    context.strokeStyle = color;
    context.strokeRect(x - wide / 2, y - wide / 2, at.cell - 0.5 + wide, at.height - 0.5 + wide);
    context.lineWidth = 1;
  }
  function draw(context, width) {
    at = layout(width, o.dp, o.pp, strips);
    const ramp = heatRamp(theme()), ink = css("--muted"), grid = at.cell > 6 ? 1 : 0, rows = at.height > 6 ? 1 : 0, figures = at.cell >= 40 && at.height >= 18;
    context.textBaseline = "middle";
    for (let b = 0; b < at.bands; b++) {
      const first = b * at.across, last = Math.min(o.dp, first + at.across), y0 = b * at.band + top;
      context.fillStyle = ink;
      context.font = context.font.replace(/^\d+(\.\d+)?px/, "11px");
      context.textAlign = "center";
      const every = [1, 2, 4, 8, 16, 32, 64, 128, 256].find((n) => n * at.cell >= 34) ?? 512;
      for (let d = first; d < last; d++) if (d % every === 0) context.fillText(d, left + (d - first + 0.5) * at.cell, y0 - 9);
      context.textAlign = "right";
      const skip = [1, 2, 4, 8, 16, 32].find((n) => n * at.height >= 13) ?? 64;
      for (let s = 0; s < o.pp; s += skip) context.fillText(s, left - 7, y0 + (s + 0.5) * at.height + 0.5);
      for (let s = 0; s < o.pp; s++)
        for (let d = first; d < last; d++) {
          const v = o.value(s, d), x = left + (d - first) * at.cell, y = y0 + s * at.height;
          cellColor(context, ramp, v, x, y, at.cell - grid, at.height - rows);
          if (figures && v != null) {
            context.textAlign = "center";
            context.fillStyle = heatInk(theme(), heatIndex(v));
            context.fillText(v.toFixed(2), x + (at.cell - 1) / 2, y + at.height / 2);
          }
        }
      if (!strips) continue;
      const y1 = y0 + o.pp * at.height + gap;
      for (let d = first; d < last; d++) cellColor(context, ramp, o.byDp[d], left + (d - first) * at.cell, y1, at.cell - grid, at.strip);
      for (let s = 0; s < o.pp; s++) cellColor(context, ramp, o.byStage[s], left + (last - first) * at.cell + gap, y0 + s * at.height, 16, at.height - rows);
    }
    const chosen = o.selected();
    if (chosen) { outline(context, chosen, css("--card"), 4); outline(context, chosen, css("--ink"), 2); }
    if (cursor && document.activeElement === view.node) outline(context, cursor, css("--focus"), 2);
  }

  const attributes = { tabindex: 0, role: "application", "aria-roledescription": "heatmap", "aria-label": `${o.label}. Arrow keys move, Enter selects a worker.`, class: "heat" };
  let view = { node: null };
  view = canvas(host, attributes, (width) => (at = layout(width, o.dp, o.pp, strips)).total, draw);

  const hit = (event) => {
    const box = view.node.getBoundingClientRect(), x = event.clientX - box.left - left, y = event.clientY - box.top, b = Math.floor(y / at.band);
    const stage = Math.floor((y - b * at.band - top) / at.height), column = Math.floor(x / at.cell), dp = b * at.across + column;
    return column >= 0 && column < at.across && dp < o.dp && stage >= 0 && stage < o.pp && b < at.bands ? { stage, dp } : null;
  };
  view.node.addEventListener("mousemove", (event) => {
    const worker = hit(event);
    view.node.style.cursor = worker ? "pointer" : "default";
    if (worker) showTip(event.clientX, event.clientY, o.text(worker)); else hideTip();
  });
  view.node.addEventListener("mouseleave", hideTip);
  view.node.addEventListener("click", (event) => { const worker = hit(event); if (worker) { cursor = worker; o.onSelect(worker); } });
  view.node.addEventListener("focus", () => view.paint());
  view.node.addEventListener("blur", () => view.paint());
  view.node.addEventListener("keydown", (event) => {
    cursor ??= o.selected() ?? { stage: 0, dp: 0 };
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -o.dp], End: [0, o.dp] }[event.key];
    if (move) {
      const clamp = (x, n) => Math.max(0, Math.min(n - 1, x));
      cursor = { stage: clamp(cursor.stage + move[0], o.pp), dp: clamp(cursor.dp + move[1], o.dp) };
      live.textContent = o.text(cursor);
      view.paint();
    } else if (event.key === "Enter" || event.key === " ") o.onSelect(cursor);
    else return;
    event.preventDefault();
  });
  return view;
}

export function legend(host) {
  const view = canvas(host, { role: "img", "aria-label": `Colour scale: slowdown ${heatRange[0]} to ${heatRange[1]} and above` }, () => 30, (context) => {
    const { colors } = heatRamp(theme()), width = 200;
    for (let i = 0; i < width; i++) { context.fillStyle = colors[Math.round((i / (width - 1)) * (colors.length - 1))]; context.fillRect(i, 0, 1, 12); }
    context.fillStyle = css("--muted");
    context.font = context.font.replace(/^\d+px/, "11px");
    context.textBaseline = "top";
    for (const [s, align] of [[1, "left"], [1.1, "center"], [1.2, "center"], [1.3, "center"], [1.4, "center"], [1.5, "center"]]) {
      context.textAlign = align;
      context.fillText(s === 1.5 ? "1.5+" : s.toFixed(1), ((s - 1) / 0.5) * width, 16);
    }
  });
  return view;
}
