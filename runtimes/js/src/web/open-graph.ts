// What opens graphs in a browser.

import type { Session } from "../host.js";

/** A file of external data, as onnxruntime-web takes it. */
export interface ExternalData {
  readonly path: string;
  readonly data: Uint8Array;
}

export type OpenGraph = (graph: Uint8Array, weights: readonly ExternalData[]) => Promise<Session>;
