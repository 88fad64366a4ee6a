// Builds the page into dist/: node build.mjs

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "dist");
const RUNTIME = dirname(fileURLToPath(import.meta.resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm")));

rmSync(OUT, { recursive: true, force: true });
mkdirSync(join(OUT, "ort"), { recursive: true });
const scripts = {
  absWorkingDir: HERE,
  outdir: OUT,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  // The runtime's threads load its own files, not this page's bundle.
  conditions: ["onnxruntime-web-use-extern-wasm"],
};
await build({ ...scripts, entryPoints: ["src/app.ts", "src/worker.ts"], splitting: true });
for (const file of ["index.html", "icon.svg", "style.css", "chat.css"])
  copyFileSync(join(HERE, "src", file), join(OUT, file));
for (const file of ["ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"]) {
  copyFileSync(join(RUNTIME, file), join(OUT, "ort", file));
}
// The service worker keeps all these; another version of them is another service worker.
const files = filesBelow(OUT);
const version = createHash("sha256");
for (const file of files) version.update(file).update(readFileSync(join(OUT, file)));
const define = { FILES: JSON.stringify(["./", ...files]), VERSION: JSON.stringify(version.digest("hex").slice(0, 12)) };
await build({ ...scripts, entryPoints: ["src/service-worker.ts"], format: "iife", define });
console.log(
  `${OUT}: ${files.length} files, ${(files.reduce((sum, file) => sum + statSync(join(OUT, file)).size, 0) / 1e6).toFixed(1)} MB`,
);

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}
