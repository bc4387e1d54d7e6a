import type { FileFormats } from '../../core/ports/exports.ts';

/** The formats of exported files. */
export const fileFormats: FileFormats = async (name) => {
  if (name === 'csv') return (await import('./text-formats.ts')).csv;
  // A gateway that exports no Parquet does not load its writer.
  if (name === 'parquet') return (await import('./parquet.ts')).parquet;
  return (await import('./text-formats.ts')).jsonl;
};
