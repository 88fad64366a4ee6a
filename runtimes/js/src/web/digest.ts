// Compares a file with what the manifest says of it.

import { FileChangedError } from "../errors.js";
import { sha256Hex } from "../pair/digest.js";
import type { FileRecord } from "../pair/manifest.js";

/** @throws FileChangedError: it is cut short, or another file. */
export async function checkDigest(name: string, content: Uint8Array<ArrayBuffer> | null, file: FileRecord): Promise<void> {
  if (content?.length !== file.bytes) {
    throw new FileChangedError(name, `${content?.length ?? 0} bytes instead of ${file.bytes}`);
  }
  if ((await digestOf(content)) !== file.sha256) throw new FileChangedError(name, "it has another digest");
}

// Browsers compute digests in pages of a secure context only.
async function digestOf(content: Uint8Array<ArrayBuffer>): Promise<string> {
  if (globalThis.crypto?.subtle === undefined) return sha256Hex(content);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
