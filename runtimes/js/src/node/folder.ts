// An exported folder on a disk.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { InferenceSession } from "onnxruntime-node";
import { AbortedError, DamagedError, FileChangedError, FileMissingError } from "../errors.js";
import type { Folder, Session, Watch } from "../host.js";
import type { FileRecord } from "../pair/manifest.js";

/** How its graphs are run. */
export interface NodeSessions {
  /** 0: the runtime's own choice. */
  readonly threads: number;
}

export class NodeFolder implements Folder {
  constructor(
    readonly name: string,
    readonly sessions: NodeSessions,
  ) {}

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

  /** onnxruntime-node finds weights next to their graph by itself. */
  async openSession(graph: string): Promise<Session> {
    return InferenceSession.create(join(this.name, graph), {
      intraOpNumThreads: this.sessions.threads,
      logSeverityLevel: 3,
      extra: {
        session: {
          // Threads that spin between calls take the time that the rest of a process needs.
          intra_op: { spin_duration_us: "100" },
          // Processors without VNNI would add pairs of 8-bit products with saturation: another model.
          x64quantprecision: "1",
        },
      },
    });
  }

  async #check(path: string, { bytes, sha256 }: FileRecord): Promise<void> {
    const size = await stat(path).then(({ size }) => size, (error: unknown) => { throw asFileError(path, error); });
    if (size !== bytes) throw new FileChangedError(path, `it has ${size} bytes where the manifest says ${bytes}`);
    if (/\.(onnx|json)$/.test(path) && (await digestOf(path)) !== sha256) throw new FileChangedError(path, "its digest differs");
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
