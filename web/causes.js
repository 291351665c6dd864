// causes.js - why: one card a cause with its evidence as figures and plots.
import { el } from "./page.js";
import { plot } from "./plot.js";
import * as format from "./format.js";

function kindOf(cause, e) {
  if (cause === "sequence-length") return "fit";
  if (cause === "garbage-collection" || cause === "data-loading") return "spikes";
  const gap = e.x[1] - e.x[0], even = gap > 0 && e.x.every((x, i) => i === 0 || Math.abs(x - e.x[i - 1] - gap) < 1e-6 * gap);
  return !even ? "dots" : e.x.length <= 16 ? "spikes" : e.x.length < 400 ? "line" : "dots";
}

const some = (list, most, make) => [...list.slice(0, most).map(make), list.length > most ? el("span", { class: "note" }, `and ${format.count(list.length - most)} more`) : null];

function where(w, go) {
  const rows = [];
  const add = (name, nodes) => rows.push(el("div", { class: "where" }, el("span", { class: "note" }, name), ...nodes));
  if (w.workers?.length) add("workers", some(w.workers, 12, (k) => el("button", { class: "chip", onclick: () => go.worker({ stage: k.stage, dp: k.dp_rank }) }, `stage ${k.stage}, DP ${k.dp_rank}`)));
  if (w.stages?.length) add("stages", some(w.stages, 16, (s) => el("span", { class: "tag" }, String(s))));
  if (w.dp_ranks?.length) add("DP ranks", some(w.dp_ranks, 16, (d) => el("span", { class: "tag" }, String(d))));
  if (w.steps?.length) add("steps", some(w.steps, 12, (s) => el("button", { class: "chip", onclick: () => go.step(s) }, String(s))));
  if (w.op_types?.length) add("ops", some(w.op_types, 8, (t) => el("span", { class: "tag" }, t)));
  return rows;
}

const sure = (c) => (c >= 0.8 ? "high confidence" : c >= 0.5 ? "medium confidence" : "low confidence");

export function causes(host, list, go) {
  host.replaceChildren(...list.map((c) => {
    const share = Math.max(0, Math.min(1, c.recovers ?? 0)), plots = c.evidence.filter((e) => e.x?.length).map((e) => plot(e, kindOf(c.cause, e)));
    return el("article", { class: "cause", "data-cause": c.cause },
      el("header", {}, el("h3", {}, format.title(c.cause)), el("span", { class: "note confidence" }, `${sure(c.confidence)} (${format.percent(c.confidence, 0)})`)),
      el("div", { class: "recovers" }, el("div", { class: "bar", "aria-hidden": "true" }, el("i", { style: `width:${100 * share}%` })),
        el("span", {}, el("b", { class: "share" }, format.percent(c.recovers)), " of the lost time comes back without it")),
      el("div", { class: "proof" },
        el("div", {}, el("table", {}, el("caption", { class: "sr" }, `Evidence for ${format.title(c.cause)}`), el("tbody", {}, c.evidence.map((e) => el("tr", {}, el("th", { scope: "row" }, e.name), el("td", { class: "number" }, format.value(e.value, e.unit)))))), where(c.where, go)),
        plots.length ? el("div", { class: "plots" }, plots) : null));
  }));
}
