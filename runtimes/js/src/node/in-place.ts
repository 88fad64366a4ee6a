// Sessions on ONNX Runtime's C interface. Loaded only where koffi is.

import { onHugePages } from "./huge-pages.js";
import { NativeSession } from "./native-session.js";
import { type Koffi, OrtApi, runtimeLibrary } from "./ort-api.js";
import type { OpenGraph } from "./runtime.js";

/** @returns null where onnxruntime-node keeps its library elsewhere than expected. */
export function openInPlace(koffi: Koffi, settings: Readonly<Record<string, string>>): ((threads: number) => OpenGraph) | null {
  const library = runtimeLibrary();
  if (library === null) return null;
  const api = new OrtApi(koffi, library);
  return (threads) => async (graph) => new NativeSession(api, onHugePages(koffi, () => api.createSession(graph, threads, settings)));
}
