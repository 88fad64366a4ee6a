// Downloads a file piece by piece; an aborted download continues after the last whole piece.

import { AbortedError, FileChangedError, FileMissingError, OfflineError } from "../errors.js";
import type { FileRecord } from "../pair/records.js";
import { checkDigest } from "./digest.js";
import { type KeptFiles, PIECE } from "./kept-files.js";

/**
 * Makes sure that a file is kept, and whole.
 *
 * @param onBytes told of bytes that are here, those of an earlier visit first.
 * @throws OfflineError, FileMissingError, FileChangedError, QuotaError, AbortedError.
 */
export async function download(
  url: string,
  file: FileRecord,
  kept: KeptFiles,
  onBytes: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  if (await kept.has(file)) {
    onBytes(file.bytes);
    return;
  }
  const partial = await kept.partial(file);
  if (partial.bytes > file.bytes) {
    await kept.drop(file);
    [partial.pieces, partial.bytes] = [0, 0];
  }
  onBytes(partial.bytes);
  if (partial.bytes < file.bytes) await addPieces(url, file, partial, kept, onBytes, signal);
  const content = await kept.content(file);
  try {
    await checkDigest(url, content, file);
  } catch (error) {
    await kept.drop(file);
    throw error;
  }
  await kept.markWhole(file);
}

async function addPieces(
  url: string,
  file: FileRecord,
  { pieces, bytes: start }: { pieces: number; bytes: number },
  kept: KeptFiles,
  onBytes: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  const response = await request(url, start, signal);
  const skipped = response.status === 206 ? 0 : start; // a server without ranges sends all again
  let [end, piece, filled] = [start, pieces, 0];
  const buffer = new Uint8Array(PIECE);
  const keep = async (): Promise<void> => {
    await kept.addPiece(file, piece++, buffer.slice(0, filled));
    end += filled;
    filled = 0;
  };
  for await (const chunk of chunksOf(response, url, skipped, signal)) {
    if (end + filled + chunk.length > file.bytes) {
      throw new FileChangedError(url, `it has more than ${file.bytes} bytes`);
    }
    for (let from = 0; from < chunk.length;) {
      const count = Math.min(PIECE - filled, chunk.length - from);
      buffer.set(chunk.subarray(from, from + count), filled);
      [filled, from] = [filled + count, from + count];
      if (filled === PIECE) await keep();
    }
    onBytes(chunk.length);
  }
  if (end + filled !== file.bytes) throw new OfflineError(url, `it ended after ${end + filled} of ${file.bytes} bytes`);
  if (filled > 0) await keep();
}

/** @param start bytes that are here already. */
export async function request(url: string, start: number, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { cache: "no-store", ...(signal && { signal }) };
  if (start > 0) init.headers = { Range: `bytes=${start}-` };
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    throw signal?.aborted ? new AbortedError(signal) : new OfflineError(url, "no connection", error);
  }
  if (response.status === 404) throw new FileMissingError(url);
  if (!response.ok) throw new OfflineError(url, `the server answers ${response.status}`);
  return response;
}

/** The body's bytes from `skipped` on. */
async function* chunksOf(
  response: Response,
  url: string,
  skipped: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const reader = response.body!.getReader();
  try {
    for (let left = skipped; ;) {
      const { done, value } = await read(reader, url, signal);
      if (done) return;
      const rest = value.subarray(Math.min(left, value.length));
      left -= value.length - rest.length;
      if (rest.length > 0) yield rest;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have failed already, which is known
  }
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>, url: string, signal?: AbortSignal) {
  try {
    return await reader.read();
  } catch (error) {
    throw signal?.aborted ? new AbortedError(signal) : new OfflineError(url, "the connection broke", error);
  }
}
