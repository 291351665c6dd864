// colors.js - the heat scale: slowdown 1.0 to 1.5 as in the paper's monitor, even steps of lightness (OKLab), readable without colour vision.
// src/report/heatmap.c draws with the same anchors.
const anchors = {
  light: ["#f3f5ee", "#fbdc8d", "#f59f52", "#dd5a3c", "#a3254e", "#4f0f45"],
  dark: ["#222c38", "#47346f", "#8a3479", "#cf4a63", "#f58a4b", "#fbe08a"],
};
export const heatRange = [1, 1.5];

function toLab(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b), m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b),
    s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

function toLinear([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3, m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3, s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const rgb = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
  return rgb;
}
function luminanceOf(lab) { const [r, g, b] = toLinear(lab); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }
function toCss(lab) {
  return "rgb(" + toLinear(lab).map((c) => Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)))).join(" ") + ")";
}

const steps = 256;
function ramp(hexes) {
  const labs = hexes.map(toLab), colors = [], luminance = [];
  for (let i = 0; i < steps; i++) {
    const at = (i / (steps - 1)) * (labs.length - 1), k = Math.min(labs.length - 2, Math.floor(at)), f = at - k;
    const lab = labs[k].map((c, n) => c + f * (labs[k + 1][n] - c));
    colors.push(toCss(lab));
    luminance.push(luminanceOf(lab));
  }
  return { colors, luminance };
}
const ramps = { light: ramp(anchors.light), dark: ramp(anchors.dark) };

export function heatIndex(s) { return Math.round(Math.min(1, Math.max(0, (s - heatRange[0]) / (heatRange[1] - heatRange[0]))) * (steps - 1)); }
export function heatRamp(theme) { return ramps[theme]; }
// Ink that can be read on a cell.
export function heatInk(theme, index) { return ramps[theme].luminance[index] > 0.2 ? "#16202b" : "#ffffff"; }
