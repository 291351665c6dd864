// page.mjs - the report page against the JSON of the same analysis: page.mjs SOURCE PAGE.html ANALYSIS.json (with per_step).
import fs from "node:fs";
import { open, visit, same, holds, finish, ratio, times, percent, seconds } from "./browser.mjs";

const [, , source, file, jsonFile] = process.argv;
const json = JSON.parse(fs.readFileSync(jsonFile, "utf8")), { per_step: perStep, ...whole } = json, { dp, pp } = json.job;
const browser = await open(source);
const { page, seen } = await visit(browser, file);
const figure = (name) => page.locator(`[data-figure="${name}"]`).evaluate((n) => n.firstChild.textContent);

// ---- what it is ------------------------------------------------------------------------------------------------------------------
holds(fs.statSync(file).size < 3e6, "the page is below 3 MB");
same(await page.evaluate(() => { const { evaluated_ops: _, ...rest } = JSON.parse(document.getElementById("analysis").textContent); return rest; }), (({ evaluated_ops: _, ...rest }) => rest)(whole), "the embedded analysis");
const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
console.log(`# ${json.job.workers} workers, ${fs.statSync(file).size} bytes, first paint after ${Math.round(paint)} ms`);

// ---- verdict ---------------------------------------------------------------------------------------------------------------------
same(await page.locator("#grade").textContent(), times(json.slowdown_real), "the large figure");
same(await figure("slowdown"), ratio(json.slowdown), "slowdown");
same(await figure("waste"), percent(1 - 1 / json.slowdown_real), "waste");
same(await figure("actual"), seconds(json.mean_step_s.actual), "recorded step");
same(await figure("ideal"), seconds(json.mean_step_s.ideal), "ideal step");
same(await figure("worker-share"), percent(json.worker_share.value), "share of the slowest workers");
same(await figure("last-stage-share"), percent(json.last_stage_share.value), "share of the last stage");
same(await figure("discrepancy"), percent(json.discrepancy), "discrepancy");
if (json.verdict) same(await page.locator("#summary").textContent(), json.verdict.summary, "summary");
same(await page.locator("#trust .warn").count(), json.job.dropped.length + (Math.abs(json.discrepancy) > 0.05 ? 1 : 0), "warnings");

// ---- tables ----------------------------------------------------------------------------------------------------------------------
for (const [type, s] of Object.entries(json.by_op_type)) same(await page.locator(`[data-op-type="${type}"] td.number`).first().textContent(), ratio(s), type);
same(await page.locator("[data-op-type]").count(), Object.keys(json.by_op_type).length, "op types");
same(await page.locator("[data-cause]").count(), json.causes?.length ?? 0, "causes");
for (const [i, c] of (json.causes ?? []).entries()) {
  const card = page.locator("[data-cause]").nth(i);
  same(await card.getAttribute("data-cause"), c.cause, `cause ${i}`);
  same(await card.locator(".share").textContent(), percent(c.recovers), `${c.cause} recovers`);
  holds((await card.locator(".confidence").textContent()).includes(`(${percent(c.confidence, 0)})`), `${c.cause} confidence`);
  same(await card.locator("tbody th").allTextContents(), c.evidence.map((e) => e.name), `${c.cause} evidence`);
  same(await card.locator("figure").count(), c.evidence.filter((e) => e.x?.length).length, `${c.cause} plots`);
  if (c.where.workers) same(await card.locator("button.chip").first().textContent(), `stage ${c.where.workers[0].stage}, DP ${c.where.workers[0].dp_rank}`, `${c.cause} where`);
}
same(await page.locator("[data-fix]").count(), json.fixes?.length ?? 0, "fixes");
for (const [i, f] of (json.fixes ?? []).entries()) {
  const row = page.locator("[data-fix]").nth(i);
  same([await row.getAttribute("data-fix"), await row.locator(".speedup").textContent(), await row.locator(".step").textContent()], [f.fix, times(f.speedup), seconds(f.step_s)], `fix ${i}`);
  same(await row.locator("th .note").textContent(), f.how, `how of ${f.fix}`);
}

same(await page.locator("[data-edge] td.number").allTextContents(), (json.edge_slack_s ?? []).map((s) => (s == null ? "–" : seconds(s))), "slack of the edges");

// ---- heatmaps: what the pointer is told ------------------------------------------------------------------------------------------
const slowest = json.by_worker.flatMap((row, stage) => row.map((s, d) => ({ stage, d, s }))).filter((w) => w.s != null).sort((a, b) => b.s - a.s)[0];
const told = async (selector, most) => {
  const canvas = page.locator(`${selector} canvas`);
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox(), found = new Map(), across = Math.ceil(Math.sqrt(most * (box.width / box.height))), down = Math.ceil(most / across);
  for (let j = 0; j < down; j++)
    for (let i = 0; i < across; i++) {
      await page.mouse.move(box.x + ((i + 0.5) / across) * box.width, box.y + ((j + 0.5) / down) * box.height);
      const text = await page.evaluate(() => { const t = document.querySelector(".tip"); return t && !t.classList.contains("hidden") ? t.textContent : null; });
      const m = text?.match(/^stage (\d+), DP rank (\d+)[^]*?slowdown ([\d.–]+)/);
      if (m) found.set(`${m[1]},${m[2]}`, m[3]);
    }
  await page.mouse.move(1, 1);
  return found;
};
const job = await told("#map", 200);
holds(job.size >= Math.min(dp * pp, 40), `the pointer finds workers (${job.size})`);
for (const [key, s] of job) { const [stage, d] = key.split(",").map(Number); same(s, ratio(json.by_worker[stage][d]), `hover over stage ${stage}, DP rank ${d}`); }

