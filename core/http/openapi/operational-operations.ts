import { Type } from 'typebox';
import type { Operation, OperationBody } from './operation.ts';
import { oneOf, openObject } from './component.ts';

interface Page extends Pick<Operation, 'id' | 'path' | 'summary' | 'access'> {
  readonly answer: string;
  readonly response: OperationBody;
}

const text = { type: 'string' };

const pages: readonly Page[] = [
  {
    ...{ id: 'operations.health', path: '/healthz', access: 'anybody' },
    ...{ summary: 'Whether the process is alive', answer: 'It is.' },
    response: {
      type: 'application/json',
      schema: Type.Object({ status: Type.Literal('ok') }),
      example: { status: 'ok' },
    },
  },
  {
    ...{ id: 'operations.readiness', path: '/readyz', access: 'anybody' },
    ...{
      summary: 'Whether this process can serve requests',
      answer: 'It can; 503 when it cannot, or when it is about to stop. Stores that are away are `degraded`.',
    },
    response: {
      type: 'application/json',
      schema: Type.Object({
        status: oneOf(['ready', 'not ready', 'draining']),
        reasons: Type.Optional(
          Type.Array(Type.String(), { description: 'Why it cannot serve; absent when it can.' }),
        ),
        degraded: Type.Array(Type.String(), {
          description: 'Dependencies that do not work. Requests are served without them, with less.',
        }),
        dependencies: Type.Record(Type.String(), Type.String(), {
          description: '`ok`, or why it does not answer.',
        }),
      }),
      example: { status: 'ready', degraded: [], dependencies: { journal: 'ok' } },
    },
  },
  {
    ...{ id: 'operations.status', path: '/status', access: 'operators' },
    ...{ summary: 'What serves at present', answer: 'The generation that serves.' },
    response: {
      type: 'application/json',
      schema: openObject({ status: oneOf(['serving', 'draining']), generation: Type.String() }),
      example: { status: 'serving', generation: '0f3a91b2c4d5' },
    },
  },
  {
    ...{ id: 'operations.metrics', path: '/metrics', access: 'operators' },
    ...{ summary: 'Figures for Prometheus', answer: 'The figures.' },
    response: { type: 'text/plain', schema: text, example: 'weir_requests_total 1\n' },
  },
  {
    ...{ id: 'operations.openapi', path: '/openapi.json', access: 'operators' },
    ...{ summary: 'This document', answer: 'OpenAPI 3.1.' },
    response: {
      type: 'application/json',
      schema: openObject({ openapi: Type.String() }),
      example: { openapi: '3.1.1' },
    },
  },
  {
    ...{ id: 'operations.docs', path: '/docs', access: 'operators' },
    ...{ summary: 'This document to be read', answer: 'A page.' },
    response: { type: 'text/html', schema: text, example: '<!doctype html>' },
  },
];

/** The pages for operators, which are served without the base path. */
export const operationalOperations: readonly Operation[] = pages.map(({ response, ...page }) => ({
  ...page,
  ...{ method: 'GET', tag: 'Operations', unprefixed: true, errors: 'none', response: [response] },
}));
