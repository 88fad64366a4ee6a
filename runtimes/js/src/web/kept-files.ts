// Files that a browser keeps, in Cache Storage: pieces as they are downloaded, and a mark on what is
// whole.
//
// A file is found by its digest, so pairs share files, and an updated pair never reads an old one. It
// counts as kept when all its bytes had that digest; pieces without the mark are what an aborted
// download continues after.

import { QuotaError } from "../errors.js";
import type { FileRecord } from "../pair/records.js";

const CACHE = "edgespec-files";
/** Bytes of each piece of a file but its last. */
export const PIECE = 4 * 1024 * 1024;

/** Pieces of files, by digest. Where the browser keeps nothing (no secure context), memory does. */
export class KeptFiles {
  readonly #cache: Cache | null;
  readonly #memory = new Map<string, Uint8Array<ArrayBuffer>>();

  private constructor(cache: Cache | null) {
    this.#cache = cache;
  }

  static async open(): Promise<KeptFiles> {
    if (!("caches" in globalThis)) return new KeptFiles(null);
    return new KeptFiles(await caches.open(CACHE).catch(() => null)); // refused in some private windows
  }

  /** Bytes that this site may still keep; infinite where the browser does not say. */
  async room(): Promise<number> {
    if (this.#cache === null || typeof navigator === "undefined" || !navigator.storage) return Infinity;
    const { quota = Infinity, usage = 0 } = await navigator.storage.estimate();
    return quota - usage;
  }

  /** Whether the file is here and whole. */
  async has({ sha256, bytes }: FileRecord): Promise<boolean> {
    const mark = await this.get(`${sha256}/whole`);
    return mark !== null && new TextDecoder().decode(mark) === String(bytes);
  }

  /** The file's content; null if a piece is missing, for a browser may drop any of them. */
  async content(file: FileRecord): Promise<Uint8Array<ArrayBuffer> | null> {
    const content = new Uint8Array(file.bytes);
    // One after the other they took 1.6 times as long.
    const pieces = Array.from({ length: Math.ceil(file.bytes / PIECE) }, (_, piece) =>
      this.#fill(content, file, piece),
    );
    return (await Promise.all(pieces)).every((whole) => whole) ? content : null;
  }

  /** Whether the piece is there, and as long as it must be. Read chunk by chunk: a buffer for each piece took 1.4 times as long. */
  async #fill(content: Uint8Array, { sha256, bytes }: FileRecord, piece: number): Promise<boolean> {
    const body = (await this.#response(`${sha256}/${piece}`))?.body;
    const room = content.subarray(piece * PIECE, Math.min((piece + 1) * PIECE, bytes));
    return body != null && (await fill(room, body));
  }

  /** Keeps a piece of a file; pieces follow each other. */
  async addPiece({ sha256, bytes }: FileRecord, piece: number, content: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.put(`${sha256}/${piece}`, content, bytes);
  }

  /** How many pieces are here from the first on, and their bytes. */
  async partial({ sha256 }: FileRecord): Promise<{ pieces: number; bytes: number }> {
    let [pieces, bytes] = [0, 0];
    for (;;) {
      const piece = await this.get(`${sha256}/${pieces}`);
      if (piece === null) return { pieces, bytes };
      pieces++;
      bytes += piece.length;
    }
  }

  /** Marks a file as whole; its content had the digest. */
  async markWhole({ sha256, bytes }: FileRecord): Promise<void> {
    await this.put(`${sha256}/whole`, new TextEncoder().encode(String(bytes)), bytes);
  }

  /** Drops a file, whole or not. */
  async drop({ sha256, bytes }: FileRecord): Promise<void> {
    await this.remove(`${sha256}/whole`);
    for (let piece = 0; piece * PIECE < bytes; piece++) await this.remove(`${sha256}/${piece}`);
  }

  /** @throws QuotaError: there is no room. */
  async put(name: string, content: Uint8Array<ArrayBuffer>, needed: number): Promise<void> {
    if (this.#cache === null) {
      this.#memory.set(name, content);
      return;
    }
    try {
      await this.#cache.put(urlOf(name), new Response(content));
    } catch (error) {
      throw new QuotaError(needed, Math.max(0, await this.room()), error);
    }
  }

  async get(name: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const response = await this.#response(name);
    return response && new Uint8Array(await response.arrayBuffer());
  }

  async #response(name: string): Promise<Response | null> {
    if (this.#cache !== null) return (await this.#cache.match(urlOf(name))) ?? null;
    const content = this.#memory.get(name);
    return content === undefined ? null : new Response(content);
  }

  /** Whether there was something to remove. */
  async remove(name: string): Promise<boolean> {
    return this.#cache === null ? this.#memory.delete(name) : this.#cache.delete(urlOf(name));
  }
}

/** Whether a stream has as many bytes as there is room; they are then there. */
async function fill(room: Uint8Array, body: ReadableStream<Uint8Array>): Promise<boolean> {
  const reader = body.getReader();
  for (let end = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return end === room.length;
    if (end + value.length > room.length) {
      await reader.cancel();
      return false;
    }
    room.set(value, end);
    end += value.length;
  }
}

// Nothing is ever requested from it: names in Cache Storage are URLs.
function urlOf(name: string): string {
  return `https://edgespec.invalid/${name}`;
}
