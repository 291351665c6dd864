// picture.mjs - the upper part of a page, down to the end of the section SELECTOR, as a picture: picture.mjs PAGE.html OUT.png SELECTOR.
import path from "node:path";
import { open, visit } from "../tests/e2e/browser.mjs";

const [, , file, out, selector] = process.argv;
const browser = await open(path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), ".."));
const { page } = await visit(browser, file, { viewport: { width: 1280, height: 1400 } });
const box = await page.locator(selector).boundingBox();
await page.screenshot({ path: out, fullPage: true, clip: { x: 0, y: 0, width: 1280, height: Math.round(box.y + box.height + 18) } });
await browser.close();
