import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseObject, type JsonObject } from '../../adapters/dialects/json-reading.ts';
import type { SeenRequest } from '../kit/fake-providers/fake-wire.ts';
import type { Received } from '../kit/http-kit.ts';
import { framesOf, type Frame } from '../../main/testing/heard.ts';
import type { Normaliser } from './normalise.ts';

const folder = fileURLToPath(new URL('./transcripts/', import.meta.url));
const shownRequestHeaders = ['content-type', 'accept', 'anthropic-version', 'anthropic-beta'];
const shownAnswerHeaders = ['content-type', 'retry-after', 'x-service-dropped'];

/** The text of a golden file: what the provider received, and what the client got. */
export function transcript(
  seen: SeenRequest | undefined,
  received: Received,
  stable: Normaliser,
  cut: boolean,
): string {
  const request = seen && {
    line: `${seen.method} ${seen.url}`,
    headers: chosen(seen.headers, shownRequestHeaders),
    body: stable.value(seen.body),
  };
  const head = { request, status: received.status, headers: chosen(received.headers, shownAnswerHeaders) };
  const isStream = received.headers['content-type']?.startsWith('text/event-stream') === true;
  const answer = isStream
    ? { frames: framesOf(received.body).map((frame) => shownFrame(frame, stable)), ...(cut ? { cut } : {}) }
    : { answer: stable.value(parseObject(received.text) ?? received.text) };
  return `${JSON.stringify({ ...head, ...answer }, null, 2)}\n`;
}

/** One line per frame keeps the files readable. */
function shownFrame({ event, data }: Frame, stable: Normaliser): string {
  const value = parseObject(data);
  const text = value === undefined ? data : JSON.stringify(stable.value(value));
  return event === '' ? text : `${event} ${text}`;
}

function chosen(headers: Readonly<Record<string, unknown>>, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  );
}

/** The golden file's text; undefined when there is none. */
export async function readTranscript(pair: string, name: string): Promise<string | undefined> {
  return readFile(path.join(folder, pair, `${name}.json`), 'utf8').catch(() => undefined);
}

/** Writes the golden file. */
export async function writeTranscript(pair: string, name: string, text: string): Promise<void> {
  await mkdir(path.join(folder, pair), { recursive: true });
  await writeFile(path.join(folder, pair, `${name}.json`), text);
}

/** Every golden file that there is, as `pair/name`, sorted. */
export async function transcriptNames(): Promise<readonly string[]> {
  const files = await readdir(folder, { recursive: true });
  return files.flatMap((file) => (file.endsWith('.json') ? [file.slice(0, -'.json'.length)] : [])).sort();
}
