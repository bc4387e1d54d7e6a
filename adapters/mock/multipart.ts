import { MockProblem } from './problem.ts';

const maxParts = 64;
const maxHeadBytes = 8192;

/** One part of a multipart body. */
export interface MultipartPart {
  readonly name: string;
  /** Undefined for a plain field. */
  readonly filename: string | undefined;
  /** Shares memory with the body. */
  readonly content: Buffer;
}

/** Reads a `multipart/form-data` body. Throws a 400 for another type, a missing boundary or a torn body. */
export function parseMultipart(contentType: string, body: Buffer): MultipartPart[] {
  const boundary = /^multipart\/form-data\s*;.*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(
    contentType,
  );
  if (boundary === null) throw broken('expected multipart/form-data with a boundary');
  const delimiter = Buffer.from(`--${boundary[1] ?? boundary[2]}`);
  let at = body.indexOf(delimiter);
  if (at !== 0 && body.subarray(Math.max(0, at - 2), Math.max(0, at)).toString() !== '\r\n') {
    throw broken('the body does not begin with its boundary');
  }
  const next = Buffer.concat([Buffer.from('\r\n'), delimiter]);
  const parts: MultipartPart[] = [];
  for (;;) {
    at += delimiter.length;
    const after = body.subarray(at, at + 2).toString('latin1');
    if (after === '--') return parts;
    if (after !== '\r\n' || parts.length === maxParts) throw broken('a part is torn, or there are too many');
    const end = body.indexOf(next, at);
    if (end < 0) throw broken('the last boundary is missing');
    parts.push(readPart(body.subarray(at + 2, end)));
    at = end + 2;
  }
}

function readPart(part: Buffer): MultipartPart {
  const headEnd = part.indexOf('\r\n\r\n');
  if (headEnd < 0 || headEnd > maxHeadBytes) throw broken('a part has no end of its headers');
  const head = part.subarray(0, headEnd).toString('utf8');
  const disposition = /^content-disposition:.*$/im.exec(head)?.[0] ?? '';
  const name = /[;\s]name="([^"]*)"/i.exec(disposition)?.[1];
  if (name === undefined) throw broken('a part has no name');
  const filename = /[;\s]filename="([^"]*)"/i.exec(disposition)?.[1];
  return { name, filename, content: part.subarray(headEnd + 4) };
}

function broken(reason: string): MockProblem {
  return new MockProblem(400, `Could not read the multipart body: ${reason}.`, { code: 'invalid_multipart' });
}
