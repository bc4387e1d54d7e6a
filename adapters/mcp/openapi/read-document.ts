// A separate thread: reads documents, which can take seconds and all of its memory.
import { parentPort } from 'node:worker_threads';
import { type Catalogue, type CatalogueSettings, readCatalogue } from './catalogue.ts';
import { DocumentMistake } from './document.ts';

/** A document and what to read of it. */
export interface ReadOrder {
  readonly bytes: Uint8Array;
  readonly settings: CatalogueSettings;
}

/** The thread's answer. */
export type ReadDocument = { readonly catalogue: Catalogue } | { readonly mistake: string };

function answer({ bytes, settings }: ReadOrder): ReadDocument {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { catalogue: readCatalogue(text, settings) };
  } catch (error) {
    if (error instanceof DocumentMistake) return { mistake: error.message };
    if (error instanceof RangeError) return { mistake: 'it is nested too deeply' };
    if (error instanceof TypeError && 'code' in error && error.code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      return { mistake: 'it is not written in UTF-8; convert it' };
    throw error;
  }
}

parentPort?.once('message', (order: ReadOrder) => parentPort?.postMessage(answer(order)));
