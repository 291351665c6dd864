// format.js - numbers as people read them. The same rounding everywhere, so that the page never contradicts itself.
export const missing = "–";

export function ratio(x) { return x == null ? missing : x.toFixed(3); }
export function times(x) { return x == null ? missing : x.toFixed(2) + "×"; }
export function percent(x, digits = 1) { return x == null ? missing : (100 * x).toFixed(digits).replace(/^-(0\.?0*$)?/, (m, zero) => zero ?? "−") + " %"; }
export function count(n) { return n == null ? missing : String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f"); }

export function seconds(s) {
  if (s == null) return missing;
  const a = Math.abs(s);
  if (a >= 100) return s.toFixed(1) + " s";
  if (a >= 1) return s.toFixed(3) + " s";
  if (a >= 1e-3) return (s * 1e3).toFixed(a >= 0.1 ? 1 : 2) + " ms";
  return a === 0 ? "0 s" : (s * 1e6).toFixed(1) + " µs";
}

// A time on an axis: "0", "2.5 s", "40 ms".
export function tick(s) {
  if (s === 0) return "0";
  const [scale, unit] = Math.abs(s) >= 1 ? [1, "s"] : Math.abs(s) >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${Number((s * scale).toPrecision(6))} ${unit}`;
}

export function value(x, unit) {
  if (x == null) return missing;
  if (unit === "s") return seconds(x);
  const text = Number.isInteger(x) && Math.abs(x) < 1e15 ? count(x) : Math.abs(x) >= 1000 ? x.toFixed(0) : Number(x.toPrecision(4)).toString();
  return unit && unit !== "ratio" ? `${text} ${unit}` : text;
}

export function plural(n, word) { return `${count(n)} ${word}${n === 1 ? "" : "s"}`; }

const names = {
  "slow-worker": "Slow workers", "stage-imbalance": "Stage imbalance", "sequence-length": "Sequence lengths", "garbage-collection": "Garbage collection",
  "slow-link": "Slow link", "data-loading": "Data loading", "replica-imbalance": "Replica imbalance", "unexplained": "Unexplained",
  "replace-workers": "Replace workers", "move-layers": "Move layers between stages", "balance-sequences": "Balance sequences", "planned-gc": "Planned garbage collection",
  "fix-link": "Repair the link", "resplit-microbatches": "Re-split microbatches",
};
export function title(name) { return names[name] ?? name.replace(/-/g, " ").replace(/^./, (c) => c.toUpperCase()); }
