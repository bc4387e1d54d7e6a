import type { FileFormats } from '../../core/ports/exports.ts';

/** The formats of exported files. */
export const fileFormats: FileFormats = async (name) => {
  if (name === 'csv') return (await import('./csv.ts')).csv;
  // Who exports no Parquet loads no writer of it.
  if (name === 'parquet') return (await import('./parquet.ts')).parquet;
  return (await import('./jsonl.ts')).jsonl;
};
