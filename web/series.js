// series.js - lines over steps, drawn by uPlot: zoom by dragging, double click to see all.
import { css, onTheme, showTip, hideTip } from "./page.js";

const dashes = { solid: [], dashed: [6, 4], dotted: [2, 3] };

// o: steps (numbers in the trace), series [{label, color (CSS variable), dash, values, width}], unit(value) -> text, height, marked() -> index, onPick(index), label
export function series(host, o) {
  const x = o.steps.map((_, i) => i);
  let plot = null, width = 0;
  host.classList.add("series");
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", o.label);

  const mark = (u) => {
    const i = o.marked?.();
    if (i == null) return;
    const at = Math.round(u.valToPos(i, "x", true));
    u.ctx.save();
    u.ctx.strokeStyle = css("--ink");
    u.ctx.lineWidth = devicePixelRatio;
    u.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(at, u.bbox.top);
    u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  };
  const axis = (extra) => ({ stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "11px " + getComputedStyle(document.body).fontFamily, ...extra });

  const tell = (u) => {
    const i = u.cursor.idx;
    if (i == null || u.cursor.left < 0) { hideTip(); return; }
    const box = u.over.getBoundingClientRect();
    showTip(box.left + u.cursor.left, box.top + u.cursor.top, [`step ${o.steps[i]}`, ...o.series.map((s) => `${s.label} ${o.unit(s.values[i])}`)].join("\n"));
  };

  function build() {
    width = Math.floor(host.clientWidth);
    if (!width) return;
    plot?.destroy();
    plot = new uPlot({
      width, height: o.height,
      scales: { x: { time: false, range: o.steps.length === 1 ? [-1, 1] : undefined } },
      padding: [8, 12, 0, 0],
      axes: [
        axis({ values: (u, splits) => splits.map((i) => (Number.isInteger(i) ? o.steps[i] ?? "" : "")), size: 26 }),
        axis({ values: (u, splits) => splits.map((v) => o.axis(v)), size: 56 }),
      ],
      series: [
        {},
        ...o.series.map((s) => ({ stroke: css(s.color), width: s.width ?? 2, dash: dashes[s.dash ?? "solid"], points: { show: o.steps.length < 80 && !s.dash, size: 5 }  })),
      ],
      hooks: { draw: [mark], setCursor: [tell] },
      legend: { show: false },
      cursor: { y: false, focus: { prox: 20 } },
    }, [x, ...o.series.map((s) => s.values)], host);
    plot.over.addEventListener("click", () => { const i = plot.cursor.idx; if (i != null) o.onPick?.(i); });
  }
  build();
  onTheme(build);
  new ResizeObserver(() => { if (Math.floor(host.clientWidth) !== width) build(); }).observe(host);
  return { repaint: () => plot?.redraw(false, false), rebuild: build };
}
