import { GatewayError } from '../errors/gateway-error.ts';
import { createDecoder, type Coding } from '../connection/content-encoding.ts';
import type { StreamSource, StreamTarget } from './answer.ts';

/** The same stream, decompressed as it comes. */
export function decodedSource(source: StreamSource, coding: Coding): StreamSource {
  const decoder = createDecoder(coding);
  let target: StreamTarget | undefined;
  let over = false;

  const stop = (error: GatewayError): void => {
    if (over) return;
    over = true;
    decoder.destroy();
    target?.fail(error);
  };

  return {
    pipe(next) {
      target = next;
      decoder.on('data', (chunk: Buffer) => {
        if (!next.data(chunk)) decoder.pause();
      });
      decoder.on('end', () => {
        if (over) return;
        over = true;
        next.end();
      });
      decoder.on('error', (cause) => {
        const error = new GatewayError(
          'upstream_invalid',
          `The provider's answer is no valid ${coding} data.`,
          { cause, source: 'provider' },
        );
        source.cancel(error);
        stop(error);
      });
      decoder.on('drain', () => source.resume());
      source.pipe({
        data: (chunk) => decoder.write(chunk),
        end: () => void decoder.end(),
        fail: stop,
      });
    },
    resume() {
      decoder.resume();
    },
    cancel(error) {
      over = true;
      decoder.destroy();
      source.cancel(error);
    },
  };
}
