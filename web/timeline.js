// timeline.js - the slowest step: what its worst replica and a typical one did, above what an ideal one would have done, on one time axis.
import { el, canvas, css, showTip, hideTip } from "./page.js";
import { unpack } from "./unpack.js";
import * as format from "./format.js";

export const groups = [
  { name: "forward", color: "--forward", ink: "#ffffff", is: (t) => t === "forward-compute" },
  { name: "backward", color: "--backward", ink: "#16202b", is: (t) => t === "backward-compute" },
  { name: "pipeline communication", color: "--p2p", is: (t) => /-(send|recv)$/.test(t) },
  { name: "collective", color: "--collective", is: (t) => /all-gather|reduce-scatter|all-reduce|clip/.test(t) },
  { name: "optimizer, other", color: "--other", ink: "#ffffff", is: () => true },
];

async function decode(t) {
  const ops = {};
  for (const key of ["stage", "type", "seq", "microbatch", "chunk"]) ops[key] = await unpack(t[key]);
  const groupOf = t.op_types.map((name) => groups.findIndex((g) => g.is(name)));
  const replicas = [];
  for (const r of t.replicas) replicas.push({ why: r.why, dp: r.dp_rank, start: await unpack(r.start), move: await unpack(r.move), end: await unpack(r.end) });
  return { ops, groupOf, replicas, n: ops.stage.length };
}

