// Claim: what is published is small, has no side effects, and its types and entries resolve.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));
const BYTES = 60_000; // minified, without onnxruntime, koffi and the tokenizer library

/** A minified bundle of a module's text. */
async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: PACKAGE },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "node",
    external: ["koffi", "onnxruntime-common", "onnxruntime-node", "@huggingface/tokenizers"],
    write: false,
  });
  return outputFiles[0]!.text;
}

test("the package is small", async () => {
  const text = await bundled('export * from "./dist/index.js"');
  assert.ok(text.length > 10_000 && text.length <= BYTES, `${text.length} bytes`);
});

test("what is not used is left out", async () => {
  const whole = await bundled('export * from "./dist/index.js"');
  const lookup = await bundled('export { PromptLookup } from "./dist/index.js"');
  assert.ok(lookup.length < whole.length / 10, `${lookup.length} of ${whole.length} bytes`);
});

test("publint and attw find nothing", () => {
  const folder = mkdtempSync(join(tmpdir(), "edgespec-"));
  const run = (command: string, ...options: string[]) => execFileSync(command, options, { cwd: PACKAGE, encoding: "utf8" });
  const archive = run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder).trim();
  run("npx", "publint", "--strict", join(folder, archive));
  run("npx", "attw", join(folder, archive), "--profile", "esm-only");
});
