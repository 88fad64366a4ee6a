// Sessions of onnxruntime-node's library: through its C interface where koffi is installed, else through
// onnxruntime-node. Both run the same library with the same settings, so the bits are the same.

import { Tensor } from "onnxruntime-common";
import type { OpenGraph, Settings } from "./open-graph.js";
import type { Koffi } from "./ort-api.js";

/** A runtime, with the class of the tensors that it takes. */
export interface NodeRuntime {
  readonly open: OpenGraph;
  readonly Tensor: typeof Tensor;
}

const SETTINGS: Settings = {
  session: {
    // Threads that spin between calls take the time that the rest of a process needs.
    intra_op: { spin_duration_us: "100" },
    // Processors without VNNI would add pairs of 8-bit products with saturation: another model.
    x64quantprecision: "1",
  },
};

/** Opens sessions through the C interface; null without koffi. */
let inPlace: Promise<((threads: number) => OpenGraph) | null> | undefined;

/** @param threads of each session; 0: the runtime's own choice. */
export async function startRuntime(threads: number): Promise<NodeRuntime> {
  const open = await (inPlace ??= openWithKoffi());
  return open === null ? copying(threads) : { open: open(threads), Tensor };
}

async function openWithKoffi() {
  const koffi = await installedKoffi();
  if (koffi === null) return null;
  const { openInPlace } = await import("./in-place.js");
  return openInPlace(koffi, SETTINGS);
}

/** koffi, or null where it is not installed or has no binary for this system. */
async function installedKoffi(): Promise<Koffi | null> {
  try {
    return await import("koffi");
  } catch {
    return null;
  }
}

/** onnxruntime-node writes into tensors of its own class only: of the same package, but loaded as CommonJS. */
async function copying(threads: number): Promise<NodeRuntime> {
  const { InferenceSession, Tensor } = await import("onnxruntime-node");
  const options = { intraOpNumThreads: threads, logSeverityLevel: 3, extra: SETTINGS } as const;
  return { open: (graph) => InferenceSession.create(graph, options), Tensor };
}
