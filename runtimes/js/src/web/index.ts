// The host for browsers, on onnxruntime-web. Best called in a Web Worker: a call of a model takes tens of
// milliseconds, in which a page would not answer.

import type { Folder } from "../host.js";
import { filesToOpen, openPair } from "../pair/loading.js";
import { MANIFEST, readManifest } from "../pair/manifest.js";
import type { FileRecord } from "../pair/records.js";
import type { LoadOptions } from "../pair/options.js";
import type { Pair } from "../pair/pair.js";
import { LocalFolder, manifestName, RemoteFolder } from "./folder.js";
import { webHost } from "./host.js";
import { KeptFiles } from "./kept-files.js";
import { type RuntimeOptions, startRuntime } from "./runtime.js";

export type { Provider, RuntimeOptions } from "./runtime.js";

/** How a pair is opened in a browser. */
export interface WebLoadOptions extends LoadOptions, RuntimeOptions {}

/**
 * Opens an exported pair.
 *
 * What is downloaded is kept, with its digests checked, so that the next visit needs no network. An
 * aborted download continues where it was.
 *
 * @param where the URL of the folder, or its files: path to content, as dropped into a page.
 * @throws every error of `openPair` in src/pair/loading.ts; NoSimdError, NoThreadsError, NoWebGpuError:
 *   the browser lacks what was asked for. OfflineError, QuotaError: a file cannot be had, or kept.
 */
export async function load(
  where: string | URL | ReadonlyMap<string, Blob>,
  options: WebLoadOptions = {},
): Promise<Pair> {
  const runtime = await startRuntime(options);
  const kept = await KeptFiles.open();
  const folder: Folder =
    typeof where === "string" || where instanceof URL
      ? new RemoteFolder(absolute(where), kept, runtime.open)
      : new LocalFolder(where, runtime.open);
  return openPair(webHost(runtime, kept, folder), folder, options);
}

/** Whether a pair opens without a network: every file that `load` reads with these options is kept. */
export async function isKept(url: string | URL, options: LoadOptions = {}): Promise<boolean> {
  const kept = await KeptFiles.open();
  const name = manifestName(absolute(url));
  const content = await kept.get(name);
  if (content === null) return false;
  try {
    const manifest = await readManifest({ name, read: () => Promise.resolve(content) });
    const files = Array.from(filesToOpen(manifest, options), (file) => manifest.files[file]!);
    return (await Promise.all(files.map((file) => kept.has(file)))).every((whole) => whole);
  } catch {
    return false; // it is no manifest, or not one of this version
  }
}

/** Drops what is kept of a pair. */
export async function forget(url: string | URL): Promise<void> {
  const kept = await KeptFiles.open();
  for (const file of await keptFilesOf(kept, url)) await kept.drop(file);
  await kept.remove(manifestName(absolute(url)));
}

async function keptFilesOf(kept: KeptFiles, url: string | URL): Promise<FileRecord[]> {
  const content = await kept.get(manifestName(absolute(url)));
  if (content === null) return [];
  try {
    const { files } = JSON.parse(new TextDecoder().decode(content)) as { files: Record<string, FileRecord> };
    return Object.entries(files).flatMap(([file, record]) => (file === MANIFEST ? [] : [record]));
  } catch {
    return []; // what a server sent was no manifest
  }
}

function absolute(url: string | URL): string {
  return new URL(url, globalThis.location?.href).href.replace(/\/+$/, "");
}
