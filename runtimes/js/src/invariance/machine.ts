// The machine that a measurement was made on: a record with a digest, and a sentence for people.

import type { Host } from "../host.js";
import { sha256Hex } from "../pair/digest.js";

/** Everything that decides which kernels run a model, and so which bits they compute. */
function record({ runtime, provider, threads, cores, hardware }: Host): object {
  return { cores, hardware, provider, runtime, threads };
}

/** SHA-256 of the record: measurements are trusted where it is the same. */
export function machineDigest(host: Host): Promise<string> {
  return sha256Hex(JSON.stringify(record(host)));
}

/** The machine in a sentence. No decision may depend on its words. */
export function machineSentence({ runtime, provider, threads, cores, hardware }: Host): string {
  const how = threads > 0 ? `${threads} threads` : `default threads of ${cores} cores`;
  return [`${runtime} ${provider}`, how, hardware].filter((part) => part !== "").join(", ");
}
