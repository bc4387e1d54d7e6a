import type { FileFormats } from '../../core/ports/exports.ts';

/** The formats of exported files. */
export const fileFormats: FileFormats = async (name) => {
  if (name === 'csv') return (await import('./text-formats.ts')).csv;
  // The Parquet writer is loaded only for the first Parquet export.
  if (name === 'parquet') return (await import('./parquet.ts')).parquet;
  return (await import('./text-formats.ts')).jsonl;
};
