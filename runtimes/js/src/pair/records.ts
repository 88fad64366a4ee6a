// What the manifest records of a file, and of a measurement of a machine.

/** What the manifest says of a file. */
export interface FileRecord {
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** Whether a position's logits have the same bits whatever else is in the call. */
export interface RowInvariance {
  readonly is_row_invariant: boolean;
  /** The fewest positions of a call: 1, or 2 where a call of one position takes another kernel. */
  readonly min_rows: number;
  readonly max_rows: number;
  /** Largest difference of a logit between a call of one position and longer calls. */
  readonly one_row_difference: number;
  /** For people. */
  readonly measured_on: string;
  /** Digest of the machine's record; the result holds where it is the same. */
  readonly machine: string;
  readonly candidates: boolean;
  /** Whether rows of several texts were measured in one call, which kernels alone make. */
  readonly texts?: boolean;
  readonly kernels: string;
  /** Digest of the logits of a few calls; empty where it was not made. */
  readonly logits: string;
}
