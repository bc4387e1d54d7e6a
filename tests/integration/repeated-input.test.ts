// A refusal repeats at most 200 characters of what it refuses, wherever that stands in a request.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import prompts from '../../plugins/prompts/index.ts';
import requestParameters from '../../plugins/request-parameters/index.ts';
import { definePlugin, defineRoute, Type } from '../../core/pipeline/plugin.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { send, type Received, type Sending } from '../kit/http-kit.ts';
import { secret } from '../kit/realtime-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';

const bound = 200;
const numbers = Array.from({ length: 700 }, (_, at) => String(at));
/** Long texts of which every part is found at one place only. */
const texts = {
  'one word': numbers.map((at) => `a${at}`).join(''),
  'many words': numbers.map((at) => `a${at}`).join(' '),
  'quotes and slashes': numbers.map((at) => `a${at}"\\`).join(''),
  'signs between words': numbers.map((at) => `a${at},`).join(' "'),
} as const;

/** The longest part of `text` that is somewhere in `said`. */
function longestPart(said: string, text: string): number {
  let longest = 0;
  for (let at = 0; at + longest < said.length; at++)
    while (at + longest < said.length && text.includes(said.slice(at, at + longest + 1))) longest++;
  return longest;
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    yield name;
    yield* textsIn(inner);
  }
}

const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const post = { path: '/v1/chat/completions', method: 'POST' };
const config = (value: object): Sending => ({
  ...post,
  body: chat,
  headers: { 'x-service-config': JSON.stringify(value) },
});
const named = (headers: Record<string, string>): Sending => ({ ...post, body: chat, headers });
const sent = (body: object | string): Sending => ({ ...post, body });

type Place = (text: string) => Sending;
const places: Readonly<Record<string, Place>> = {
  'a provider': (text) => named({ 'x-service-provider': text }),
  'a slug': (text) => named({ 'x-service-provider': `@${text}` }),
  'a virtual key': (text) => named({ 'x-service-virtual-key': text }),
  'a config': (text) => named({ 'x-service-config': text }),
  'a config that is no JSON': (text) => named({ 'x-service-config': `{${text}` }),
  'a custom host': (text) => named({ 'x-service-provider': 'openai', 'x-service-custom-host': text }),
  'a custom host of the right form': (text) =>
    named({ 'x-service-provider': 'openai', 'x-service-custom-host': `https://${text}.internal/v1` }),
  'a flag': (text) => named({ 'x-service-debug': text }),
  'metadata that are none': (text) => named({ 'x-service-metadata': text }),
  'a value of metadata': (text) => named({ 'x-service-metadata': JSON.stringify({ a: text }) }),
  'a name of metadata': (text) => named({ 'x-service-metadata': JSON.stringify({ [text]: 1 }) }),
  'a trace': (text) => named({ 'x-service-trace-id': text }),
  'a timeout': (text) => named({ 'x-service-request-timeout': text }),
  'a key': (text) => named({ 'x-service-api-key': text }),
  'a token': (text) => named({ authorization: `Bearer ${text}`, 'x-service-api-key': '' }),
  'an encoding': (text) => ({ ...named({ 'content-encoding': text }), body: JSON.stringify(chat) }),
  'a member of a config': (text) => config({ [text]: 1 }),
  'a provider of a config': (text) => config({ provider: text }),
  'a mode of a config': (text) => config({ strategy: { mode: text }, targets: [{ provider: 'mock' }] }),
  'a status of a config': (text) =>
    config({ provider: 'mock', retry: { attempts: 1, on_status_codes: [text] } }),
  'a member of a target': (text) => config({ strategy: { mode: 'single' }, targets: [{ [text]: 1 }] }),
  'a condition': (text) =>
    config({
      strategy: { mode: 'conditional', conditions: [{ query: { [text]: { $eq: 1 } }, then: text }] },
      targets: [{ name: 'a', provider: 'mock' }],
    }),
  'an operator': (text) =>
    config({
      strategy: { mode: 'conditional', conditions: [{ query: { 'metadata.a': { [text]: 1 } }, then: 'a' }] },
      targets: [{ name: 'a', provider: 'mock' }],
    }),
  'a pattern': (text) =>
    config({
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'metadata.a': { $regex: `(${text}` } }, then: 'a' }],
      },
      targets: [{ name: 'a', provider: 'mock' }],
    }),
  'a path to drop': (text) => config({ provider: 'mock', drop_params: [`[${text}`] }),
  'a model': (text) => sent({ ...chat, model: `@nobody/${text}` }),
  'a slug of a model': (text) => sent({ ...chat, model: `@${text}/m` }),
  'a role': (text) => sent({ ...chat, messages: [{ role: text, content: 'x' }] }),
  'a member that is refused': (text) => sent({ ...chat, temperature: text }),
  'a choice': (text) => sent({ ...chat, tool_choice: text }),
  'a type of a tool': (text) => sent({ ...chat, tools: [{ type: text }] }),
  'a parameter that a rule blocks': (text) => sent({ ...chat, blocked: text }),
  'a value that a rule blocks': (text) => sent({ ...chat, user: text }),
  'a member twice': (text) => sent(`{"model":"m",${JSON.stringify(text)}:1,${JSON.stringify(text)}:2}`),
  'a member in another case': (text) => sent({ ...chat, [text]: 1, [text.toUpperCase()]: 2 }),
  'what is no JSON': (text) => sent(`{"model": ${text}`),
  'a prompt': (text) => ({
    path: `/v1/prompts/${encodeURIComponent(text)}/completions`,
    method: 'POST',
    body: {},
  }),
  'a query of a route': (text) => ({ path: `/v1/things?wrong=${encodeURIComponent(text)}`, method: 'GET' }),
  'a name in a query of a route': (text) => ({
    path: `/v1/things?${encodeURIComponent(text)}=1`,
    method: 'GET',
  }),
  'a value in a body of a route': (text) => ({ path: '/v1/things', method: 'POST', body: { kind: text } }),
  'a member in a body of a route': (text) => ({ path: '/v1/things', method: 'POST', body: { [text]: 1 } }),
};

