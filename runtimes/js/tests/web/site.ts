// A site for tests: worker scripts of this folder, bundled, the runtime's files, and exported pairs.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";
// @ts-expect-error: a script of the example, without types
import { serve } from "../../../../../examples/web/serve.mjs";

/** Where `make test-web` exports pairs, and what Python made of them. */
export const PAIRS = resolve("../../build/web");
const RUNTIME = resolve("node_modules/onnxruntime-web/dist");

export interface Site {
  readonly url: string;
  /** What the page posted. */
  readonly result: Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Serves a page that runs a worker script of this folder.
 *
 * @param ships whether pairs bring along what was measured of them.
 * @param task what the worker reads at /task.json; it posts its result to /result.
 */
export async function openSite(worker: string, task: unknown, { isolated = true, ships = true } = {}): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "edgespec-site-"));
  await bundle(worker, folder);
  writeFileSync(join(folder, "task.json"), JSON.stringify(task));
  writeFileSync(
    join(folder, "index.html"),
    `<!doctype html><script type="module">new Worker("worker.js", { type: "module" })</script>`,
  );
  let posted: (result: unknown) => void;
  const result = new Promise<unknown>((resolve) => (posted = resolve));
  const answer = (request: IncomingMessage, response: ServerResponse): boolean => {
    if (!ships && request.url!.endsWith("/row_invariance.json")) {
      response.writeHead(404).end();
      return true;
    }
    if (request.method !== "POST") return false;
    let body = "";
    request
      .on("data", (chunk) => (body += chunk))
      .on("end", () => {
        response.end();
        posted(JSON.parse(body));
      });
    return true;
  };
  const { url, close } = await serve(
    { "/": folder, "/pairs/": PAIRS },
    { answer, ...(isolated ? {} : { headers: {} }) },
  );
  return {
    url,
    result,
    close: async () => {
      await close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function bundle(worker: string, folder: string): Promise<void> {
  await build({
    entryPoints: { worker: resolve("tests/web", worker) },
    outdir: folder,
    bundle: true,
    format: "esm",
    splitting: true,
    target: "es2022",
    conditions: ["onnxruntime-web-use-extern-wasm"],
    alias: { "@edgespec/edgespec/web": resolve("dist/web/index.js") },
    logLevel: "error",
  });
  mkdirSync(join(folder, "ort"));
  for (const kind of ["", ".asyncify"]) {
    for (const extension of ["mjs", "wasm"]) {
      const file = `ort-wasm-simd-threaded${kind}.${extension}`;
      copyFileSync(join(RUNTIME, file), join(folder, "ort", file));
    }
  }
}
