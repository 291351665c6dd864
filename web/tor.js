// tor.js - a plan or a measurement (hindmost.tor/1) on the page.
import { data, el, byId, setUpTheme } from "./page.js";
import * as format from "./format.js";
import { plot } from "./plot.js";

const tor = data("tor"), curves = data("curves");
const colors = { "healthy-progress": "#009e73", "slow-steps": "#e69f00", stragglers: "#d55e00", "checkpoint-saving": "#0072b2", "work-rolled-back": "#cc79a7", "failure-detection": "#7a5195",
  "waiting-for-nodes": "#bca136", "restart-and-load": "#56b4e9", repair: "#8c564b", idle: "#9aa8b5", unknown: "#5f6b76" };
const span = (s) => (s == null ? format.missing : s < 120 ? `${s.toFixed(1)} s` : s < 7200 ? `${(s / 60).toFixed(1)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`);

function verdict() {
  const share = tor.tor;
  document.title = `TOR ${format.percent(share)} – hindmost`;
  byId("facts").textContent = `${span(tor.t_obs_s)} wall time`;
  byId("grade").textContent = format.percent(share);
  byId("grade").className = share == null ? "" : share >= 0.9 ? "good" : share >= 0.75 ? "warn" : "bad";
  byId("summary").textContent = share == null ? "The logs hold no training steps, so the ratio cannot be told." : `${span(tor.t_opt_s)} of ideal work in ${span(tor.t_obs_s)}.`;
  const tiles = [["TOR", format.percent(share), "ideal time over wall time", "tor"], ["ETTR", format.percent(tor.ettr), "productive running over wall time", "ettr"], ["Goodput", format.percent(tor.goodput), "without slow steps", "goodput"],
    ["MTTF of the job", span(tor.mttf_s), "mean time to failure", "mttf"], ["Best interval", span(tor.best_interval_s), "between checkpoints", "best-interval"]];
  if (tor.interval90 && tor.interval90[0] !== tor.interval90[1]) tiles.push(["90 % interval", `${span(tor.interval90[0])} – ${span(tor.interval90[1])}`, "of the wall time", "interval90"]);
  byId("tiles").replaceChildren(...tiles.map(([label, text, small, key]) => el("div", {}, el("dt", {}, label), el("dd", { "data-figure": key }, text, el("small", {}, small)))));
}

function ledger() {
  const parts = tor.ledger.filter((p) => p.seconds > 0), all = parts.reduce((sum, p) => sum + p.seconds, 0);
  byId("bar").replaceChildren(...parts.map((p) => el("span", { style: `flex:${p.seconds / all} 0 0;background:${colors[p.class]}`, title: `${format.title(p.class)}: ${format.percent(p.seconds / all)}` })));
  byId("bar").setAttribute("aria-label", parts.map((p) => `${p.class} ${format.percent(p.seconds / all)}`).join(", "));
  byId("ledger").replaceChildren(el("tbody", {}, parts.map((p) => el("tr", { "data-class": p.class }, el("th", { scope: "row" }, el("span", { class: "swatch", style: `background:${colors[p.class]}` }), format.title(p.class)),
    el("td", { class: "number" }, span(p.seconds)), el("td", { class: "number" }, format.percent(p.seconds / all, 2))))));
}

function series() {
  if (!tor.series?.length) return byId("series-section").remove();
  const hour = tor.t_obs_s > 7200;
  const points = tor.series.flatMap((p) => [[p.from_s, p.r], [p.until_s, p.r]]);
  byId("series").replaceChildren(plot({ name: "Share of the ideal rate", x: points.map(([t]) => t / (hour ? 3600 : 60)), y: points.map(([, r]) => r), x_label: hour ? "hours since the start" : "minutes since the start", y_label: "r" }, "line"));
}

function levers() {
  if (!tor.levers?.length) return byId("levers-section").remove();
  const most = Math.max(...tor.levers.map((l) => l.tor - tor.tor), 1e-9);
  byId("levers").replaceChildren(el("thead", {}, el("tr", {}, ["Change", "TOR", "Wall time", "Gain"].map((c) => el("th", { scope: "col" }, c)))),
    el("tbody", {}, tor.levers.map((l) => el("tr", {}, el("th", { scope: "row" }, format.title(l.lever)), el("td", {}, format.percent(l.tor, 2)), el("td", {}, span(l.t_obs_s)),
      el("td", {}, el("div", { class: "meter", style: `width:${(100 * Math.max(0, l.tor - tor.tor)) / most}%`, title: `+${format.percent(l.tor - tor.tor, 2)}` }))))));
}

function showCurves() {
  if (!curves?.interval) return byId("curves-section").remove();
  const log = (v) => Math.log10(v), text = { x: (v) => (Number.isInteger(v) ? format.count(10 ** v) : "") };
  byId("by-interval").replaceChildren(plot({ name: "TOR against the checkpoint interval", x: curves.interval.value.map((v) => log(v / 60)), y: curves.interval.tor, x_label: "minutes between checkpoints", y_label: "TOR" }, "line", text));
  byId("by-nodes").replaceChildren(plot({ name: "TOR against the number of nodes (best interval each)", x: curves.nodes.value.map(log), y: curves.nodes.tor, x_label: "nodes", y_label: "TOR" }, "line", text));
}

function notes() {
  if (!tor.notes?.length) return byId("notes-section").remove();
  byId("notes").replaceChildren(...tor.notes.map((n) => el("li", {}, `${format.count(n.count)} ${n.what}`)));
}

setUpTheme(byId("theme"));
verdict(); ledger(); series(); levers(); showCurves(); notes();
