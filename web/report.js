// report.js - the report of one job: puts the analysis (hindmost.analysis/1) and the extra data (docs/page.md) on the page.
import { data, el, byId, setUpTheme, later } from "./page.js";
import * as format from "./format.js";
import { heatmap, legend } from "./heatmap.js";
import { series } from "./series.js";
import { bars } from "./bars.js";
import { causes } from "./causes.js";
import { timeline, timelineLegend } from "./timeline.js";
import { unpack } from "./unpack.js";

const analysis = data("analysis"), extra = data("extra"), job = analysis.job, { dp, pp } = job;
const distrust = 0.05; // discrepancy above which the paper sets a job aside

// ---- what the reader looks at: one worker, one step ---------------------------------------------------------------------------------
const listeners = [];
const state = { worker: slowestWorker(), step: slowestStep() };
function choose(change) {
  Object.assign(state, change);
  for (const listener of listeners) listener(change);
}
const go = {
  selected: () => state.worker,
  worker: (worker) => choose({ worker }),
  step: (number) => { const i = analysis.steps.findIndex((s) => s.step === number); if (i >= 0) { choose({ step: i }); byId("when").scrollIntoView(); } },
};

function slowestWorker() {
  let best = null, most = -Infinity;
  analysis.by_worker.forEach((row, stage) => row.forEach((s, d) => { if (s != null && s > most) { most = s; best = { stage, dp: d }; } }));
  return best;
}
function slowestStep() { return analysis.steps.reduce((best, s, i, all) => (s.slowdown > all[best].slowdown ? i : best), 0); }
function name(w) { return `stage ${w.stage}, DP rank ${w.dp}`; }
function rankText(w) {
  const each = (job.tp ?? 1) * (job.cp ?? 1), first = (w.stage * dp + w.dp) * each;
  return each === 1 ? `rank ${first}` : `ranks ${first}–${first + each - 1}`;
}

// ---- verdict --------------------------------------------------------------------------------------------------------------------------
function verdict() {
  const real = analysis.slowdown_real ?? analysis.slowdown; // with the waits that replays leave out
  document.title = `${job.name}: ${format.times(real)} – hindmost`;
  byId("job").textContent = job.name;
  byId("facts").textContent = [
    `DP ${dp} × PP ${pp}` + (job.tp > 1 ? ` × TP ${job.tp}` : "") + (job.cp > 1 ? ` × CP ${job.cp}` : "") + (job.vpp > 1 ? `, ${job.vpp} chunks a stage` : ""),
    format.plural(job.world ?? job.workers, "GPU"), format.plural(job.workers, "worker"), format.plural(job.steps, "step"), format.plural(job.ops, "op"),
  ].join(" · ");
  const straggles = analysis.verdict?.straggling ?? real >= 1.1;
  const grade = byId("grade");
  grade.textContent = format.times(real);
  grade.className = straggles ? (real >= 1.2 ? "bad" : "warn") : "good";
  byId("headline").textContent = straggles ? "as long as a step would take without stragglers" : "as long as without stragglers: this job is healthy";
  byId("summary").textContent = analysis.verdict?.summary ?? ownSummary();
  const first = analysis.causes?.[0], fix = analysis.fixes?.[0];
  const tiles = [
    ["Slowdown S", format.ratio(analysis.slowdown), "1.1 and more: straggling", "slowdown"],
    ["GPU time lost", format.percent(Math.max(0, 1 - 1 / real)), real > analysis.slowdown + 0.005 ? "with waits that S leaves out" : "1 − 1/S", "waste"],
    ["Step now", format.seconds(analysis.mean_step_s.actual), `replayed ${format.seconds(analysis.mean_step_s.replayed)}`, "actual"],
    ["Step without stragglers", format.seconds(analysis.mean_step_s.ideal), "every worker equally fast", "ideal"],
    ["Slowest 3 % of workers", format.percent(analysis.worker_share.value), `of the lost time (${format.plural(analysis.worker_share.workers.length, "worker")})`, "worker-share"],
    ["Last stage", format.percent(analysis.last_stage_share.value), "of the lost time", "last-stage-share"],
  ];
  if (first) tiles.push(["First cause", format.title(first.cause), `wins back ${format.percent(first.recovers)}`, "cause"]);
  if (fix) tiles.push(["Best fix", format.title(fix.fix), `${format.times(fix.speedup)} as fast`, "fix"]);
  byId("tiles").style.setProperty("--columns", tiles.length > 6 ? 4 : tiles.length);
  byId("tiles").replaceChildren(...tiles.map(([label, text, small, key]) => el("div", {}, el("dt", {}, label), el("dd", { "data-figure": key }, text, el("small", {}, small)))));
  const doubts = [];
  if (Math.abs(analysis.discrepancy) > distrust) doubts.push(`The replay misses the recorded time by ${format.percent(analysis.discrepancy)}: take what follows with caution.`);
  for (const d of job.dropped) doubts.push(`${format.count(d.count)} ${d.what} left out: ${d.why}.`);
  byId("trust").replaceChildren(
    el("p", {}, `Replayed and recorded step times differ by `, el("b", { "data-figure": "discrepancy" }, format.percent(analysis.discrepancy)), Math.abs(analysis.discrepancy) > distrust ? "." : ` (trusted up to ${format.percent(distrust, 0)}).`),
    ...doubts.map((d) => el("p", { class: "warn" }, d)));
}
function ownSummary() {
  const w = analysis.worker_share.value, l = analysis.last_stage_share.value, slow = state.worker;
  let text = `Without stragglers a step would take ${format.seconds(analysis.mean_step_s.ideal)} instead of ${format.seconds(analysis.mean_step_s.replayed)}; ${format.percent(analysis.waste, 0)} of the GPU time is lost.`;
  if (w > 0.5) text += ` The slowest 3 % of workers cause ${format.percent(w, 0)} of the loss; the slowest one is ${name(slow)}.`;
  else if (l >= 0.5) text += ` The last stage causes ${format.percent(l, 0)} of the loss.`;
  return text;
}

