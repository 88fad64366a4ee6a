// Compares a file with what the manifest says of it.

import { FileChangedError } from "../errors.js";
import { sha256Hex } from "../pair/digest.js";
import type { FileRecord } from "../pair/records.js";

/** @throws FileChangedError: it is cut short, or another file. */
export async function checkDigest(
  name: string,
  content: Uint8Array<ArrayBuffer> | null,
  file: FileRecord,
): Promise<void> {
  if (content?.length !== file.bytes) {
    throw new FileChangedError(name, `${content?.length ?? 0} bytes instead of ${file.bytes}`);
  }
  if ((await sha256Hex(content)) !== file.sha256) throw new FileChangedError(name, "it has another digest");
}
