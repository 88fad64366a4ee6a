// Measurements of row invariance in the pair's folder: row_invariance.json, which all runtimes share.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { InvarianceStore } from "../host.js";
import { ROW_INVARIANCE } from "../pair/manifest.js";
import type { RowInvariance } from "../pair/records.js";
import { type InvarianceEntry, invarianceEntries } from "../invariance/invariance.js";

export class InvarianceFile implements InvarianceStore {
  readonly #path: string;

  constructor(folder: string) {
    this.#path = join(folder, ROW_INVARIANCE);
  }

  async read(graph: string, machine: string): Promise<RowInvariance | null> {
    const found = (await this.#entries()).find((entry) => isOf(entry, graph, machine));
    return found?.row_invariance ?? null;
  }

  /** None: bits depend on the processor. */
  async shipped(): Promise<null> {
    return null;
  }

  /** Where the folder cannot be written, it is measured again the next time. */
  async write(graph: string, result: RowInvariance): Promise<void> {
    const others = (await this.#entries()).filter((entry) => !isOf(entry, graph, result.machine));
    const entries: InvarianceEntry[] = [...others, { graph, row_invariance: result }];
    const half = `${this.#path}.${process.pid}`;
    try {
      await writeFile(half, `${JSON.stringify(entries, null, 1)}\n`);
      await rename(half, this.#path);
    } catch (error) {
      if (typeof (error as NodeJS.ErrnoException).code !== "string") throw error;
    }
  }

  /** A missing or damaged file counts as empty. */
  async #entries(): Promise<InvarianceEntry[]> {
    try {
      return invarianceEntries(await readFile(this.#path, "utf8"));
    } catch {
      return [];
    }
  }
}

function isOf({ graph, row_invariance }: InvarianceEntry, wanted: string, machine: string): boolean {
  return graph === wanted && row_invariance.machine === machine;
}
