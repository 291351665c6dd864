// bars.js - horizontal bars with their figures, as a table that reads well aloud.
import { el } from "./page.js";

// rows: [{name, note, share (0..1 of the bar), text, mark (0..1), color}]
export function bars(host, caption, columns, rows) {
  const body = rows.map((r) =>
    el("tr", r.attributes ?? {},
      el("th", { scope: "row" }, r.name, r.note ? el("span", { class: "note" }, r.note) : null),
      el("td", { class: "barcell" }, el("div", { class: "bar", "aria-hidden": "true" }, el("i", { style: `width:${(100 * Math.max(0, Math.min(1, r.share))).toFixed(2)}%;background:var(${r.color ?? "--accent"})` }),
        r.mark == null ? null : el("b", { style: `left:${(100 * Math.max(0, Math.min(1, r.mark))).toFixed(2)}%` }))),
      r.texts.map((t) => el("td", { class: "number" }, t))));
  host.replaceChildren(el("table", { class: "bars" }, el("caption", { class: "sr" }, caption),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, columns[0]), el("th", { "aria-hidden": "true" }), columns.slice(1).map((c) => el("th", { scope: "col", class: "number" }, c)))),
    el("tbody", {}, body)));
}
