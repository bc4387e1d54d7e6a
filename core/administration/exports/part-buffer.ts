import { createHash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Blobs, FilePiece } from '../../ports/exports.ts';
import type { ManifestPart } from './manifest.ts';

/** Pieces of a file that are not stored yet. */
export class PartBuffer {
  #pieces: Uint8Array[] = [];
  #notes: string[] = [];
  #bytes = 0;
  #hash = createHash('sha256');

  get bytes(): number {
    return this.#bytes;
  }

  add({ bytes, note }: FilePiece): void {
    if (bytes.length > 0) this.#pieces.push(bytes);
    // Of the whole part at once it would take long.
    this.#hash.update(bytes);
    if (note !== undefined) this.#notes.push(note);
    this.#bytes += bytes.length;
  }

  /**
   * Stores them as one part in the folder, under a name that no other run of the work uses: two of them must not write
   * into one file. Empties the buffer.
   */
  async store(blobs: Blobs, folder: string, index: number): Promise<ManifestPart> {
    const name = `${folder}/part-${index}-${randomUUID()}`;
    const notes = `${name}.notes`;
    const isNoted = this.#notes.length > 0;
    if (isNoted) await blobs.write(notes, Buffer.from(JSON.stringify(this.#notes)));
    await blobs.write(name, Readable.from(this.#pieces));
    const part = { name, bytes: this.#bytes, sha256: this.#hash.digest('hex'), ...(isNoted && { notes }) };
    this.#pieces = [];
    this.#notes = [];
    this.#bytes = 0;
    this.#hash = createHash('sha256');
    return part;
  }
}
