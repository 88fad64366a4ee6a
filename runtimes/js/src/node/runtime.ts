// Sessions of onnxruntime-node's library: through its C interface where koffi is installed, else through
// onnxruntime-node. Both run the same library with the same settings, so the bits are the same.

import type { Session } from "../host.js";
import { onHugePages } from "./huge-pages.js";
import { NativeSession } from "./native-session.js";
import { installedKoffi, type Koffi, OrtApi, runtimeLibrary } from "./ort-api.js";

/** @param graph its file. */
export type OpenGraph = (graph: string) => Promise<Session>;

const SETTINGS = {
  // Threads that spin between calls take the time that the rest of a process needs.
  "session.intra_op.spin_duration_us": "100",
  // Processors without VNNI would add pairs of 8-bit products with saturation: another model.
  "session.x64quantprecision": "1",
};

/** ONNX Runtime's C interface; null without koffi. */
let native: Promise<{ readonly koffi: Koffi; readonly api: OrtApi } | null> | undefined;

/** @param threads of each session; 0: the runtime's own choice. */
export async function startRuntime(threads: number): Promise<OpenGraph> {
  const found = await (native ??= openNative());
  if (found === null) return copying(threads);
  const { koffi, api } = found;
  return async (graph) => new NativeSession(api, onHugePages(koffi, () => api.createSession(graph, threads, SETTINGS)));
}

async function openNative() {
  const koffi = await installedKoffi();
  const library = koffi && runtimeLibrary();
  return koffi && library ? { koffi, api: new OrtApi(koffi, library) } : null;
}

function copying(threads: number): OpenGraph {
  return async (graph) => {
    const { InferenceSession } = await import("onnxruntime-node");
    return InferenceSession.create(graph, {
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      extra: nested(SETTINGS),
    });
  };
}

/** Settings with dots in their names as the objects in objects that onnxruntime-node takes. */
function nested(settings: Readonly<Record<string, string>>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(settings)) {
    const parts = name.split(".");
    let place = root;
    for (const part of parts.slice(0, -1)) place = (place[part] ??= {}) as Record<string, unknown>;
    place[parts.at(-1)!] = value;
  }
  return root;
}
