// The host of a browser: onnxruntime-web, and Cache Storage for what was measured.
//
// WebAssembly computes the same bits on every processor: the instructions that may differ, relaxed SIMD,
// are in none of the builds that onnxruntime-web publishes. So a pair can bring a result along.

import { FileMissingError, OfflineError } from "../errors.js";
import type { Folder, Host, InvarianceStore } from "../host.js";
import { ROW_INVARIANCE } from "../pair/manifest.js";
import type { RowInvariance } from "../pair/records.js";
import { isRowInvariance, invarianceEntries } from "../invariance/invariance.js";
import type { KeptFiles } from "./kept-files.js";
import type { Runtime } from "./runtime.js";

export function webHost(
  { ort, provider, threads, hardware, writesOutputs, tensor }: Runtime,
  kept: KeptFiles,
  folder: Folder,
): Host {
  return {
    runtime: runtimeName(ort),
    provider,
    threads,
    cores: 0,
    hardware,
    writesOutputs,
    invariance: keptInvariance(kept, folder),
    tensor,
  };
}

function keptInvariance(kept: KeptFiles, folder: Folder): InvarianceStore {
  const nameOf = (graph: string, machine: string): string => `row-invariance/${graph}/${machine}`;
  return {
    async read(graph, machine): Promise<RowInvariance | null> {
      const content = await kept.get(nameOf(graph, machine));
      const result = content && parsed(new TextDecoder().decode(content));
      return isRowInvariance(result) && result.machine === machine ? result : null;
    },
    async shipped(graph, machine): Promise<RowInvariance | null> {
      const found = (await shippedEntries(folder)).find(
        (entry) => entry.graph === graph && entry.row_invariance.machine === machine,
      );
      return found?.row_invariance ?? null;
    },
    async write(graph, result): Promise<void> {
      const content = new TextEncoder().encode(JSON.stringify(result));
      await kept.put(nameOf(graph, result.machine), content, content.length);
    },
  };
}

/** None where the pair was exported without it, or there is no network. */
async function shippedEntries(folder: Folder): Promise<ReturnType<typeof invarianceEntries>> {
  try {
    return invarianceEntries(new TextDecoder().decode(await folder.read(ROW_INVARIANCE)));
  } catch (error) {
    if (error instanceof FileMissingError || error instanceof OfflineError) return [];
    throw error;
  }
}

/** With the instructions, where the page chose others than the default: they may have other bits. */
function runtimeName({ env }: Runtime["ort"]): string {
  const simd = env.wasm.simd ?? true;
  return `onnxruntime-web ${env.versions.web}${simd === true ? "" : ` simd=${simd}`}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // damaged: it is measured again
  }
}
