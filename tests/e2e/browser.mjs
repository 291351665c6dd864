// browser.mjs - Debian's Chromium without network or graphics card, and small assertions, for the page tests.
import { createRequire } from "node:module";
import path from "node:path";

export async function open(source) {
  const { chromium } = createRequire(path.join(source, ".deps/"))("playwright-core");
  return chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

// A page that remembers what it asked for and complained about.
export async function visit(browser, file, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const seen = { requests: [], complaints: [] };
  page.on("request", (r) => { if (!/^(file|data|blob):/.test(r.url())) seen.requests.push(r.url()); });
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") seen.complaints.push(m.text()); });
  page.on("pageerror", (e) => seen.complaints.push(String(e)));
  await page.goto("file://" + path.resolve(file));
  await page.waitForFunction(() => document.documentElement.dataset.ready === "true", null, { timeout: 60000 });
  return { page, seen };
}

let failures = 0, checks = 0;
export function same(got, expected, what) {
  checks++;
  if (JSON.stringify(got) === JSON.stringify(expected)) return;
  failures++;
  if (failures <= 20) console.log(`not the same: ${what}\n  page:     ${JSON.stringify(got)?.slice(0, 300)}\n  expected: ${JSON.stringify(expected)?.slice(0, 300)}`);
}
export function holds(condition, what) { same(Boolean(condition), true, what); }
export function finish() {
  console.log(`${checks} checks, ${failures} failed`);
  process.exit(failures || !checks ? 1 : 0);
}

// How the page writes numbers; written again here so that a slip in the page's own rounding is seen.
const sign = (text) => text.replace(/^-/, (m) => (Number.parseFloat(text) === 0 ? "" : "−"));
export const ratio = (x) => (x == null ? "–" : x.toFixed(3));
export const times = (x) => x.toFixed(2) + "×";
export const percent = (x, digits = 1) => (x == null ? "–" : sign((100 * x).toFixed(digits)) + " %");
export function seconds(s) {
  if (s >= 100) return s.toFixed(1) + " s";
  if (s >= 1) return s.toFixed(3) + " s";
  if (s >= 0.1) return (1000 * s).toFixed(1) + " ms";
  if (s >= 0.001) return (1000 * s).toFixed(2) + " ms";
  return s === 0 ? "0 s" : (1e6 * s).toFixed(1) + " µs";
}
