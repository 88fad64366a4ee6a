// Exported folders in a browser: at a URL, kept after the first visit, or dropped into the page.

import { AbortedError, FileChangedError, FileMissingError, OfflineError, QuotaError } from "../errors.js";
import type { Folder, ReadGraph, Watch } from "../host.js";
import { MANIFEST } from "../pair/manifest.js";
import type { FileRecord } from "../pair/records.js";
import { checkDigest } from "./digest.js";
import { download, request } from "./download.js";
import type { KeptFiles } from "./kept-files.js";
import type { OpenGraph } from "./open-graph.js";

/** What both folders do with the bytes of a graph. */
abstract class WebFolder implements Folder {
  abstract readonly name: string;
  readonly #open: OpenGraph;
  protected records: ReadonlyMap<string, FileRecord> = new Map();

  constructor(open: OpenGraph) {
    this.#open = open;
  }

  abstract read(file: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  abstract prepare(files: ReadonlyMap<string, FileRecord>, watch: Watch): Promise<void>;

  async readGraphs(graphs: readonly string[], weights: readonly string[]): Promise<readonly ReadGraph[]> {
    // Graphs first: reads are answered in their order, and weights take long.
    const contents = graphs.map((graph) => this.read(graph));
    const data = weights.map(async (file) => ({ path: file.split("/").at(-1)!, data: await this.read(file) }));
    const [read, shared] = await Promise.all([Promise.all(contents), Promise.all(data)]);
    return read.map((graph) => () => this.#open(graph, shared));
  }
}

/** A folder that a server has. After the first visit it opens without a network. */
export class RemoteFolder extends WebFolder {
  readonly name: string;
  readonly #kept: KeptFiles;

  /** @param url of the folder, absolute and without a slash at its end. */
  constructor(url: string, kept: KeptFiles, open: OpenGraph) {
    super(open);
    this.name = url;
    this.#kept = kept;
  }

  async read(file: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    if (file === MANIFEST) return this.#manifest(signal);
    const record = this.records.get(file);
    if (record !== undefined) return (await this.#kept.content(record)) ?? this.#again(file, record, signal);
    return new Uint8Array(await (await request(this.#url(file), 0, signal)).arrayBuffer());
  }

  // The browser dropped a piece after the file was whole.
  async #again(file: string, record: FileRecord, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    await this.#kept.drop(record);
    await download(this.#url(file), record, this.#kept, () => undefined, signal);
    const content = await this.#kept.content(record);
    if (content === null) throw new QuotaError(record.bytes, await this.#kept.room());
    return content;
  }

  async prepare(files: ReadonlyMap<string, FileRecord>, { onProgress, signal }: Watch): Promise<void> {
    this.records = new Map([...this.records, ...files]);
    const total = sum(files.values());
    let loaded = 0;
    const missing: [string, FileRecord][] = [];
    const look = async (file: string, record: FileRecord): Promise<void> => {
      if (await this.#kept.has(record)) onProgress?.({ file, loaded: (loaded += record.bytes), total });
      else missing.push([file, record]);
    };
    await Promise.all(Array.from(files, ([file, record]) => look(file, record)));
    await this.#checkRoom(missing.map(([, record]) => record));
    for (const [file, record] of missing) {
      if (signal?.aborted) throw new AbortedError(signal);
      const onBytes = (bytes: number): void => onProgress?.({ file, loaded: (loaded += bytes), total });
      await download(this.#url(file), record, this.#kept, onBytes, signal);
    }
    if (signal?.aborted) throw new AbortedError(signal);
  }

  async #checkRoom(records: readonly FileRecord[]): Promise<void> {
    let missing = 0;
    for (const record of records) missing += record.bytes - (await this.#kept.partial(record)).bytes;
    const room = await this.#kept.room();
    if (missing > room) throw new QuotaError(missing, room);
  }

  // The server's, so that an updated pair is noticed; without a network, that of the last visit.
  async #manifest(signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const name = manifestName(this.name);
    const known = this.#kept.get(name);
    try {
      const content = new Uint8Array(await (await request(this.#url(MANIFEST), 0, signal)).arrayBuffer());
      if (!isEqual(content, await known)) await this.#kept.put(name, content, content.length);
      return content;
    } catch (error) {
      const kept = error instanceof OfflineError ? await known : null;
      if (kept === null) throw error;
      return kept;
    }
  }

  #url(file: string): string {
    return `${this.name}/${file.split("/").map(encodeURIComponent).join("/")}`;
  }
}

/** Files that someone dropped into the page or chose there; nothing of them is kept. */
export class LocalFolder extends WebFolder {
  readonly name: string;
  readonly #files: ReadonlyMap<string, Blob>;

  /** @param files path to content; the manifest may lie in a folder among them. */
  constructor(files: ReadonlyMap<string, Blob>, open: OpenGraph) {
    super(open);
    const path = [...files.keys()].find((file) => file === MANIFEST || file.endsWith(`/${MANIFEST}`)) ?? MANIFEST;
    const folder = path.slice(0, -MANIFEST.length);
    this.name = folder.slice(0, -1) || "the chosen files";
    this.#files = new Map(
      [...files].flatMap(([file, content]) => (file.startsWith(folder) ? [[file.slice(folder.length), content]] : [])),
    );
  }

  async read(file: string): Promise<Uint8Array<ArrayBuffer>> {
    const content = this.#files.get(file);
    if (content === undefined) throw new FileMissingError(`${this.name}/${file}`);
    try {
      return new Uint8Array(await content.arrayBuffer());
    } catch {
      throw new FileChangedError(`${this.name}/${file}`, "it was changed or removed after it was chosen");
    }
  }

  async prepare(files: ReadonlyMap<string, FileRecord>, { onProgress, signal }: Watch): Promise<void> {
    const total = sum(files.values());
    let loaded = 0;
    for (const [file, record] of files) {
      if (signal?.aborted) throw new AbortedError(signal);
      await checkDigest(`${this.name}/${file}`, await this.read(file), record);
      onProgress?.({ file, loaded: (loaded += record.bytes), total });
    }
  }
}

/** What a folder's manifest is kept as. */
export function manifestName(url: string): string {
  return `manifest/${encodeURIComponent(url)}`;
}

function isEqual(content: Uint8Array, known: Uint8Array | null): boolean {
  return content.length === known?.length && content.every((byte, index) => byte === known[index]);
}

function sum(files: Iterable<FileRecord>): number {
  return [...files].reduce((total, { bytes }) => total + bytes, 0);
}