// ---- where ----------------------------------------------------------------------------------------------------------------------------
function workerText(w) {
  return `${name(w)} (${rankText(w)})\nslowdown ${format.ratio(analysis.by_worker[w.stage][w.dp])}\nits stage ${format.ratio(analysis.by_stage[w.stage])}, its DP rank ${format.ratio(analysis.by_dp_rank[w.dp])}`;
}
function where() {
  legend(byId("legend"));
  const map = heatmap(byId("map"), {
    dp, pp, value: (s, d) => analysis.by_worker[s][d], byStage: analysis.by_stage, byDp: analysis.by_dp_rank, label: `Slowdown of ${format.plural(job.workers, "worker")} by DP rank and stage`,
    text: workerText, onSelect: go.worker, selected: go.selected,
  });
  listeners.push((change) => { if (change.worker) { map.paint(); selected(); } });
  selected();
  const all = [];
  analysis.by_worker.forEach((row, stage) => row.forEach((s, d) => { if (s != null) all.push({ stage, dp: d, s }); }));
  all.sort((a, b) => b.s - a.s);
  rankOf = new Map(all.map((w, i) => [w.stage * dp + w.dp, i + 1]));
  byId("worst").replaceChildren(...all.slice(0, 6).map((w) => el("tr", {}, el("td", {}, el("button", { class: "chip", onclick: () => go.worker(w) }, name(w))), el("td", {}, rankText(w)), el("td", { class: "number" }, format.ratio(w.s)))));
  selected();
}
let rankOf = new Map();
function selected() {
  const w = state.worker;
  if (!w) return;
  byId("worker-name").textContent = name(w);
  const rows = [["slowdown it causes", format.ratio(analysis.by_worker[w.stage][w.dp]), "worker-slowdown"], ["place among workers", `${format.count(rankOf.get(w.stage * dp + w.dp))} of ${format.count(rankOf.size)}`],
    ["its stage", format.ratio(analysis.by_stage[w.stage]), "worker-stage"], ["its DP rank", format.ratio(analysis.by_dp_rank[w.dp]), "worker-dp"], ["global", rankText(w)]];
  byId("worker-figures").replaceChildren(...rows.flatMap(([k, v, key]) => [el("dt", {}, k), el("dd", key ? { "data-figure": key } : {}, v)]));
}

