// Browsers of this machine, without a window: Chromium by playwright, Firefox as a process.

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

/** The first of these programs that is on the path. */
export function programPath(...names: readonly string[]): string | null {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of names) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // the next one
      }
    }
  }
  return null;
}

export const CHROMIUM = programPath("chromium", "chromium-browser", "google-chrome");
export const FIREFOX = programPath("firefox-esr", "firefox");

export function openChromium(...args: readonly string[]): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM!, args: ["--no-sandbox", ...args] });
}

/** Opens a page in Firefox; returns what ends it. */
export function openFirefox(url: string): () => Promise<void> {
  const profile = mkdtempSync(join(tmpdir(), "edgespec-firefox-"));
  const firefox = spawn(FIREFOX!, ["--headless", "--no-remote", "--profile", profile, url], {
    stdio: "ignore",
    detached: true,
  });
  return async () => {
    await ended(firefox);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
}

// Its processes for pages are children; they are one group.
function ended(browser: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    browser.once("exit", () => resolve());
    process.kill(-browser.pid!, "SIGKILL");
  });
}
