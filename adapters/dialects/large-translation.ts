import type { Worker } from 'node:worker_threads';
import { startThread } from '../../core/base/start-thread.ts';
import { ownTurn } from '../../core/base/turns.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { EncodedChat, LargeChat, LargeTranslation } from '../../core/ports/large-translation.ts';
import type { Translated } from './translate-large.ts';

/** The thread ends after this idle time: it holds some 30 MB. */
const idleMs = 60_000;
/** Bytes that are copied in one turn of the event loop: a millisecond or two. */
const copiedBytes = 4_194_304;

/** A translation thread, started on first use. */
export function createLargeTranslation({ clock }: { readonly clock: Clock }): LargeTranslation {
  return new TranslationThread(clock);
}

class TranslationThread implements LargeTranslation {
  readonly #clock: Clock;
  #worker: Worker | undefined;
  /** Ends when the earlier requests are translated: one at a time bounds the memory of the thread. */
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** Promise of the request in translation. */
  #answered: { resolve(told: Translated): void; reject(error: Error): void } | undefined;
  #closed = false;
  #cancelEnd: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  encode(chat: LargeChat): Promise<EncodedChat> {
    this.#cancelEnd();
    this.#waiting += 1;
    const translated = this.#last.then(() => this.#ask(chat));
    this.#last = translated.catch(() => undefined).then(() => this.#done());
    return translated;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelEnd();
    await this.#end();
  }

  #done(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0 && !this.#closed)
      this.#cancelEnd = this.#clock.after(idleMs, () => void this.#end());
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#answered?.reject(new Error('The thread was ended.'));
    await worker?.terminate();
  }

  async #ask(chat: LargeChat): Promise<EncodedChat> {
    // A copy is transferred: transferred bytes are gone here, and another target may need them.
    const body = await copyInTurns(chat.body);
    if (this.#closed) throw new Error('The gateway is ending.');
    const worker = (this.#worker ??= this.#start());
    const told = await new Promise<Translated>((resolve, reject) => {
      this.#answered = { resolve, reject };
      worker.postMessage({ ...chat, body }, [body.buffer]);
    });
    if ('done' in told) return received(told.done);
    if ('failed' in told) throw new Error(told.failed);
    const { code, message, param } = told.refused;
    throw new GatewayError(code, message, { param });
  }

  #start(): Worker {
    const worker = startThread(new URL('./translate-large.ts', import.meta.url));
    worker.unref();
    worker.on('message', (told: Translated) => this.#answered?.resolve(told));
    const lost = (error: Error): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#answered?.reject(error);
    };
    worker.on('error', lost);
    worker.on('exit', (code) => lost(new Error(`The thread ended with ${code}.`)));
    return worker;
  }
}

/** Copies with a turn of the event loop between two pieces: of 27 MB at once it takes 10 ms and more. */
async function copyInTurns(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length);
  for (let from = 0; from < bytes.length; from += copiedBytes) {
    if (from > 0) await ownTurn();
    copy.set(bytes.subarray(from, from + copiedBytes), from);
  }
  return copy;
}

/** Bytes from another thread are no longer a `Buffer`. */
function received(chat: EncodedChat): EncodedChat {
  const { body } = chat.encoded;
  if (typeof body === 'string') return chat;
  return {
    ...chat,
    encoded: { ...chat.encoded, body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) },
  };
}
