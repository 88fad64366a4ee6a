// Measurements of row invariance in the pair's folder: row_invariance.json, which all runtimes share.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { VerdictStore } from "../host.js";
import type { RowInvariance } from "../pair/manifest.js";
import { isRowInvariance } from "../verdict/verdict.js";

const FILE = "row_invariance.json";

interface Entry {
  readonly graph: string;
  readonly row_invariance: RowInvariance;
}

export class VerdictFile implements VerdictStore {
  readonly #path: string;

  constructor(folder: string) {
    this.#path = join(folder, FILE);
  }

  async read(graph: string, machine: string): Promise<RowInvariance | null> {
    const found = (await this.#entries()).find((entry) => isOf(entry, graph, machine));
    return found?.row_invariance ?? null;
  }

  /** Where the folder cannot be written, it is measured again the next time. */
  async write(graph: string, verdict: RowInvariance): Promise<void> {
    const others = (await this.#entries()).filter((entry) => !isOf(entry, graph, verdict.machine));
    const entries: Entry[] = [...others, { graph, row_invariance: verdict }];
    const half = `${this.#path}.${process.pid}`;
    try {
      await writeFile(half, `${JSON.stringify(entries, null, 1)}\n`);
      await rename(half, this.#path);
    } catch (error) {
      if (typeof (error as NodeJS.ErrnoException).code !== "string") throw error;
    }
  }

  /** A missing or damaged file counts as empty. */
  async #entries(): Promise<Entry[]> {
    try {
      const found: unknown = JSON.parse(await readFile(this.#path, "utf8"));
      return Array.isArray(found) ? found.filter(isEntry) : [];
    } catch {
      return [];
    }
  }
}

function isOf({ graph, row_invariance }: Entry, wanted: string, machine: string): boolean {
  return graph === wanted && row_invariance.machine === machine;
}

function isEntry(value: unknown): value is Entry {
  const { graph, row_invariance } = (value ?? {}) as Partial<Entry>;
  return typeof graph === "string" && isRowInvariance(row_invariance);
}
