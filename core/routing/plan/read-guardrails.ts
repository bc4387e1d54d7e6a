import { type Static, Type } from 'typebox';
import { quoted } from '../../base/did-you-mean.ts';
import type { JsonObject } from '../../base/json.ts';
import { compileSchema } from '../../config/ajv.ts';
import {
  Actions,
  actionsOf,
  Check,
  checkIssues,
  checksOf,
  type GuardrailParameters,
} from '../../organisation/guardrails.ts';
import type { CheckPhase, Checks } from '../../pipeline/plugin.ts';
import { type GuardrailSpec, guardrailSpec } from '../../ports/guardrails.ts';
import type { GuardrailRecord, ConfigPlace } from './read-config.ts';

/** Reports an issue with its place below the list. */
type Refuse = (place: ConfigPlace, message: string) => void;

/** Look-up of guardrails by slug, and of checks by id. */
interface GuardrailNames {
  /** Undefined where no guardrail can run; every guardrail is then refused. */
  readonly checks: Checks | undefined;
  /** The stored guardrail of this name, or the message that it does not exist. */
  find(name: string): GuardrailRecord | string;
}

/** Members of an inline guardrail beside its checks. */
const Controls = {
  id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  name: Type.Optional(Type.String({ maxLength: 255 })),
  type: Type.Optional(Type.Union([Type.Literal('guardrail'), Type.Literal('mutator')])),
  guardrail_version_id: Type.Optional(Type.String({ maxLength: 255 })),
  ...Actions.properties,
};
const WrittenOut = Type.Object(
  { ...Controls, checks: Type.Array(Check, { minItems: 1, maxItems: 50 }) },
  { additionalProperties: false },
);
const controlNames: ReadonlySet<string> = new Set(Object.keys(Controls));
const maxMistakes = 20;

/** Compiles a list of guardrails; reports each issue with its place. */
export function readGuardrails(
  list: readonly (string | JsonObject)[],
  {
    phase,
    type,
    place,
  }: { readonly phase: CheckPhase; readonly type: GuardrailSpec['type']; readonly place: string },
  names: GuardrailNames,
  refuse: Refuse,
): readonly GuardrailSpec[] {
  return list.flatMap((written, index): readonly GuardrailSpec[] => {
    const refuseHere: Refuse = (at, message) => refuse([index, ...at], message);
    if (names.checks === undefined) {
      refuseHere([], 'guardrails cannot run here, and a guardrail that would not run is never accepted');
      return [];
    }
    const spec =
      typeof written === 'string'
        ? ofRecord(written, names, refuseHere)
        : parseInlineGuardrail(written, { type, id: `${place}[${index}]` }, names.checks, refuseHere);
    if (spec === undefined || reportUnsupportedPhase(spec, phase, names.checks, refuseHere)) return [];
    return [spec];
  });
}

function ofRecord(name: string, names: GuardrailNames, refuse: Refuse): GuardrailSpec | undefined {
  const record = names.find(name);
  if (typeof record !== 'string') return specOfRecord(record);
  refuse([], record);
  return undefined;
}

/** Compiled guardrails by record. Records are immutable: a new version is a new object. */
const specs = new WeakMap<GuardrailRecord, GuardrailSpec>();

/** Compiles a stored guardrail. */
function specOfRecord(record: GuardrailRecord): GuardrailSpec {
  let spec = specs.get(record);
  if (spec === undefined) {
    const { checks, actions } = record.data;
    const { id: recordId, slug: id, version, secrets } = record;
    const own = { id, version: String(version), type: 'guardrail' as const, checks };
    specs.set(record, (spec = guardrailSpec({ ...own, sealed: { recordId, secrets } }, actions)));
  }
  return spec;
}

