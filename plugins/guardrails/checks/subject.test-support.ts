/** A subject for tests of checks, and the result of a check on it. */
import assert from 'node:assert/strict';
import { compileSchema } from '../../../core/config/ajv.ts';
import type {
  AnyCheck,
  CheckResult,
  CheckSubject,
  JsonPath,
  JsonValue,
  Scope,
  SubjectText,
} from '../../../core/pipeline/plugin.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { builtInChecks } from './index.ts';

type Given = Partial<
  Omit<CheckSubject, 'texts' | 'header' | 'setTexts' | 'set' | 'replaceAll' | 'request'>
> & {
  /** The request of an answer. */
  readonly request?: Partial<CheckSubject['request']>;
  readonly texts?: readonly (string | Partial<SubjectText>)[];
  readonly headers?: Readonly<Record<string, string>>;
};

/** A subject that keeps its changes. */
interface TestSubject extends CheckSubject {
  texts: readonly SubjectText[];
  readonly values: [JsonPath, JsonValue][];
}

/** One text stands for a request with a single message; override the members that the test is about. */
export function subject(given: string | Given): TestSubject {
  const {
    texts: listed,
    headers = {},
    request,
    ...rest
  } = typeof given === 'string' ? { text: given } : given;
  const texts = (listed ?? (rest.text === undefined || rest.text === '' ? [] : [rest.text])).map(
    (one, index): SubjectText => ({
      role: 'user',
      type: 'text',
      text: '',
      path: ['messages', index, 'content'],
      choice: 0,
      ...(typeof one === 'string' ? { text: one } : one),
    }),
  );
  const built: TestSubject = {
    id: 'request-1',
    phase: 'input',
    endpoint: 'chat.completions',
    provider: 'openai',
    service: 'openai',
    model: 'gpt-4o',
    text: texts.at(-1)?.text ?? '',
    json: { model: 'gpt-4o' },
    metadata: {},
    caller: undefined,
    traceId: 'trace-1',
    spanId: 'span-1',
    get request() {
      return request === undefined ? built : { texts: [], text: '', json: undefined, ...request };
    },
    signal: new AbortController().signal,
    ...rest,
    texts,
    values: [],
    header: (name) => headers[name],
    setTexts: (change) => {
      built.texts = built.texts.map((one) => ({ ...one, text: change(one) }));
    },
    set: (path, value) => void built.values.push([path, value]),
    replaceAll: (all) =>
      void built.values.push(...all.map(({ path, value }) => [path, value] as [JsonPath, JsonValue])),
    once: (_, make) => make(),
    hold: () => undefined,
  };
  return built;
}

/** The check of the gateway with this id. */
export function builtIn(id: string): AnyCheck {
  const found = builtInChecks.find((check) => check.id === id);
  assert.ok(found, `there is no check ${id}`);
  return found;
}

/** Faults of the parameters of a check, as one text; empty when they are right. */
export function faults(check: AnyCheck, parameters: unknown): string {
  const issues = compileSchema(check.schema, { all: true })(parameters);
  const all = issues.length > 0 ? issues : (check.check?.(parameters) ?? []);
  return all.map(({ path, message }) => `${path} ${message}`).join('; ');
}

/** Result of the check, with parameters that must be right. */
export async function judge(
  check: AnyCheck,
  parameters: unknown,
  judged: CheckSubject | string,
  scope: Scope = testScope().scope,
): Promise<CheckResult> {
  assert.equal(faults(check, parameters), '');
  return check.create(parameters, scope)(typeof judged === 'string' ? subject(judged) : judged);
}

/** Its verdict alone. */
export async function verdict(...asked: Parameters<typeof judge>): Promise<CheckResult['verdict']> {
  return (await judge(...asked)).verdict;
}
