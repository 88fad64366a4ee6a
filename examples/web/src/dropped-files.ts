// The files of a folder that was dropped into the page: path to file.

export async function filesOfDrop({ items }: DataTransfer): Promise<Map<string, File>> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const files = new Map<string, File>();
  await Promise.all(entries.map((entry) => collect(entry, files)));
  return files;
}

async function collect(entry: FileSystemEntry, files: Map<string, File>): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((found, failed) => (entry as FileSystemFileEntry).file(found, failed));
    files.set(entry.fullPath.slice(1), file);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((found, failed) => reader.readEntries(found, failed));
    if (some.length === 0) return; // it gives a hundred at a time
    await Promise.all(some.map((inner) => collect(inner, files)));
  }
}
