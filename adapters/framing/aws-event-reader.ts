import { AwsEventStreamParser, type AwsEventStreamMessage } from './aws-event-stream.ts';
import type { PayloadReader, StreamPayload } from './payload-reader.ts';

/**
 * Reads AWS event streams. An exception carries its JSON as data; an error message, which has no payload, carries
 * `{"message": <:error-message>}`. A message that is of no known type breaks the stream.
 */
export class AwsEventReader implements PayloadReader {
  readonly #parser: AwsEventStreamParser;
  #broken = false;

  /** `maxMessageBytes` bounds one message; default 16 MiB. */
  constructor(maxMessageBytes?: number) {
    this.#parser = new AwsEventStreamParser(maxMessageBytes);
  }

  push(chunk: Uint8Array): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    if (this.#broken) return payloads;
    for (const item of this.#parser.push(chunk)) {
      const payload = item.kind === 'message' ? payloadOf(item) : brokenBy(item.reason);
      payloads.push(payload);
      if (payload.error === undefined) continue;
      this.#broken = true;
      break;
    }
    return payloads;
  }

  finish(): readonly StreamPayload[] {
    const fault = this.#broken ? undefined : this.#parser.finish();
    return fault === undefined ? [] : [brokenBy(fault.reason)];
  }
}

function payloadOf({ headers, payload }: AwsEventStreamMessage): StreamPayload {
  const messageType = headers[':message-type'] ?? (headers[':event-type'] === undefined ? '' : 'event');
  const data = payload.toString('utf8');
  switch (messageType) {
    case 'event':
      return { event: headers[':event-type'] ?? '', data, messageType };
    case 'exception':
      return { event: headers[':exception-type'] ?? '', data, messageType };
    case 'error': {
      const said = data === '' ? JSON.stringify({ message: headers[':error-message'] ?? '' }) : data;
      return { event: headers[':error-code'] ?? '', data: said, messageType };
    }
    default:
      return brokenBy(`AWS event stream: a message has the unknown type "${messageType}"`);
  }
}

function brokenBy(reason: string): StreamPayload {
  return { event: '', data: '', error: reason };
}
