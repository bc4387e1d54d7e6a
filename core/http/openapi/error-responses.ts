import { Type, type TSchema } from 'typebox';
import { errorTable } from '../../errors/codes.ts';
import { orNull } from './component.ts';
import { componentReference } from './embed-schema.ts';
import type { DocumentObject, ErrorShape } from './operation.ts';

const Words = orNull(Type.String());

const schemas = {
  AdminError: Type.Object({
    success: Type.Literal(false),
    data: Type.Object({
      message: Type.String({ description: 'What is wrong, and what to do.' }),
      errorCode: Type.String({ pattern: '^AB0[1-9]$' }),
    }),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          path: Type.String({ description: 'JSON pointer to what is wrong.' }),
          message: Type.String(),
        }),
        { description: 'Every mistake in what was sent.' },
      ),
    ),
  }),
  OpenAiError: Type.Object({
    error: Type.Object({
      message: Type.String({ description: 'What is wrong, and what to do.' }),
      type: Type.String(),
      param: Type.Optional(orNull(Type.String(), 'The member, parameter or header at fault.')),
      code: Type.Optional(orNull(Type.String(), 'A code of the gateway, or what the provider reported.')),
    }),
    provider: Type.Optional(Type.String({ description: 'Who reported it, when not the gateway.' })),
  }),
  AnthropicError: Type.Object({
    type: Type.Literal('error'),
    error: Type.Object({ type: Type.String(), message: Type.String(), code: Type.Optional(Words) }),
    request_id: Type.Optional(Words),
  }),
  GeminiError: Type.Object({
    error: Type.Object({
      code: Type.Integer(),
      message: Type.String(),
      status: Type.Optional(Type.String()),
      details: Type.Optional(Type.Array(Type.Record(Type.String(), Type.Unknown()))),
    }),
  }),
} satisfies Record<string, TSchema>;

/** The bodies of errors, by the names of the components. */
export const errorSchemas: Readonly<Record<string, TSchema>> = schemas;

const componentOf: Readonly<Record<ErrorShape, keyof typeof schemas>> = {
  admin: 'AdminError',
  openai: 'OpenAiError',
  anthropic: 'AnthropicError',
  gemini: 'GeminiError',
};

interface CodedError {
  readonly code: string;
  readonly status: number;
  readonly type: string;
  readonly admin: string;
}

/** What only a request to a provider can end with. */
const ofProviders =
  /^(provider_|upstream_|credentials_|custom_host_|hooks_failed|config_|invalid_config|request_timeout)/;

/** Every code that a client of this shape may see. One that left sees none. */
function codesOf(shape: ErrorShape): readonly CodedError[] {
  const all = Object.entries(errorTable).map(([code, row]) => ({ code, ...row }));
  return all.filter(({ code, status }) => status !== 499 && (shape !== 'admin' || !ofProviders.test(code)));
}

function statusesOf(shape: ErrorShape): readonly number[] {
  return [...new Set(codesOf(shape).map(({ status }) => status))].sort((one, other) => one - other);
}

function exampleOf(shape: ErrorShape, { code, status, type, admin }: CodedError): DocumentObject {
  const message = 'What is wrong, and what to do.';
  if (shape === 'admin') return { success: false, data: { message, errorCode: admin } };
  if (shape === 'anthropic') return { type: 'error', error: { type, message } };
  if (shape === 'gemini') return { error: { code: status, message } };
  return { error: { message, type, param: null, code } };
}

const responseName = (shape: ErrorShape, status: number): string => `${componentOf[shape]}.${status}`;

/** Every error as a response of the document, by component name: `OpenAiError.429`. */
export function errorResponses(): Readonly<Record<string, DocumentObject>> {
  const responses: Record<string, DocumentObject> = {};
  for (const shape of ['admin', 'openai', 'anthropic', 'gemini'] as const) {
    for (const status of statusesOf(shape)) {
      const codes = codesOf(shape).filter((one) => one.status === status);
      responses[responseName(shape, status)] = {
        description: codes.map(({ code }) => `\`${code}\``).join(', '),
        content: {
          'application/json': {
            schema: { $ref: componentReference(componentOf[shape]) },
            examples: Object.fromEntries(codes.map((one) => [one.code, { value: exampleOf(shape, one) }])),
          },
        },
      };
    }
  }
  responses[headersTooLarge] = {
    description: 'The headers are larger than 64 KiB. The connection ends with it.',
    content: {
      'application/json': {
        schema: { $ref: componentReference('OpenAiError') },
        examples: {
          invalid_request: {
            value: exampleOf('openai', {
              ...{ code: 'invalid_request', status: 431, type: 'invalid_request_error', admin: '' },
            }),
          },
        },
      },
    },
  };
  return responses;
}

const headersTooLarge = 'HeadersTooLarge';

/** What every request can be answered before it is known what it asks. */
export const refusedUnread: Readonly<Record<string, DocumentObject>> = {
  431: { $ref: `#/components/responses/${headersTooLarge}` },
};

/** References to the errors of one shape, by status. */
export function errorReferences(shape: ErrorShape): Readonly<Record<string, DocumentObject>> {
  const entries = statusesOf(shape).map((status) => [
    String(status),
    { $ref: `#/components/responses/${responseName(shape, status)}` },
  ]);
  return Object.fromEntries(entries) as Record<string, DocumentObject>;
}
