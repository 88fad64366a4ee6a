// The host of a browser: onnxruntime-web, and Cache Storage for what was measured.

import type { Tensor } from "onnxruntime-common";
import type { Host, TensorData, TensorType, VerdictStore } from "../host.js";
import type { RowInvariance } from "../pair/manifest.js";
import { isRowInvariance } from "../verdict/verdict.js";
import type { KeptFiles } from "./kept-files.js";
import type { Runtime } from "./runtime.js";

export function webHost({ ort, provider, threads, hardware }: Runtime, kept: KeptFiles): Host {
  return {
    runtime: `onnxruntime-web ${ort.env.versions.web}`,
    provider,
    threads,
    cores: 0,
    hardware,
    writesOutputs: false,
    verdicts: keptVerdicts(kept),
    tensor: (type: TensorType, data: TensorData, dims: readonly number[]): Tensor => new ort.Tensor(type, data, dims),
  };
}

function keptVerdicts(kept: KeptFiles): VerdictStore {
  const nameOf = (graph: string, machine: string): string => `row-invariance/${graph}/${machine}`;
  return {
    async read(graph, machine): Promise<RowInvariance | null> {
      const content = await kept.get(nameOf(graph, machine));
      const verdict = content && parsed(new TextDecoder().decode(content));
      return isRowInvariance(verdict) && verdict.machine === machine ? verdict : null;
    },
    async write(graph, verdict): Promise<void> {
      const content = new TextEncoder().encode(JSON.stringify(verdict));
      await kept.put(nameOf(graph, verdict.machine), content, content.length);
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // damaged: it is measured again
  }
}
