import {
  definePlugin,
  Type,
  type MaybePromise,
  type Outcome,
  type RequestContext,
} from '../../core/pipeline/plugin.ts';
import { isEmbeddable, loggedBodies } from './body-row.ts';
import { createdAt } from './created-at.ts';
import { keepBody, type KeptBody } from './kept-body.ts';
import { quote } from './quote.ts';
import { requestLine } from './request-row.ts';

/** The most of one body that can be logged; what the pipeline keeps of an answer. */
const maxKeptBytes = 262_144;

/** Writes one row per request to the journal, and its bodies to a table of their own. Never delays the client. */
export default definePlugin({
  name: 'logger',
  description:
    'Logs every request with its tokens, cost and latency, and the bodies of those that a known caller sent. A request with the header `debug: false` under the header prefix is logged without bodies.',
  schema: Type.Object(
    {
      bodies: Type.Optional(
        Type.Boolean({
          default: true,
          description: 'Log what was sent and answered too, decoded from gzip, br and deflate.',
        }),
      ),
      max_body_bytes: Type.Optional(
        Type.Integer({
          default: maxKeptBytes,
          minimum: 1024,
          maximum: maxKeptBytes,
          description: 'The most that is kept of each body; a longer one is cut and marked as truncated.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: { keepsResponseBytes: maxKeptBytes },
  create({ bodies = true, max_body_bytes: maxBytes = maxKeptBytes }, { clock, journal }) {
    function appendBodies(
      context: RequestContext,
      request: KeptBody,
      response: KeptBody,
      outcome: Outcome,
    ): void {
      const {
        request: sent,
        response: answered,
        ...rest
      } = loggedBodies(request, response, outcome.responseContentType);
      // In pieces: joining a long text to the others would copy it once more.
      const start = `${rowStart(context)},"request":`;
      const end = `,${JSON.stringify(rest).slice(1)}`;
      journal.append('bodies', [start, JSON.stringify(sent), ',"response":', JSON.stringify(answered), end]);
    }

    return {
      settled(context, outcome): MaybePromise<void> {
        journal.append('requests', requestLine(context, outcome, clock.monotonic()));
        if (!bodies || !wantsBodies(context, outcome)) return;
        const { requestBody, responseBody } = outcome;
        if (outcome.requestIsJson && outcome.responseIsJson && requestBody && responseBody) {
          if (isEmbeddable(requestBody, maxBytes) && isEmbeddable(responseBody, maxBytes)) {
            const start = `${rowStart(context)},"request":`;
            const end = ',"log_format":"json"}';
            return journal.append('bodies', [start, requestBody, ',"response":', responseBody, end]);
          }
        }
        const request = keepBody(requestBody, {
          encoding: '',
          truncated: false,
          maxBytes,
        });
        const response = keepBody(responseBody, {
          encoding: outcome.responseContentEncoding,
          truncated: outcome.responseTruncated,
          maxBytes,
        });
        if (!('then' in request) && !('then' in response))
          return appendBodies(context, request, response, outcome);
        return Promise.all([request, response]).then(([sent, answered]) =>
          appendBodies(context, sent, answered, outcome),
        );
      },
    };
  },
});

/** What every body row begins with, still open. */
function rowStart({ id, startedAt, facts }: RequestContext): string {
  return (
    `{"id":"${id}","created_at":"${createdAt(startedAt)}"` +
    `,"organisation_id":${quote(facts.organisationId)},"workspace_id":${quote(facts.workspaceId)}`
  );
}

/** Nothing is kept of a stranger's request, of one that asked not to be remembered, or of one without bodies. */
function wantsBodies(context: RequestContext, { error, requestBody, responseBody }: Outcome): boolean {
  if (!requestBody?.length && !responseBody?.length) return false;
  return error?.type !== 'authentication_error' && context.service('debug')?.toLowerCase() !== 'false';
}