// ---- when -----------------------------------------------------------------------------------------------------------------------------
let stepValues = null; // Int32Array [kept step][stage][lane], thousandths
const kept = extra.workers_by_step, laneOf = new Map((kept?.dp_ranks ?? []).map((d, i) => [d, i]));
function keptIndex(step) { let best = 0; kept.steps.forEach((s, k) => { if (Math.abs(s - step) < Math.abs(kept.steps[best] - step)) best = k; }); return best; }
function stepValue(k, stage, d) { const lane = laneOf.get(d); return lane == null ? null : stepValues[(k * pp + stage) * laneOf.size + lane] / 1000; }

function when() {
  const numbers = analysis.steps.map((s) => s.step);
  const lines = series(byId("steps"), {
    steps: numbers, height: 230, unit: format.seconds, axis: format.tick, label: `Step times: recorded, replayed and ideal, of ${format.plural(job.steps, "step")}`, marked: () => state.step, onPick: (step) => choose({ step }),
    series: [
      { label: "recorded", color: "--actual", dash: "dotted", width: 1.5, values: analysis.steps.map((s) => s.actual_s) },
      { label: "replayed", color: "--replayed", values: analysis.steps.map((s) => s.replayed_s) },
      { label: "ideal", color: "--ideal", dash: "dashed", values: analysis.steps.map((s) => s.ideal_s) },
    ],
  });
  const slider = byId("step"), step = (to) => choose({ step: Math.max(0, Math.min(numbers.length - 1, to)) });
  slider.max = numbers.length - 1;
  slider.addEventListener("input", () => step(Number(slider.value)));
  byId("earlier").addEventListener("click", () => step(state.step - 1));
  byId("later").addEventListener("click", () => step(state.step + 1));
  byId("slowest").addEventListener("click", () => step(slowestStep()));
  const show = () => {
    const s = analysis.steps[state.step];
    slider.value = state.step;
    slider.setAttribute("aria-valuetext", `step ${s.step}, slowdown ${format.ratio(s.slowdown)}`);
    byId("step-figures").replaceChildren("step ", el("b", { "data-figure": "step" }, String(s.step)), ": slowdown ", el("b", { "data-figure": "step-slowdown" }, format.ratio(s.slowdown)),
      ` · recorded ${format.seconds(s.actual_s)} · replayed ${format.seconds(s.replayed_s)} · ideal ${format.seconds(s.ideal_s)}`);
  };
  listeners.push((change) => { if (change.step != null) { show(); lines.repaint(); } });
  show();
}

async function whenByWorker() {
  if (!kept) { byId("step-map-part").classList.add("hidden"); return; }
  stepValues = await unpack(kept.slowdown_e3);
  const note = byId("step-map-note");
  const map = heatmap(byId("step-map"), {
    dp, pp, value: (s, d) => stepValue(keptIndex(state.step), s, d), byStage: null, byDp: null, label: "Slowdown of every worker in the chosen step", onSelect: go.worker, selected: go.selected,
    text: (w) => `${name(w)}\nin step ${analysis.steps[kept.steps[keptIndex(state.step)]].step}: slowdown ${format.ratio(stepValue(keptIndex(state.step), w.stage, w.dp))}\nwhole job: ${format.ratio(analysis.by_worker[w.stage][w.dp])}`,
  });
  const host = byId("worker-steps"), numbers = kept.steps.map((i) => analysis.steps[i].step);
  const mine = () => kept.steps.map((_, k) => stepValue(k, state.worker.stage, state.worker.dp));
  const drawMine = () => {
    host.replaceChildren();
    series(host, { steps: numbers, height: 150, unit: format.ratio, axis: format.ratio, label: `Slowdown of the selected worker over ${format.plural(numbers.length, "step")}`, marked: () => keptIndex(state.step), onPick: (k) => choose({ step: kept.steps[k] }),
      series: [{ label: "selected worker", color: "--replayed", values: mine() }] });
  };
  const say = () => {
    note.textContent = kept.steps.length < analysis.steps.length ? `This page keeps ${format.count(kept.steps.length)} of ${format.count(analysis.steps.length)} steps (nearest: step ${numbers[keptIndex(state.step)]}); --json with --per-step has all.` : "";
  };
  say();
  drawMine();
  listeners.push((change) => { map.paint(); say(); drawMine(change); });
}

