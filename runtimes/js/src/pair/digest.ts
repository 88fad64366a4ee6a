// SHA-256 in hexadecimal digits.

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** Of bytes, or of a text as UTF-8. */
export function sha256Hex(content: Uint8Array | string): string {
  return bytesToHex(sha256(typeof content === "string" ? utf8ToBytes(content) : content));
}
