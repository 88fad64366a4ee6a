// An exported folder on a disk.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { AbortedError, DamagedError, FileChangedError, FileMissingError } from "../errors.js";
import type { Folder, ReadGraph, Watch } from "../host.js";
import type { FileRecord } from "../pair/records.js";
import type { OpenGraph } from "./open-graph.js";

export class NodeFolder implements Folder {
  readonly #open: OpenGraph;

  constructor(
    readonly name: string,
    open: OpenGraph,
  ) {
    this.#open = open;
  }

  async read(file: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const path = join(this.name, file);
    try {
      return new Uint8Array(await readFile(path, { signal }));
    } catch (error) {
      throw signal?.aborted ? new AbortedError(signal) : asFileError(path, error);
    }
  }

  /** Compares sizes, and digests of graphs and tables; of weights a digest takes as long as loading them. */
  async prepare(files: ReadonlyMap<string, FileRecord>, { onProgress, signal }: Watch): Promise<void> {
    const total = [...files.values()].reduce((sum, { bytes }) => sum + bytes, 0);
    let loaded = 0;
    for (const [file, record] of files) {
      if (signal?.aborted) throw new AbortedError(signal);
      await this.#check(join(this.name, file), record);
      loaded += record.bytes;
      onProgress?.({ file, loaded, total });
    }
  }

  /** The runtime reads them itself, and finds weights next to their graph. */
  async readGraphs(graphs: readonly string[]): Promise<readonly ReadGraph[]> {
    return graphs.map((graph) => () => this.#open(join(this.name, graph)));
  }

  async #check(path: string, { bytes, sha256 }: FileRecord): Promise<void> {
    const size = await stat(path).then(
      ({ size }) => size,
      (error: unknown) => {
        throw asFileError(path, error);
      },
    );
    if (size !== bytes) throw new FileChangedError(path, `it has ${size} bytes where the manifest says ${bytes}`);
    if (/\.(onnx|json)$/.test(path) && (await digestOf(path)) !== sha256)
      throw new FileChangedError(path, "its digest differs");
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(path)) hash.update(part as Uint8Array);
  return hash.digest("hex");
}

function asFileError(path: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOENT" || code === "ENOTDIR") return new FileMissingError(path, error);
  return new DamagedError(path, message, error);
}
