// node serve.mjs [--port N] FOLDER [/PATH=FOLDER…]: serves files as a cross-origin isolated site.
//
// Browsers give WebAssembly threads only to pages with the two headers below.

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
};
const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

// Serves each folder of `roots` ({"/": folder, "/pairs/": folder, …}) on 127.0.0.1. `answer(request,
// response)` may answer a request first. Returns the address and a function that ends it.
export async function serve(roots, { port = 0, headers = ISOLATED, answer = () => false } = {}) {
  const server = createServer((request, response) => {
    if (!answer(request, response)) answerFile(roots, headers, request, response);
  });
  server.keepAliveTimeout = 0; // a worker may compute for longer than any timeout
  await new Promise((ready, failed) => server.on("error", failed).listen(port, "127.0.0.1", ready));
  return {
    url: `http://localhost:${server.address().port}/`,
    close: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  };
}

function answerFile(roots, headers, request, response) {
  const file = fileOf(roots, new URL(request.url, "http://localhost").pathname);
  const size = file === null ? null : statSync(file, { throwIfNoEntry: false })?.size;
  if (size === undefined || size === null) {
    response.writeHead(404, headers).end();
    return;
  }
  const start = rangeStart(request.headers.range, size);
  const all = {
    ...headers,
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Cache-Control": "no-cache",
    "Content-Length": size - start,
  };
  if (start > 0) all["Content-Range"] = `bytes ${start}-${size - 1}/${size}`;
  response.writeHead(start > 0 ? 206 : 200, all);
  const stream = createReadStream(file, { start });
  stream.on("error", () => response.destroy());
  response.on("close", () => stream.destroy());
  stream.pipe(response);
}

// The file of a path, under the longest root that fits; null if it would leave it.
function fileOf(roots, path) {
  const root = Object.keys(roots)
    .filter((prefix) => path.startsWith(prefix))
    .sort((a, b) => b.length - a.length)[0];
  if (root === undefined) return null;
  const relative = normalize(decodeURIComponent(path.slice(root.length)));
  if (relative.startsWith("..")) return null;
  const file = join(roots[root], relative);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory()) return join(file, "index.html");
  return found?.isFile() ? file : null;
}

// Where "bytes=N-" starts; other ranges are answered with the whole file, as the standard allows.
function rangeStart(range, size) {
  const start = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
  return start < size ? start : 0;
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { port: { type: "string", default: "8000" } },
  });
  const roots = Object.fromEntries(
    positionals
      .map((given) => (given.startsWith("/") && given.includes("=") ? given.split("=") : ["/", given]))
      .map(([path, folder]) => [path, resolve(folder)]),
  );
  const { url } = await serve(roots, { port: Number(values.port) });
  console.log(`open ${url} (Ctrl-C ends it)`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(`serve.mjs: ${error.message}`);
    process.exit(1);
  });
}
