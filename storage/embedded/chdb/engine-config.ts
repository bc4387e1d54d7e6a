import { writeFile } from 'node:fs/promises';

/** Durability of every table of the embedded engine: an insert is on disk before it is acknowledged. */
const configXml = `<clickhouse>
  <merge_tree>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
  </merge_tree>
</clickhouse>
`;

/** Writes the file with the settings that the engine reads at start only (they cannot be given as arguments). */
export async function writeEngineConfig(path: string): Promise<void> {
  await writeFile(path, configXml, { mode: 0o600 });
}
