// fleet.js - many jobs at once: puts the summary (hindmost.fleet/1) and the jobs (columns, slowest first) on the page.
import { data, el, byId, setUpTheme } from "./page.js";
import * as format from "./format.js";
import { bars } from "./bars.js";
import { plot } from "./plot.js";

const fleet = data("fleet"), jobs = data("jobs");
const hours = (h) => (h == null ? format.missing : h >= 100 ? format.count(h) : h.toFixed(1));

function verdict() {
  document.title = `${format.plural(fleet.jobs, "job")}: ${format.percent(fleet.waste)} wasted – hindmost`;
  byId("facts").textContent = `${format.plural(fleet.jobs, "job")} · ${hours(fleet.gpu_hours)} GPU-hours`;
  const grade = byId("grade");
  grade.textContent = format.percent(fleet.waste);
  grade.className = fleet.waste >= 0.1 ? "bad" : fleet.waste >= 0.05 ? "warn" : "good";
  byId("summary").textContent = `${format.count(fleet.straggling.jobs)} of ${format.plural(fleet.jobs, "job")} (${format.percent(fleet.straggling.share)}) take at least 1.1 times as long as they would without stragglers.`;
  const tiles = [
    ["Jobs that straggle", format.percent(fleet.straggling.share), `${format.count(fleet.straggling.jobs)} jobs with S ≥ 1.1`, "straggling"],
    ["GPU-hours wasted", hours(fleet.wasted_gpu_hours), `of ${hours(fleet.gpu_hours)}`, "wasted"],
    ["Worst tenth of jobs", format.percent(fleet.waste_by_job.p90), "waste at least this share", "waste-p90"],
    ["Worst hundredth", format.percent(fleet.waste_by_job.p99), "waste at least this share", "waste-p99"],
    ["Slow workers rule", format.percent(fleet.worker_share_above_half.share), "of straggling jobs: 3 % of workers explain over half", "workers"],
    ["The last stage rules", format.percent(fleet.last_stage_share_from_half.share), "of straggling jobs: it explains half or more", "last-stage"],
    ["Slowness lasts", format.ratio(fleet.step_p90), "p90 of step over job slowdown; near 1: every step is slow", "lasting"],
    ["S above 3", format.count(fleet.severe.jobs), fleet.severe.smallest_world == null ? "no job" : `the smallest has ${format.count(fleet.severe.smallest_world)} GPUs`, "severe"],
  ];
  byId("tiles").replaceChildren(...tiles.map(([label, text, small, key]) => el("div", {}, el("dt", {}, label), el("dd", { "data-figure": key }, text, el("small", {}, small)))));
  const doubts = [];
  if (fleet.distrusted) doubts.push(`${format.plural(fleet.distrusted, "job")} with a discrepancy above 5 %: the replay misses their recording.`);
  if (jobs.stride > 1) doubts.push(`The plots show every ${jobs.stride}th job.`);
  byId("trust").replaceChildren(...doubts.map((d) => el("p", {}, d)));
}

function distribution() {
  const waste = jobs.waste.filter((w) => w != null).sort((a, b) => a - b), n = waste.length, at = (q) => waste[Math.min(n - 1, Math.floor(q * n))];
  const few = Array.from({ length: Math.min(n, 200) }, (_, i) => (i + 0.5) / Math.min(n, 200));
  byId("cdf").replaceChildren(plot({ name: "Waste over jobs", x: few.map((q) => 100 * Math.max(0, at(q))), y: few.map((q) => 100 * q), x_label: "share of GPU time wasted, %", y_label: "% of jobs that waste no more" }, "line"));
  byId("sizes-plot").replaceChildren(plot({ name: "Slowdown by size", x: jobs.world.map((w) => Math.log2(Math.max(1, w))), y: jobs.slowdown, x_label: "GPUs", y_label: "slowdown S" }, "dots", { x: (v) => (Number.isInteger(v) ? format.count(2 ** v) : "") }));
  const names = { slowdown: "slowdown S", waste_by_job: "waste, by job", waste_by_gpu_hours: "waste, by GPU-hours" };
  byId("quantiles").replaceChildren(el("thead", {}, el("tr", {}, ["", "p50", "p75", "p90", "p99"].map((c, i) => el("th", { scope: "col", class: i ? "number" : "" }, c)))),
    el("tbody", {}, Object.entries(names).map(([key, text]) => el("tr", { "data-quantiles": key }, el("th", { scope: "row" }, text), ["p50", "p75", "p90", "p99"].map((q) => el("td", { class: "number" }, (key === "slowdown" ? format.ratio : format.percent)(fleet[key][q])))))));
}

function groups() {
  const sizes = fleet.by_size.filter((g) => g.jobs), most = Math.max(...sizes.map((g) => g.straggling / g.jobs), 0.01);
  bars(byId("sizes"), "Jobs by size", ["GPUs", "jobs", "straggle", "mean S", "p90 S", "largest S", "GPU-hours wasted"], sizes.map((g) => ({
    name: g.gpus, share: g.straggling / g.jobs / most, attributes: { "data-size": g.gpus },
    texts: [format.count(g.jobs), format.percent(g.straggling / g.jobs), format.ratio(g.slowdown_mean), format.ratio(g.slowdown_p90), format.ratio(g.slowdown_max), hours(g.wasted_gpu_hours)],
  })));
  const causes = fleet.causes.filter((g) => g.jobs).sort((a, b) => b.wasted_gpu_hours - a.wasted_gpu_hours), dearest = Math.max(...causes.map((g) => g.wasted_gpu_hours), 1e-9);
  bars(byId("causes"), "Straggling jobs by first cause", ["first cause", "jobs", "of straggling", "mean S", "GPU-hours wasted"], causes.map((g) => ({
    name: g.cause === "none named" ? "No cause named" : format.title(g.cause), share: g.wasted_gpu_hours / dearest, attributes: { "data-cause": g.cause },
    texts: [format.count(g.jobs), format.percent(g.share), format.ratio(g.slowdown_mean), hours(g.wasted_gpu_hours)],
  })));
}

function worst(id, list) {
  const head = ["job", "GPUs", "S", "GPU-hours wasted", "first cause", "best fix"];
  byId(id).replaceChildren(el("thead", {}, el("tr", {}, head.map((c, i) => el("th", { scope: "col", class: i > 0 && i < 4 ? "number" : "" }, c)))),
    el("tbody", {}, list.map((j) => el("tr", {}, el("th", { scope: "row", title: j.file }, j.name || j.file), el("td", { class: "number" }, format.count(j.world)), el("td", { class: "number slowdown" }, format.ratio(j.slowdown)),
      el("td", { class: "number" }, hours(Math.max(0, j.waste * j.gpu_hours))), el("td", {}, j.cause ? format.title(j.cause) : format.missing), el("td", {}, j.fix ? `${format.title(j.fix)} (${format.times(j.fix_speedup)})` : format.missing)))));
}

setUpTheme(byId("theme"));
verdict();
distribution();
groups();
worst("slowest", fleet.slowest_jobs);
worst("dearest", fleet.dearest_jobs);
if (fleet.skipped.length) byId("skipped-list").replaceChildren(...fleet.skipped.map((s) => el("li", {}, el("b", {}, s.file), `: ${s.why}`)));
else byId("skipped").classList.add("hidden");
document.documentElement.dataset.ready = "true";
