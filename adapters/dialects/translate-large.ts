// A separate thread: decodes, translates and encodes chat requests whose size would delay all others.
import { parentPort } from 'node:worker_threads';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';
import { parseJson } from '../../core/base/json.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type { EncodedChat, LargeChat } from '../../core/ports/large-translation.ts';
import { dialects, providerDialects } from './index.ts';
import type { JsonObject } from './json-reading.ts';

/** Data of a refusal that passes from thread to thread. */
interface ToldRefusal {
  readonly code: GatewayError['code'];
  readonly message: string;
  readonly param: string | null;
}

/** The thread's answer to a `LargeChat`. */
export type Translated =
  { readonly done: EncodedChat } | { readonly refused: ToldRefusal } | { readonly failed: string };

/** The request in its target's wire. Throws the refusals of the codecs. */
function encodeChat({ body, call, target, headers }: LargeChat): EncodedChat {
  const client = dialects.get(call.spoken)?.chat;
  const plan = providerDialects.get(target)?.plan(call);
  if (client === undefined || plan?.kind !== 'chat')
    throw new Error(`${call.spoken} is not translated to ${target}.`);
  const request = client.decodeRequest({
    // The gateway has already parsed it as an object.
    body: parseJson(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')) as JsonObject,
    model: call.host.model,
    stream: call.stream,
    query: call.query,
    header: (name) => headerValue(headers, name),
  });
  const report = new EncodeReport();
  const encoded = plan.codec.encodeRequest(request, call.host, report);
  const { dropped, emulated } = report;
  // Some wires repeat the instructions in their answers.
  const said = request.messages.slice(0, 1).filter(({ role }) => role === 'system');
  return { encoded, request: { ...request, messages: said }, dropped, emulated };
}

function answer(chat: LargeChat): void {
  try {
    const done = encodeChat(chat);
    const bytes = Buffer.from(done.encoded.body);
    // Transferred, not copied. A short one is in a shared memory pool.
    const moved = bytes.buffer.byteLength === bytes.length ? [bytes.buffer] : [];
    const told: Translated = { done: { ...done, encoded: { ...done.encoded, body: bytes } } };
    parentPort?.postMessage(told, moved);
  } catch (error) {
    const told: Translated = GatewayError.is(error)
      ? { refused: { code: error.code, message: error.message, param: error.param } }
      : { failed: messageOf(error) };
    parentPort?.postMessage(told);
  }
}

parentPort?.on('message', answer);
