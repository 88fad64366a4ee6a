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
// Minified, without onnxruntime and the tokenizer library. 5,000 give that library the token ids of Rust's, 2,900 check
// callers' own drafters.
const BYTES = 70_000;

/** Bytes of a module's text, minified and bundled: what is loaded at once, without what is imported when it is needed. */
async function bundledBytes(contents: string): Promise<number> {
  const { metafile } = await build({
    stdin: { contents, resolveDir: PACKAGE },
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    platform: "node",
    external: ["koffi", "onnxruntime-common", "onnxruntime-node", "@huggingface/tokenizers"],
    outdir: "unused",
    metafile: true,
    write: false,
  });
  const loaded = new Set([
    Object.keys(metafile.outputs).find((file) => metafile.outputs[file]!.entryPoint === "<stdin>")!,
  ]);
  for (const file of loaded) {
    for (const { path, kind, external } of metafile.outputs[file]!.imports) {
      if (kind === "import-statement" && !external) loaded.add(path);
    }
  }
  return [...loaded].reduce((sum, file) => sum + metafile.outputs[file]!.bytes, 0);
}

test("the package is small", async () => {
  const bytes = await bundledBytes('export * from "./dist/index.js"');
  assert.ok(bytes > 10_000 && bytes <= BYTES, `${bytes} bytes`);
});

test("what is not used is left out", async () => {
  const whole = await bundledBytes('export * from "./dist/index.js"');
  const lookup = await bundledBytes('export { NgramLookup } from "./dist/index.js"');
  assert.ok(lookup < whole / 10, `${lookup} of ${whole} bytes`);
});

test("publint and attw find nothing", () => {
  const folder = mkdtempSync(join(tmpdir(), "edgespec-"));
  const run = (command: string, ...options: string[]) =>
    execFileSync(command, options, { cwd: PACKAGE, encoding: "utf8" });
  const archive = run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder).trim();
  run("npx", "publint", "--strict", join(folder, archive));
  run("npx", "attw", join(folder, archive), "--profile", "esm-only");
});
