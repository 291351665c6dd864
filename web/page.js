// page.js - what all pages share: reading the embedded data, building elements, theme, tooltip, canvases that follow size and theme.
export function data(id) {
  const node = document.getElementById(id);
  return node && node.textContent.trim() ? JSON.parse(node.textContent) : null;
}

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, v] of Object.entries(attributes))
    if (key.startsWith("on")) node.addEventListener(key.slice(2), v);
    else if (v === true) node.setAttribute(key, "");
    else if (v != null && v !== false) node.setAttribute(key, v);
  node.append(...children.flat().filter((c) => c != null));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, v] of Object.entries(attributes)) node.setAttribute(key, v);
  node.append(...children.flat().filter((c) => c != null));
  return node;
}

export function byId(id) { return document.getElementById(id); }
export function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// ---- theme: the system's, unless the reader chose; always light on paper ---------------------------------------------------------
const themeListeners = [];
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
export function theme() { return document.documentElement.dataset.theme; }
export function onTheme(listener) { themeListeners.push(listener); }

function apply(name) {
  if (theme() === name) return;
  document.documentElement.dataset.theme = name;
  for (const listener of themeListeners) listener(name);
}
function preferred() { return chosen ?? (systemDark.matches ? "dark" : "light"); }

export function setUpTheme(button) {
  const label = () => { button.textContent = theme() === "dark" ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${theme() === "dark" ? "light" : "dark"} colours`); };
  apply(preferred());
  label();
  onTheme(label);
  button.addEventListener("click", () => { chosen = theme() === "dark" ? "light" : "dark"; apply(chosen); });
  systemDark.addEventListener("change", () => apply(preferred()));
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(preferred()));
}

// ---- tooltip ------------------------------------------------------------------------------------------------------------------------
let tip = null;
export function showTip(x, y, text) {
  if (!tip) document.body.append(tip = el("div", { class: "tip", "aria-hidden": "true" }));
  tip.textContent = text;
  tip.classList.remove("hidden");
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + "px";
}
export function hideTip() { if (tip) tip.classList.add("hidden"); }

// ---- canvas ------------------------------------------------------------------------------------------------------------------------
// Calls draw(context, width) at once, when the width changes and when the theme does; draw returns nothing. height(width) in CSS pixels.
export function canvas(host, attributes, height, draw) {
  const node = el("canvas", attributes), context = node.getContext("2d");
  host.append(node);
  let width = 0;
  const paint = () => {
    if (!width) return;
    const h = height(width), scale = Math.max(1, devicePixelRatio || 1);
    node.width = Math.round(width * scale);
    node.height = Math.round(h * scale);
    node.style.width = width + "px";
    node.style.height = h + "px";
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, h);
    context.font = "12px " + getComputedStyle(document.body).fontFamily;
    draw(context, width);
  };
  const measure = () => { const w = Math.floor(host.clientWidth); if (w && w !== width) { width = w; paint(); } };
  new ResizeObserver(measure).observe(host);
  measure();
  onTheme(paint);
  return { node, paint };
}

// Work that may wait until the first screen is painted.
export function later(work) { (window.requestIdleCallback ?? ((f) => setTimeout(f, 1)))(work, { timeout: 300 }); }
