import { dialects } from '../../adapters/dialects/index.ts';
import type { Dialect } from '../../core/dialects/dialect.ts';
import { ChangedBody } from '../../core/pipeline/request-body.ts';
import type { AttemptContext, AttemptView } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import { HeaderNames } from '../../core/base/header-names.ts';
import { relevantHeaders } from '../../core/routing/forward-headers.ts';
import type { CacheSettings } from '../../core/ports/cache.ts';
import { TestContext, type TestRequest } from './plugin-kit.ts';

const names = new HeaderNames(['x-service-', 'x-portkey-']);

/** What a test says about an attempt; the defaults are a chat with one provider. */
export interface TestAttempt extends TestRequest {
  readonly target?: string;
  readonly terms?: string;
  readonly facts?: Partial<RequestFacts>;
  /** What the config says about caching. */
  readonly cache?: CacheSettings;
}

/** An attempt that a test can abandon. */
export interface TestAttemptContext extends AttemptContext {
  abandon(): void;
}

/** A request as an `attempt` hook sees it: body read and checked, target known. */
export async function attemptContext({
  target,
  terms = 'strict report',
  facts,
  cache,
  ...request
}: TestAttempt = {}): Promise<TestAttemptContext> {
  const context = new TestContext({ body: { model: 'm', messages: [] }, ...request });
  await context.body.load();
  const { json } = context;
  const stream = typeof json === 'object' && json !== null && !Array.isArray(json) && json['stream'] === true;
  Object.assign(context.facts, { organisationId: 'org-1', workspaceId: 'ws-1', stream, ...facts });
  const abandoned: (() => void)[] = [];
  const attempt: AttemptView = {
    cache,
    guardrails: undefined,
    onAbandon: (run) => void abandoned.push(run),
    number: 1,
    provider: 'up',
    aiService: 'up',
    model: 'm',
    target: target ?? 'target-1',
    terms,
    deployment: '',
    clientHeaders: relevantHeaders(context.headers, names.ofList(context.headers), []),
    translates: () => false,
    isStrict: true,
    body: new ChangedBody(context.body),
  };
  const dialect = dialects.get(context.endpoint.dialect) as Dialect;
  const abandon = (): void => abandoned.splice(0).forEach((run) => run());
  return Object.assign(context, { attempt, dialect, abandon });
}
