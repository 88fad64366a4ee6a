// What opens graphs, and how.

import type { Session } from "../host.js";

/** @param graph its file. */
export type OpenGraph = (graph: string) => Promise<Session>;

/** Of a session's configuration; the names are in onnxruntime_session_options_config_keys.h, with dots. */
export interface Settings {
  readonly [name: string]: string | Settings;
}