const routes = definePlugin({
  name: 'test-routes',
  capabilities: { needs: ['key'], routes: true },
  create: () => ({
    routes: (['GET', 'POST'] as const).map((method) =>
      defineRoute({
        id: `things.${method}`,
        method,
        path: '/things',
        summary: 'Things.',
        scope: 'logs.view',
        audit: null,
        query: Type.Object({ wrong: Type.Optional(Type.Integer()) }, { additionalProperties: false }),
        ...(method === 'POST' && {
          body: Type.Object(
            { kind: Type.Union([Type.Literal('a'), Type.Literal('b')]) },
            { additionalProperties: false },
          ),
        }),
        reply: Type.Object({}),
        handle: () => ({}),
      }),
    ),
  }),
});

describe('a refusal', () => {
  for (const [kind, text] of Object.entries(texts))
    test(`repeats little of what it refuses: ${kind}`, async (t) => {
      const rules = { params: { blockedKeys: ['blocked'], values: { user: { allowedValues: ['me'] } } } };
      const gateway = await startTestGateway(t, {
        pipelines: [
          { name: 'routes', match: { routes: 'contributed' }, plugins: [auth, routes] },
          {
            name: 'gateway',
            match: { path: '/**' },
            plugins: [
              ...[auth, prompts, { plugin: requestParameters, options: rules }],
              providerPlugin({ default: 'mock' }),
            ],
          },
        ],
        keys: { [secret]: testKey({ scopes: ['completions.write', 'logs.view'] }) },
      });
      const wrong: string[] = [];
      for (const [place, sending] of Object.entries(places)) {
        const asked = sending(text);
        const headers = { 'x-service-api-key': secret, ...asked.headers };
        const answer: Received = await send(gateway.url, { ...asked, headers });
        if (answer.status < 400) wrong.push(`${place} is not refused: ${answer.status}`);
        const said = [...textsIn(answer.json()), ...answer.rawHeaders];
        const repeated = Math.max(...said.map((one) => longestPart(one, text)));
        if (repeated > bound)
          wrong.push(`${place} is repeated with ${repeated} characters: ${answer.text.slice(0, 300)}`);
        if (answer.text.length > 10_000) wrong.push(`${place} makes an answer of ${answer.text.length}`);
      }
      assert.deepEqual(wrong, []);
    });
});
