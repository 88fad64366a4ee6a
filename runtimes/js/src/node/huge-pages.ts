// Huge pages of memory for the weights that a session holds, as in Python (docs/decisions/0014-huge-pages.md).

import { readFileSync } from "node:fs";
import { platform } from "node:process";
import type { Address, Koffi } from "./ort-api.js";

const HUGE_PAGE = 2n ** 21n; // bytes
const MADV_COLLAPSE = 25; // Linux 6.1 and later; it skips memory that was never written

/**
 * Moves the memory that the process allocates while `open` runs onto huge pages. A hint: a system that
 * cannot do it leaves the memory as it was.
 */
export function onHugePages<T>(koffi: Koffi, open: () => T): T {
  if (platform !== "linux") return open();
  const before = hugePageAddresses();
  const opened = open();
  const madvise = koffi.load(null).func("madvise", "int", ["void *", "size_t", "int"]);
  for (const address of hugePageAddresses()) if (!before.has(address)) madvise(address, HUGE_PAGE, MADV_COLLAPSE);
  return opened;
}

/** Addresses where a huge page fits into the process's private memory; none if unknown. */
function hugePageAddresses(): Set<Address> {
  const addresses = new Set<Address>();
  for (const line of mappings()) {
    const [span, permissions, , , inode, name] = line.split(/\s+/);
    if (permissions !== "rw-p" || inode !== "0" || !(name === "" || name === undefined || name === "[heap]")) continue;
    const [start, end] = span!.split("-").map((part) => BigInt(`0x${part}`)) as [Address, Address];
    for (
      let address = ((start + HUGE_PAGE - 1n) / HUGE_PAGE) * HUGE_PAGE;
      address + HUGE_PAGE <= end;
      address += HUGE_PAGE
    ) {
      addresses.add(address);
    }
  }
  return addresses;
}

function mappings(): string[] {
  try {
    return readFileSync("/proc/self/maps", "utf8").split("\n");
  } catch {
    return [];
  }
}