// t: extra.timeline; stages; go.selected() -> worker, go.worker(worker); returns {paint}
export async function timeline(host, t, stages, go) {
  const { ops, groupOf, replicas, n } = await decode(t), tick = t.tick_s;
  const full = replicas.reduce((m, r) => r.end.reduce((a, b) => Math.max(a, b), m), 1);
  const view = { from: 0, to: full };
  const row = stages <= 4 ? 30 : stages <= 8 ? 24 : stages <= 16 ? 16 : Math.max(6, Math.floor(300 / stages)), left = stages > 10 ? 56 : 48, title = 24, axis = 26;
  const panel = title + stages * row + 8, height = replicas.length * panel + axis;
  const rows = replicas.map(() => Array.from({ length: stages }, () => []));
  // Waiting lies under, transfers and compute over it: draw long ones first.
  for (let i = 0; i < n; i++) for (let k = 0; k < replicas.length; k++) rows[k][ops.stage[i]].push(i);
  replicas.forEach((r, k) => rows[k].forEach((list) => list.sort((a, b) => r.start[a] - r.start[b])));
  const isCompute = (i) => groupOf[ops.type[i]] < 2 || groupOf[ops.type[i]] === 4;
  let width = 0;
  const X = (time) => left + ((time - view.from) / (view.to - view.from)) * (width - left - 8);

  function drawRow(context, r, list, y, h, colors) {
    const upper = Math.max(3, Math.floor(h * 0.64)), lower = Math.max(2, h - upper - 2);
    const bar = (color, a, b, compute) => {
      const x0 = Math.max(left, X(a)), x1 = Math.min(width - 8, X(b));
      if (x1 < left || x0 > width - 8 || b <= a) return null;
      context.fillStyle = color;
      const w = Math.max(0.6, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0));
      context.fillRect(x0, compute ? y : y + upper, w, compute ? upper - 1 : lower);
      return w;
    };
    for (const i of list) if (!isCompute(i) && r.move[i] > r.start[i]) bar(colors.waiting, r.start[i], r.move[i], false);
    for (const i of list) {
      const compute = isCompute(i), w = bar(colors[groupOf[ops.type[i]]], r.move[i], r.end[i], compute);
      if (compute && w > 20 && upper >= 12 && ops.microbatch[i] >= 0) {
        context.fillStyle = groups[groupOf[ops.type[i]]].ink;
        context.fillText(ops.microbatch[i], Math.max(left, X(r.move[i])) + w / 2, y + upper / 2);
      }
    }
  }
  const chart = canvas(host, { tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline of the slowest step. Plus and minus zoom, arrow keys move, 0 shows all.` }, () => height, (context, w) => {
    width = w;
    const colors = groups.map((g) => css(g.color));
    colors.waiting = css("--waiting");
    const ink = css("--ink"), muted = css("--muted"), line = css("--line"), face = getComputedStyle(document.body).fontFamily, chosen = go.selected();
    replicas.forEach((r, k) => {
      const y0 = k * panel;
      context.textBaseline = "middle";
      context.textAlign = "left";
      context.font = "600 12.5px " + face;
      context.fillStyle = ink;
      context.fillText(r.dp == null ? r.why : `${r.why} (DP rank ${r.dp})`, 0, y0 + title / 2);
      const done = r.end.reduce((a, b) => Math.max(a, b), 0) * tick, text = format.seconds(done);
      context.textAlign = "right";
      context.font = "12.5px " + face;
      context.fillStyle = muted;
      context.fillText(text, width - 8, y0 + title / 2);
      context.font = "11px " + face;
      for (let s = 0; s < stages; s++) {
        const y = y0 + title + s * row;
        context.fillStyle = line;
        context.fillRect(left, y + row - 1, width - left - 8, 0.5);
        if (chosen && chosen.stage === s && chosen.dp === r.dp) { context.fillStyle = css("--soft"); context.fillRect(0, y - 1, width, row); }
        if (row >= 12 || s % 4 === 0) {
          context.fillStyle = muted;
          context.textAlign = "right";
          context.fillText(stages <= 16 ? `stage ${s}`.slice(row < 12 ? 6 : 0) : s, left - 6, y + row / 2);
        }
        context.textAlign = "center";
        context.font = "10px " + face;
        drawRow(context, r, rows[k][s], y + 1, row - 3, colors);
        context.font = "11px " + face;
      }
    });
    const span = (view.to - view.from) * tick, raw = span / Math.max(2, Math.floor((width - left) / 110)), power = 10 ** Math.floor(Math.log10(raw)), unit = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
    context.fillStyle = muted;
    context.textAlign = "center";
    for (let v = Math.ceil((view.from * tick) / unit) * unit; v <= view.to * tick + 1e-12; v += unit) {
      const x = X(v / tick);
      context.fillStyle = line;
      context.fillRect(x, title, 0.5, height - axis - title);
      context.fillStyle = muted;
      context.fillText(format.tick(Number(v.toPrecision(10))), Math.min(width - 24, x), height - axis + 14);
    }
  });

  function zoom(factor, center = (view.from + view.to) / 2) {
    const size = Math.min(full, Math.max(full * 2e-4, (view.to - view.from) * factor)), share = (center - view.from) / (view.to - view.from);
    pan(center - share * size - view.from, size);
  }
  function pan(by, size = view.to - view.from) {
    view.from = Math.max(0, Math.min(full - size, view.from + by));
    view.to = view.from + size;
    chart.paint();
  }
  const timeAt = (event) => view.from + ((event.clientX - chart.node.getBoundingClientRect().left - left) / (width - left - 8)) * (view.to - view.from);
  function hit(event) {
    const box = chart.node.getBoundingClientRect(), y = event.clientY - box.top, k = Math.floor(y / panel), s = Math.floor((y - k * panel - title) / row), time = timeAt(event);
    if (k < 0 || k >= replicas.length || s < 0 || s >= stages) return null;
    const r = replicas[k], upper = (y - k * panel - title - s * row) < 1 + (row - 3) * 0.64, slack = ((view.to - view.from) / width) * 1.5;
    let best = -1;
    for (const i of rows[k][s]) if (isCompute(i) === upper && r.start[i] <= time + slack && r.end[i] >= time - slack && (best < 0 || r.end[i] - r.start[i] < r.end[best] - r.start[best])) best = i;
    return { r, stage: s, op: best };
  }
  function told({ r, stage, op }) {
    const place = `stage ${stage}` + (r.dp == null ? ", ideal" : `, DP rank ${r.dp}`);
    if (op < 0) return place;
    const lines = [`${t.op_types[ops.type[op]]} ${ops.seq[op]} · ${place}`];
    if (ops.microbatch[op] >= 0) lines.push(`microbatch ${ops.microbatch[op]}` + (ops.chunk[op] > 0 ? `, chunk ${ops.chunk[op]}` : ""));
    lines.push(`from ${format.seconds(r.start[op] * tick)}, lasts ${format.seconds((r.end[op] - r.move[op]) * tick)}`);
    if (r.move[op] > r.start[op]) lines.push(`waits ${format.seconds((r.move[op] - r.start[op]) * tick)} for its peers`);
    return lines.join("\n");
  }
  let drag = null;
  chart.node.addEventListener("mousedown", (event) => { drag = { x: event.clientX, from: view.from, moved: false }; });
  addEventListener("mouseup", () => { drag = null; });
  chart.node.addEventListener("mousemove", (event) => {
    if (drag && event.buttons) {
      drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
      hideTip();
      pan(drag.from - ((event.clientX - drag.x) / (width - left - 8)) * (view.to - view.from) - view.from);
      return;
    }
    const found = hit(event);
    if (found) showTip(event.clientX, event.clientY, told(found)); else hideTip();
  });
  chart.node.addEventListener("mouseleave", hideTip);
  chart.node.addEventListener("dblclick", () => zoom(1e9));
  chart.node.addEventListener("click", (event) => { const found = hit(event); if (found && found.r.dp != null && !drag?.moved) go.worker({ stage: found.stage, dp: found.r.dp }); });
  chart.node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    zoom(Math.exp((event.deltaY || event.deltaX) / 300), timeAt(event));
  }, { passive: false });
  chart.node.addEventListener("keydown", (event) => {
    const size = view.to - view.from, act = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => zoom(1e9), ArrowLeft: () => pan(-size / 6), ArrowRight: () => pan(size / 6) }[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  return { paint: chart.paint, zoom };
}

export function timelineLegend(host) {
  host.replaceChildren(...groups.map((g) => el("span", {}, el("i", { style: `background:var(${g.color})` }), g.name)), el("span", {}, el("i", { style: "background:var(--waiting)" }), "waiting for peers"));
}
