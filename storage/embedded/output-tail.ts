import type { Readable } from 'node:stream';

const maxCharacters = 4096;

/** Keeps the last few kilobytes of a stream of text, for the message that explains why a process ended. */
export class OutputTail {
  text = '';

  constructor(stream: Readable | null) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      this.text = (this.text + chunk).slice(-maxCharacters);
    });
  }
}