function parseInlineGuardrail(
  written: JsonObject,
  own: Pick<GuardrailSpec, 'type' | 'id'>,
  checks: Checks,
  refuse: Refuse,
): GuardrailSpec | undefined {
  const whole = longhand(written);
  const mistakes = compileSchema(WrittenOut, { all: true, most: maxMistakes })(whole);
  for (const { path, message } of mistakes) refuse(placeOf(path, written), message);
  if (mistakes.length > 0) return undefined;
  const { id = own.id, type = own.type, checks: given, ...actions } = whole as WrittenGuardrail;
  const faults = checkIssues(given, checks);
  for (const { path, message } of faults) refuse(placeOf(path, written), message);
  if (faults.length > 0) return undefined;
  const compiled = checksOf(given, (parameters) => parameters as GuardrailParameters);
  const { deny, async, sequential, stream, on_success, on_fail } = actions;
  const said = actionsOf({
    ...(deny !== undefined && { deny }),
    ...(async !== undefined && { async }),
    ...(sequential !== undefined && { sequential }),
    ...(stream !== undefined && { stream }),
    ...(on_success !== undefined && { on_success }),
    ...(on_fail !== undefined && { on_fail }),
  });
  return guardrailSpec(
    { id, version: undefined, type, checks: compiled, sealed: undefined },
    {
      ...said,
      // Without this setting it records no feedback.
      on_success: on_success === undefined ? null : said.on_success,
      on_fail: on_fail === undefined ? null : said.on_fail,
    },
  );
}

type WrittenGuardrail = Static<typeof WrittenOut>;

/** Converts shorthand, `{ "default.contains": { … }, "deny": true }`, to the form with a list of checks. */
function longhand(written: JsonObject): unknown {
  if (Object.hasOwn(written, 'checks')) return written;
  const checks: unknown[] = [];
  const controls: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(written)) {
    if (controlNames.has(key)) controls[key] = value;
    else checks.push(shorthandCheck(key, value));
  }
  return { ...controls, checks };
}

/** Splits shorthand parameters from the members that control how the check runs. */
function shorthandCheck(key: string, value: unknown): unknown {
  const id = key.includes('.') ? key : `default.${key}`;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { id, parameters: value };
  const { on_error, timeout_ms, is_enabled, ...parameters } = value as Readonly<Record<string, unknown>>;
  return {
    id,
    parameters,
    ...(on_error !== undefined && { on_error }),
    ...(timeout_ms !== undefined && { timeout_ms }),
    ...(is_enabled !== undefined && { is_enabled }),
  };
}

/** The place in the original form: shorthand has no list of checks. */
function placeOf(pointer: string, written: JsonObject): ConfigPlace {
  const steps = pointer
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  if (Object.hasOwn(written, 'checks')) return steps;
  const [list, index, ...rest] = steps;
  if (list !== 'checks' || typeof index !== 'number') return steps;
  const key = Object.keys(written).filter((name) => !controlNames.has(name))[index];
  const [member, ...below] = rest;
  if (key === undefined) return [];
  return [key, ...(member === 'parameters' ? below : member === 'id' ? [] : rest)];
}

/** Whether one of the checks does not support the phase or the stream mode; reports it. */
function reportUnsupportedPhase(
  spec: GuardrailSpec,
  phase: CheckPhase,
  checks: Checks,
  refuse: Refuse,
): boolean {
  let found = false;
  for (const { id, isEnabled, parameters } of spec.checks) {
    const definition = checks.definition(id);
    if (!isEnabled) continue;
    // A stored guardrail may be older than this configuration; its unknown check then fails at run time.
    if (definition === undefined) continue;
    if (!definition.phases.includes(phase)) {
      const other =
        phase === 'input'
          ? 'answers: put it into "output_guardrails"'
          : 'requests: put it into "input_guardrails"';
      refuse([], `the check ${quoted(id)} judges only ${other}`);
      found = true;
    } else if (phase === 'output' && spec.stream === 'window') {
      const reach = definition.reach?.(parameters) ?? Infinity;
      if (Number.isFinite(reach) && definition.changes !== true) continue;
      refuse(
        [],
        `"stream": "window" cannot be kept with the check ${quoted(id)}, whose findings have no greatest length; use "hold"`,
      );
      found = true;
    }
  }
  return found;
}