// ---- selection -------------------------------------------------------------------------------------------------------------------
const selected = async () => [await page.locator("#worker-name").textContent(), await figure("worker-slowdown"), await figure("worker-stage"), await figure("worker-dp")];
const expected = (stage, d) => [`stage ${stage}, DP rank ${d}`, ratio(json.by_worker[stage][d]), ratio(json.by_stage[stage]), ratio(json.by_dp_rank[d])];
same(await selected(), expected(slowest.stage, slowest.d), "the slowest worker is selected first");
await page.locator("#map canvas").focus();
for (const key of ["Home", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Enter"]) await page.keyboard.press(key);
same(await selected(), expected(Math.min(pp - 1, slowest.stage + 1), dp > 2 ? 1 : 0), "arrow keys and Enter select");
holds((await page.locator("#map [aria-live]").textContent()).startsWith("stage"), "the cursor is read out");
if (json.causes?.some((c) => c.where.workers)) {
  const c = json.causes.find((x) => x.where.workers), w = c.where.workers[0];
  await page.locator(`[data-cause="${c.cause}"] button.chip`).first().click();
  same(await selected(), expected(w.stage, w.dp_rank), "a worker of a cause is selected by a click");
}
const inImage = await page.locator("#map canvas").boundingBox();
await page.locator("#map canvas").scrollIntoViewIfNeeded();
await page.locator("#map canvas").click({ position: { x: 42, y: 25 } });
same((await selected())[0], "stage 0, DP rank 0", "a click selects");
holds(inImage.width > 300, "the heatmap has room");

// ---- steps -----------------------------------------------------------------------------------------------------------------------
const stepNow = async () => [await figure("step"), await figure("step-slowdown")];
const worst = json.steps.reduce((best, s, i) => (s.slowdown > json.steps[best].slowdown ? i : best), 0);
const stepText = (i) => [String(json.steps[i].step), ratio(json.steps[i].slowdown)];
same(await stepNow(), stepText(worst), "the slowest step is shown first");
await page.locator("#step").focus();
await page.keyboard.press("Home");
same(await stepNow(), stepText(0), "Home on the slider goes to the first step");
await page.keyboard.press("End");
same(await stepNow(), stepText(json.steps.length - 1), "End to the last");
if (perStep) {
  const steps = await told("#step-map", 100), last = json.steps.at(-1).step;
  const kept = await page.evaluate(() => JSON.parse(document.getElementById("extra").textContent).workers_by_step.steps.length);
  holds(steps.size >= Math.min(dp * pp, 16), "the pointer finds workers of a step");
  if (kept === json.steps.length)
    for (const [key, s] of steps) { const [a, b] = key.split(",").map(Number), x = perStep.by_worker[last][a][b]; holds(x == null ? s === "–" : Math.abs(Number(s) - x) < 0.00051, `step ${last}, worker ${key}: ${s}, ${x}`); }
}
await page.locator("#slowest").click();
same(await stepNow(), stepText(worst), "the button finds the slowest step");

// ---- timeline --------------------------------------------------------------------------------------------------------------------
const drawn = await page.locator("#timeline canvas").evaluate((c) => { const p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n / (p.length / 4); });
holds(drawn > 0.02, `the timeline is drawn (${drawn})`);
await page.locator("#timeline canvas").focus();
const before = await page.locator("#timeline canvas").evaluate((c) => c.toDataURL());
await page.keyboard.press("+");
holds(before !== await page.locator("#timeline canvas").evaluate((c) => c.toDataURL()), "plus zooms");
await page.keyboard.press("0");
same(await page.locator("#timeline canvas").evaluate((c) => c.toDataURL()) === before, true, "0 shows all again");

// ---- for everybody ---------------------------------------------------------------------------------------------------------------
const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, canvas, svg[role], [tabindex]")].filter((n) => !(n.getAttribute("aria-label") || n.textContent.trim() || n.getAttribute("aria-labelledby"))).filter((n) => !n.closest("[role=img]")).map((n) => n.outerHTML.slice(0, 80)));
same(nameless, [], "everything that can be used has a name");
same(await page.evaluate(() => document.documentElement.dataset.theme), "light", "light where the system is");
await page.locator("#theme").click();
same(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the button turns it dark");
await page.emulateMedia({ media: "print" });
holds(await page.locator(".no-print").evaluateAll((l) => l.every((n) => getComputedStyle(n).display === "none")), "controls are not printed");
await page.emulateMedia({ media: "screen" });
const pdf = await page.pdf({ format: "A4", printBackground: true });
holds(pdf.subarray(0, 5).toString() === "%PDF-" && pdf.length > 20000, "it prints");
await page.setViewportSize({ width: 420, height: 800 });
await page.waitForTimeout(200);
holds(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "no sideways scrolling on a narrow screen");
const dark = await visit(browser, file, { colorScheme: "dark" });
same(await dark.page.evaluate(() => document.documentElement.dataset.theme), "dark", "dark where the system is");
same([...seen.requests, ...dark.seen.requests], [], "nothing is fetched");
same([...seen.complaints, ...dark.seen.complaints], [], "no complaints");
await browser.close();
finish();
