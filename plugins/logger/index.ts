import {
  defineKey,
  definePlugin,
  providerCall,
  Type,
  type MaybePromise,
  type Outcome,
  type RequestContext,
} from '../../core/pipeline/plugin.ts';
import { ShownHeaders } from '../../core/redaction/shown-headers.ts';
import { keepsBodies, logRedaction } from '../../core/pipeline/keys.ts';
import { compileRedaction, redactionFaults } from '../../core/redaction/redaction.ts';
import { redactionRules } from '../../core/redaction/redaction-options.ts';
import {
  callBodies,
  type CallBodies,
  callText,
  isEmbeddable,
  keepBody,
  type KeptBody,
  loggedBodies,
  redactedBody,
  requestLine,
} from './request-row.ts';
import { CommonMembers, type CommonText, createdAt } from './members.ts';

/** Upper bound of logged bytes of one body; the pipeline keeps as much of an answer. */
const maxKeptBytes = 262_144;

/** True for a request without room in the journal: it did nothing, and its row would need that room. */
const outside = defineKey<boolean>('logger-outside');

/** Member between two JSON bodies of a row. Copying bytes costs half as much as writing a string. */
const responseMember = Buffer.from(',"response":');
const jsonEnd = ',"log_format":"json"';

/** Writes one row per request to the journal, and its bodies to a table of their own. Never delays the client. */
export default definePlugin({
  name: 'logger',
  description:
    'Logs every request with its tokens, cost and latency, and, for authenticated callers, the bodies (with the masked headers of the request, and the request sent to the provider), without the data named in `redact`. Each of these can switch bodies off: the option `bodies`, the settings of the workspace (`logging`), the key (`log_bodies`), and the request itself with the header `debug: false` under the header prefix.',
  schema: Type.Object(
    {
      bodies: Type.Optional(
        Type.Boolean({
          default: true,
          description: 'Also log the bodies of requests and answers, decoded from gzip, br and deflate.',
        }),
      ),
      max_body_bytes: Type.Optional(
        Type.Integer({
          default: maxKeptBytes,
          minimum: 1024,
          maximum: maxKeptBytes,
          description: 'Largest part of each body to keep; a longer body is cut and marked as truncated.',
        }),
      ),
      redact: Type.Optional(redactionRules('requests, answers, metadata, error messages and paths')),
    },
    { additionalProperties: false },
  ),
  capabilities: { keepsResponseBytes: maxKeptBytes },
  check: ({ redact }) => redactionFaults(redact, '/redact'),
  async create({ bodies = true, max_body_bytes: maxBytes = maxKeptBytes, redact = [] }, scope) {
    const { clock, journal, directory } = scope;
    const redaction = compileRedaction(redact, scope.keyPrefix);
    const commonMembers = new CommonMembers(redaction);
    const isBlocking = journal.room().policy === 'block';

    const shown = new ShownHeaders(scope.keyPrefix, redaction && ((value: string) => redaction.text(value)));

    /** The last members of a body row and its closing brace. */
    function rowEnd(context: RequestContext, bodies: CallBodies): string {
      const serviceNames = context.serviceNames();
      const sensitive = context.service('sensitive-headers');
      const headers = shown.within(context.headers, { serviceNames, sensitive });
      const call = context.get(providerCall);
      if (call === undefined) return `,"request_headers":"${headers}"}`;
      const told = call.told(shown, { serviceNames, sensitive, clientHeaders: context.headers });
      return `,"request_headers":"${headers}","provider_call":"${callText(told, bodies)}"}`;
    }

    async function redactedCall({ sent, answered }: CallBodies): Promise<CallBodies> {
      // Redaction paths name places in the client's wire; they do not apply to a body in another wire.
      const isSearchable = redaction?.hasPaths === false;
      return {
        sent:
          sent === 'own' ? 'own' : isSearchable && sent && (await redactedBody(sent, '', redaction, clock)),
        answered: isSearchable && answered && (await redactedBody(answered, '', redaction, clock)),
      };
    }

    function appendBodies(
      context: RequestContext,
      common: CommonText,
      [request, response, call]: readonly [KeptBody, KeptBody, CallBodies],
      outcome: Outcome,
    ): void {
      const {
        request: sent,
        response: answered,
        ...rest
      } = loggedBodies(request, response, outcome.responseContentType);
      // In pieces: a joined string would copy long texts once more.
      const start = `${rowStart(context, common)},"request":`;
      const end = `,${JSON.stringify(rest).slice(1, -1)}${rowEnd(context, call)}`;
      journal.append(
        'bodies',
        [start, JSON.stringify(sent), ',"response":', JSON.stringify(answered), end],
        context.facts.workspaceId,
      );
    }

    async function appendRedacted(
      context: RequestContext,
      common: CommonText,
      kept: readonly [KeptBody | Promise<KeptBody>, KeptBody | Promise<KeptBody>],
      outcome: Outcome,
    ): Promise<void> {
      const { responseContentType: type } = outcome;
      const request = await redactedBody(await kept[0], '', redaction, clock);
      const response = await redactedBody(await kept[1], type, redaction, clock);
      const call = await redactedCall(callBodies(context, maxBytes));
      appendBodies(context, common, [request, response, call], outcome);
    }

    return {
      keepsCall: (context) => bodies && keepsBodies(directory, context, { error: undefined }),
      ...(isBlocking && {
        admit(context: RequestContext): MaybePromise<void> {
          const room = journal.admit();
          if (room === undefined) return;
          context.set(outside, true);
          return room.then(() => context.set(outside, false));
        },
      }),
      settled(context, outcome): MaybePromise<void> {
        if (redaction !== undefined) context.set(logRedaction, redaction);
        if (isBlocking && context.get(outside) === true) return;
        const { facts } = context;
        const common = commonMembers.of(context, outcome);
        const line = requestLine(context, outcome, common.members, clock.monotonic(), redaction);
        journal.append('requests', line, facts.workspaceId);
        const { requestBody, responseBody } = outcome;
        if (!bodies || !(requestBody?.length || responseBody?.length)) return;
        if (!keepsBodies(directory, context, outcome)) return;
        if (
          redaction === undefined &&
          outcome.requestIsJson &&
          outcome.responseIsJson &&
          requestBody &&
          responseBody
        ) {
          if (isEmbeddable(requestBody, maxBytes) && isEmbeddable(responseBody, maxBytes)) {
            const start = `${rowStart(context, common)},"request":`;
            const row = [
              start,
              requestBody,
              responseMember,
              responseBody,
              jsonEnd + rowEnd(context, callBodies(context, maxBytes)),
            ];
            return journal.append('bodies', row, facts.workspaceId);
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
        if (redaction !== undefined) return appendRedacted(context, common, [request, response], outcome);
        const call = callBodies(context, maxBytes);
        if (!('then' in request) && !('then' in response))
          return appendBodies(context, common, [request, response, call], outcome);
        return Promise.all([request, response]).then(([sent, answered]) =>
          appendBodies(context, common, [sent, answered, call], outcome),
        );
      },
    };
  },
});

/** Start of every body row, without the closing brace. */
function rowStart({ id, startedAt }: RequestContext, { place }: CommonText): string {
  return `{"id":"${id}","created_at":"${createdAt(startedAt)}"${place}`;
}
