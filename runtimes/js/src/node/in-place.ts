// Sessions on ONNX Runtime's C interface. Loaded only where koffi is.

import { onHugePages } from "./huge-pages.js";
import { NativeSession } from "./native-session.js";
import { type Koffi, OrtApi, runtimeLibrary } from "./ort-api.js";
import type { OpenGraph, Settings } from "./open-graph.js";

/** @returns null where onnxruntime-node keeps its library elsewhere than expected. */
export function openInPlace(koffi: Koffi, settings: Settings): ((threads: number) => OpenGraph) | null {
  const library = runtimeLibrary();
  if (library === null) return null;
  const api = new OrtApi(koffi, library);
  const entries = entriesOf(settings);
  return (threads) => async (graph) =>
    new NativeSession(
      api,
      onHugePages(koffi, () => api.createSession(graph, threads, entries)),
    );
}

/** Settings by their whole names, parts joined by dots. */
function entriesOf(settings: Settings, prefix = ""): Record<string, string> {
  const parts = Object.entries(settings).map(([name, value]): Record<string, string> =>
    typeof value === "string" ? { [prefix + name]: value } : entriesOf(value, `${prefix}${name}.`),
  );
  return Object.assign({}, ...parts) as Record<string, string>;
}
