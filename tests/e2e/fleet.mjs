// fleet.mjs - the fleet page against the JSON of the same fleet: fleet.mjs SOURCE PAGE.html FLEET.json.
import fs from "node:fs";
import { open, visit, same, holds, finish, ratio, percent } from "./browser.mjs";

const [, , source, file, jsonFile] = process.argv;
const json = JSON.parse(fs.readFileSync(jsonFile, "utf8"));
const browser = await open(source);
const { page, seen } = await visit(browser, file);
const figure = (name) => page.locator(`[data-figure="${name}"]`).evaluate((n) => n.firstChild.textContent);

holds(fs.statSync(file).size < 3e6, "the page is below 3 MB");
same(await page.evaluate(() => JSON.parse(document.getElementById("fleet").textContent)), json, "the embedded summary");
same(await page.locator("#grade").textContent(), percent(json.waste), "the large figure");
same(await figure("straggling"), percent(json.straggling.share), "share that straggles");
same(await figure("waste-p90"), percent(json.waste_by_job.p90), "worst tenth");
same(await figure("waste-p99"), percent(json.waste_by_job.p99), "worst hundredth");
same(await figure("workers"), percent(json.worker_share_above_half.share), "slow workers");
same(await figure("last-stage"), percent(json.last_stage_share_from_half.share), "last stage");
for (const [key, show] of [["slowdown", ratio], ["waste_by_job", percent], ["waste_by_gpu_hours", percent]])
  same(await page.locator(`[data-quantiles="${key}"] td`).allTextContents(), ["p50", "p75", "p90", "p99"].map((q) => show(json[key][q])), key);
for (const g of json.by_size.filter((s) => s.jobs)) {
  const cells = await page.locator(`[data-size="${g.gpus}"] td.number`).allTextContents();
  same([cells[1], cells[2], cells[4]], [percent(g.straggling / g.jobs), ratio(g.slowdown_mean), ratio(g.slowdown_max)], `size ${g.gpus}`);
}
for (const g of json.causes.filter((c) => c.jobs)) {
  const cells = await page.locator(`[data-cause="${g.cause}"] td.number`).allTextContents();
  same([cells[1], cells[2]], [percent(g.share), ratio(g.slowdown_mean)], `cause ${g.cause}`);
}
same(await page.locator("#slowest .slowdown").allTextContents(), json.slowest_jobs.map((j) => ratio(j.slowdown)), "slowest jobs");
same(await page.locator("#dearest tbody th").allTextContents(), json.dearest_jobs.map((j) => j.name || j.file), "dearest jobs");
same(await page.locator("#skipped-list li").count(), json.skipped.length, "skipped");
same(await page.locator("figure svg").count(), 2, "plots");
await page.locator("#theme").click();
same(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the button turns it dark");
await page.setViewportSize({ width: 420, height: 800 });
await page.waitForTimeout(100);
holds(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "no sideways scrolling on a narrow screen");
same(seen, { requests: [], complaints: [] }, "nothing is fetched, no complaints");
await browser.close();
finish();
