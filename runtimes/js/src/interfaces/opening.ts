// How the browser's own APIs come to a model: it is opened at the first `create`, with progress.

import type { Progress } from "../host.js";
import { unlessAborted } from "./aborting.js";
import type { TextMaker } from "./turns.js";

export type Availability = "unavailable" | "downloadable" | "downloading" | "available";

/** Opens the pair: `(watch) => load(url, watch)`. It is asked once, or again after it failed. */
export interface OpenPair {
  (watch: { readonly onProgress: (progress: Progress) => void }): Promise<TextMaker>;
}

/** What `create` of each API takes. */
export interface CreateOptions {
  readonly signal?: AbortSignal;
  /** Is given an `EventTarget` with events "downloadprogress", whose `loaded` goes from 0 to 1. */
  readonly monitor?: (monitor: any) => void;
}

/** A pair that is opened when it is first wanted. */
export class Opening {
  readonly #open: OpenPair;
  readonly #monitors = new Set<EventTarget>();
  #pair: Promise<TextMaker> | null = null;
  availability: Exclude<Availability, "unavailable"> = "downloadable";

  constructor(pair: TextMaker | OpenPair) {
    this.#open = typeof pair === "function" ? pair : async () => pair;
    if (typeof pair !== "function") this.availability = "available";
  }

  /** The pair. A signal ends the waiting, not the download: others may wait for it, too. */
  async pair({ signal, monitor }: CreateOptions): Promise<TextMaker> {
    signal?.throwIfAborted();
    const progress = new Monitor();
    monitor?.(progress);
    this.#monitors.add(progress);
    try {
      return await unlessAborted((this.#pair ??= this.#opened()), signal);
    } finally {
      this.#monitors.delete(progress);
    }
  }

  async #opened(): Promise<TextMaker> {
    if (this.availability === "available") return this.#open({ onProgress: () => {} });
    this.availability = "downloading";
    try {
      this.#tell(0);
      const pair = await this.#open({ onProgress: ({ loaded, total }) => this.#tell(loaded / total) });
      this.#tell(1);
      this.availability = "available";
      return pair;
    } catch (error) {
      this.availability = "downloadable";
      this.#pair = null;
      throw error;
    }
  }

  #tell(loaded: number): void {
    for (const monitor of this.#monitors) monitor.dispatchEvent(new DownloadProgress(loaded));
  }
}

/** The target of "downloadprogress" events. */
class Monitor extends EventTarget {
  ondownloadprogress: ((event: DownloadProgress) => unknown) | null = null;

  override dispatchEvent(event: Event): boolean {
    this.ondownloadprogress?.(event as DownloadProgress);
    return super.dispatchEvent(event);
  }
}

/** As a browser's `ProgressEvent`, which Node.js lacks. */
class DownloadProgress extends Event {
  readonly lengthComputable = true;
  readonly total = 1;

  /** @param loaded from 0 to 1. */
  constructor(readonly loaded: number) {
    super("downloadprogress");
  }
}
