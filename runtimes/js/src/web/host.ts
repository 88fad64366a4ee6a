// The host of a browser: onnxruntime-web, and Cache Storage for what was measured.
//
// WebAssembly computes the same bits on every processor: the instructions that may differ, relaxed SIMD,
// are in none of the builds that onnxruntime-web publishes. So a pair can bring a result along.

import { FileMissingError, OfflineError } from "../errors.js";
import type { Folder, Host, VerdictStore } from "../host.js";
import { type RowInvariance, VERDICTS } from "../pair/manifest.js";
import { isRowInvariance, verdictEntries } from "../verdict/verdict.js";
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
    verdicts: keptVerdicts(kept, folder),
    tensor,
  };
}

function keptVerdicts(kept: KeptFiles, folder: Folder): VerdictStore {
  const nameOf = (graph: string, machine: string): string => `row-invariance/${graph}/${machine}`;
  return {
    async read(graph, machine): Promise<RowInvariance | null> {
      const content = await kept.get(nameOf(graph, machine));
      const verdict = content && parsed(new TextDecoder().decode(content));
      return isRowInvariance(verdict) && verdict.machine === machine ? verdict : null;
    },
    async shipped(graph, machine): Promise<RowInvariance | null> {
      const found = (await shippedEntries(folder)).find(
        (entry) => entry.graph === graph && entry.row_invariance.machine === machine,
      );
      return found?.row_invariance ?? null;
    },
    async write(graph, verdict): Promise<void> {
      const content = new TextEncoder().encode(JSON.stringify(verdict));
      await kept.put(nameOf(graph, verdict.machine), content, content.length);
    },
  };
}

/** None where the pair was exported without it, or there is no network. */
async function shippedEntries(folder: Folder): Promise<ReturnType<typeof verdictEntries>> {
  try {
    return verdictEntries(new TextDecoder().decode(await folder.read(VERDICTS)));
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
