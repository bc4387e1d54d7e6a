import { GatewayError } from '../errors/gateway-error.ts';
import {
  type Answer,
  collectSource,
  isStreamSource,
  type StreamSource,
  type StreamTarget,
} from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { parseJson } from '../base/json.ts';
import type { UpstreamRequest } from '../ports/transport.ts';

/** Upper bound of the description of a batch, which has a few KB. */
const maxBatchBytes = 1_048_576;
const outputPath = /^\/batches\/([\w-]{1,200})\/output\/?$/;
/** Statuses of hosts for paths that they do not have. */
const missingPath: ReadonlySet<number> = new Set([404, 405, 501]);
/** States of an unfinished batch. */
const underWay: ReadonlySet<unknown> = new Set(['validating', 'in_progress', 'finalizing', 'cancelling']);
/** Headers of the client that apply to the whole output, and not to a batch or one of its files. */
const ofTheWhole =
  /^(?:accept|accept-encoding|range|if-(?:range|match|none-match|modified-since|unmodified-since))$/i;
/** Headers of one file that are invalid for the concatenation of two. */
const ofOneFile =
  /^(?:content-(?:length|md5|digest|disposition|range)|etag|last-modified|accept-ranges|digest)$/i;

/** Sends a request to the target of the attempt. */
type AskTarget = (request: UpstreamRequest) => Promise<Answer>;

/** Whether the request asks for the output of a batch. */
export function isBatchOutputRequest({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'batches' && method === 'GET' && outputPath.test(path);
}

/**
 * The output of a batch: the host's own answer at this path, or, where it has no such path, the output file of the batch
 * followed by the file of its errors. Rejects with `resource_conflict` while the batch is in progress, and with
 * `resource_not_found` when it ended without output.
 */
export async function batchOutput(
  exchange: Exchange,
  request: UpstreamRequest,
  ask: AskTarget,
): Promise<Answer> {
  const own = await ask(request);
  if (!missingPath.has(own.status)) return own;
  await wholeBody(exchange, own);
  const id = outputPath.exec(exchange.path)?.[1] ?? '';
  const at = (path: string): UpstreamRequest => ({
    ...request,
    path: request.path.replace(/\/batches\/[^/?]+\/output\/?(?=\?|$)/, () => path),
    headers: [...request.headers.filter(isOfFile), 'accept-encoding', 'identity'],
  });
  const found = await ask(at(`/batches/${id}`));
  if (found.status !== 200) return found;
  const [first, ...rest] = filesOf(id, await wholeBody(exchange, found));
  const open = (file: string): Promise<Answer> => ask(at(`/files/${encodeURIComponent(file)}/content`));
  const output = await open(first);
  const { body } = output;
  const [second] = rest;
  if (output.status !== 200 || second === undefined || !isStreamSource(body)) return output;
  return {
    ...output,
    headers: output.headers.filter((_, i, all) => !ofOneFile.test(all[i - (i % 2)] ?? '')),
    body: new JoinedFiles(body, () => open(second)),
  };
}

/** Whether a name or value of a flat header list goes to the batch and its files. */
function isOfFile(_: string, i: number, all: readonly string[]): boolean {
  return !ofTheWhole.test(all[i - (i % 2)] ?? '');
}

async function wholeBody(exchange: Exchange, { body }: Answer): Promise<Buffer> {
  if (body === null) return Buffer.alloc(0);
  return isStreamSource(body) ? collectSource(exchange, body, maxBatchBytes) : body;
}

/** Ids of the files with the output of the described batch. */
function filesOf(id: string, bytes: Buffer): readonly [string, ...string[]] {
  const batch = describedBatch(bytes);
  const [first, second] = [batch['output_file_id'], batch['error_file_id']].filter(
    (file): file is string => typeof file === 'string' && file !== '' && file.length <= 1000,
  );
  if (first !== undefined) return second === undefined ? [first] : [first, second];
  const { status } = batch;
  if (underWay.has(status))
    throw new GatewayError(
      'resource_conflict',
      `The batch "${id}" has no output yet: it is "${String(status)}". Ask again when GET /batches/${id} says that it is completed.`,
      { param: 'batch_id' },
    );
  const ended = typeof status === 'string' ? `: it is "${status.slice(0, 40)}"` : '';
  throw new GatewayError(
    'resource_not_found',
    `The batch "${id}" has left no output${ended}. GET /batches/${id} says why.`,
    { param: 'batch_id' },
  );
}

function describedBatch(bytes: Buffer): Readonly<Record<string, unknown>> {
  let batch: unknown;
  try {
    batch = parseJson(bytes.toString('utf8'));
  } catch (error) {
    if (!(error instanceof SyntaxError) && !GatewayError.is(error)) throw error;
  }
  if (typeof batch === 'object' && batch !== null && !Array.isArray(batch))
    return batch as Readonly<Record<string, unknown>>;
  throw new GatewayError('provider_error', 'The provider described the batch in another form than JSON.', {
    reported: { status: 502 },
  });
}

/** The lines of one file, then those of another, which is requested at the end of the first. */
class JoinedFiles implements StreamSource {
  private current: StreamSource | undefined;
  private readonly next: () => Promise<Answer>;
  private cancelled: GatewayError | undefined;
  private endsLine = true;

  constructor(first: StreamSource, next: () => Promise<Answer>) {
    this.current = first;
    this.next = next;
  }

  pipe(target: StreamTarget): void {
    this.current?.pipe({
      data: (chunk) => {
        if (chunk.length > 0) this.endsLine = chunk[chunk.length - 1] === 10;
        return target.data(chunk);
      },
      end: () => {
        this.current = undefined;
        this.next().then(
          (answer) => this.goOn(answer, target),
          (error: GatewayError) => {
            if (this.cancelled === undefined) target.fail(error);
          },
        );
      },
      fail: (error) => target.fail(error),
    });
  }

  resume(): void {
    this.current?.resume();
  }

  cancel(error: GatewayError): void {
    this.cancelled = error;
    this.current?.cancel(error);
  }

  private goOn({ status, body }: Answer, target: StreamTarget): void {
    if (this.cancelled !== undefined) {
      if (isStreamSource(body)) body.cancel(this.cancelled);
      return;
    }
    if (status !== 200 || !isStreamSource(body)) {
      if (isStreamSource(body)) body.cancel(incomplete(status));
      target.fail(incomplete(status));
      return;
    }
    if (!this.endsLine) target.data(Buffer.from('\n'));
    this.current = body;
    body.pipe(target);
  }
}

function incomplete(status: number): GatewayError {
  return new GatewayError(
    'provider_error',
    `The provider answered ${status} to the question for the file of the batch's errors.`,
    { reported: { status } },
  );
}
