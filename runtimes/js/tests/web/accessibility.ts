// What axe-core finds in a page, and pictures of it.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { PAIRS } from "./site.js";

export const PICTURES = join(PAIRS, "screenshots");
export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Fails with what axe-core finds. Its script is put in past the page's own content policy. */
export async function checkAccessibility(page: Page): Promise<void> {
  await page.addScriptTag({ path: AXE });
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  });
  assert.deepEqual(violations, []);
}

/** In both sizes, light and dark; axe-core finds nothing in any. */
export async function pictures(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await checkAccessibility(page);
      await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`) });
    }
  }
  await page.setViewportSize(SIZES.desktop);
}
