import { GatewayError } from '../errors/gateway-error.ts';
import type { StreamSource } from './answer.ts';
import { clientLeft } from './client-left.ts';
import type { Exchange } from './exchange.ts';

/** The whole of a stream. Rejects with its failure, with `upstream_too_large`, or when the client leaves meanwhile. */
export function collectSource(exchange: Exchange, source: StreamSource, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (error: GatewayError): false => {
      source.cancel(error);
      reject(error);
      return false;
    };
    source.pipe({
      data(chunk) {
        size += chunk.length;
        if (size > maxBytes) return stop(tooLarge(maxBytes));
        chunks.push(chunk);
        return true;
      },
      end: () => resolve(Buffer.concat(chunks)),
      fail: reject,
    });
    exchange.onAbort(() => stop(exchange.failure ?? clientLeft()));
  });
}

function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'upstream_too_large',
    `The answer is larger than ${maxBytes} bytes, too large for the plugins that have to read it.`,
    { source: 'provider' },
  );
}