// ---- what, why, fixes ---------------------------------------------------------------------------------------------------------------------
function opTypes() {
  const list = Object.entries(analysis.by_op_type).sort((a, b) => b[1] - a[1]), most = Math.max(0.05, ...list.map(([, s]) => s - 1));
  const perStep = extra.op_types_by_step;
  const draw = () => bars(byId("ops"), "Slowdown by op type", ["op type", "S of the type", perStep ? `in step ${analysis.steps[state.step].step}` : null, "ideal duration"].filter((c) => c != null), list.map(([type, s]) => ({
    name: type, share: (s - 1) / most, mark: perStep ? (perStep[type][state.step] - 1) / most : null, attributes: { "data-op-type": type },
    texts: [format.ratio(s), perStep ? format.ratio(perStep[type][state.step]) : null, format.seconds(extra.ideal_op_s[type])].filter((c) => c != null),
  })));
  draw();
  if (perStep) listeners.push((change) => { if (change.step != null) draw(); });
}

function fixes() {
  const list = analysis.fixes ?? [], most = Math.max(...list.map((f) => 1 - 1 / f.speedup), 0.01);
  if (!list.length) { byId("fixes").replaceChildren(el("p", { class: "note" }, analysis.fixes ? "Nothing to repair that would shorten a step noticeably." : "Not priced in this run.")); return; }
  byId("fixes").replaceChildren(el("table", { class: "bars" }, el("caption", { class: "sr" }, "Fixes by gain"),
    el("thead", {}, el("tr", {}, ["fix", "", "gain", "step"].map((c, i) => el("th", i > 1 ? { scope: "col", class: "number" } : { scope: "col" }, c)))),
    el("tbody", {}, list.map((f) => el("tr", { "data-fix": f.fix }, el("th", { scope: "row" }, format.title(f.fix), el("span", { class: "note" }, f.how)),
      el("td", { class: "barcell" }, el("div", { class: "bar", "aria-hidden": "true" }, el("i", { style: `width:${(100 * Math.max(0, 1 - 1 / f.speedup)) / most}%;background:var(--ideal)` }))),
      el("td", { class: "number speedup" }, format.times(f.speedup)), el("td", { class: "number step" }, format.seconds(f.step_s)))))));
}

// Slack: how much delay the transfers between two stages absorb (edge_slack_s) before a step grows by 1 %.
function slack() {
  const edges = analysis.edge_slack_s ?? [], most = Math.max(...edges.filter((s) => s != null), 1e-12);
  if (!edges.length) { byId("slack-part").classList.add("hidden"); return; }
  bars(byId("slack"), "Slack of each edge between stages", ["edge", "slack"], edges.map((s, i) => ({ name: `stage ${i} ↔ ${i + 1}`, share: (s ?? 0) / most, attributes: { "data-edge": i }, texts: [format.seconds(s)] })));
}

async function slowest() {
  const t = extra.timeline;
  if (!t) { byId("slow").classList.add("hidden"); return; }
  byId("slow-note").textContent = `Step ${analysis.steps[t.step].step}, the slowest one. One row a stage: compute above, communication below.` + (t.shown < t.ops ? ` The ${format.count(t.shown)} longest of ${format.count(t.ops)} ops a replica.` : "");
  timelineLegend(byId("slow-legend"));
  const view = await timeline(byId("timeline"), t, pp, go);
  byId("zoom-in").addEventListener("click", () => view.zoom(0.5));
  byId("zoom-out").addEventListener("click", () => view.zoom(2));
  byId("zoom-all").addEventListener("click", () => view.zoom(1e9));
  listeners.push((change) => { if (change.worker) view.paint(); });
}

setUpTheme(byId("theme"));
verdict();
where();
opTypes();
if (analysis.causes?.length) causes(byId("causes"), analysis.causes, go);
else byId("causes").replaceChildren(el("p", { class: "note" }, analysis.causes ? "No cause stands out." : "Causes were not looked for in this run."));
fixes();
slack();
later(async () => {
  when();
  await whenByWorker();
  await slowest();
  document.documentElement.dataset.ready = "true";
});
