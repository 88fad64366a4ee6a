// SHA-256 in hexadecimal digits, by the platform.

import { InsecureContextError } from "../errors.js";

/**
 * Of bytes, or of a text as UTF-8.
 *
 * @throws InsecureContextError: a page that came by plain HTTP has no digests.
 */
export async function sha256Hex(content: Uint8Array<ArrayBuffer> | string): Promise<string> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  if (globalThis.crypto?.subtle === undefined) throw new InsecureContextError();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
