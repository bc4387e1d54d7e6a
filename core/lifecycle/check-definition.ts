import { compileSchema } from '../config/ajv.ts';
import { type AnyPlugin, pluginApi } from '../pipeline/plugin.ts';
import { ownPrefix } from './offered-checks.ts';
import { suggestion } from './problem-at.ts';

const streamModes = ['ignore', 'observe', 'window', 'hold'];
const parts = [
  'request.body',
  'request.json',
  'request.text',
  'response.body',
  'response.json',
  'response.text',
];
const contextNames = ['key'];
/** The versions of the contract that plugins may be written for. */
const spokenApis: readonly number[] = [pluginApi];
const members = ['name', 'apiVersion', 'description', 'schema', 'offers', 'capabilities', 'check', 'create'];
const phases = ['input', 'output'];
const hookNames = [
  'admit',
  'request',
  'attempt',
  'attempted',
  'response',
  'stream',
  'keepsCall',
  'settled',
  'retiring',
  'routes',
];

/** Returns the fault of one value, without a final period; undefined when there is none. */
type Check = (value: unknown) => string | undefined;

const listOf =
  (allowed: readonly string[]): Check =>
  (value) => {
    if (!Array.isArray(value)) return 'must be a list';
    const wrong: unknown = value.find((item) => !allowed.includes(item as string));
    return wrong === undefined
      ? undefined
      : `has no part ${show(wrong)}${typeof wrong === 'string' ? suggestion(wrong, allowed) : ''}`;
  };
const atLeastZero: Check = (value) =>
  typeof value === 'number' && value >= 0 ? undefined : 'must be a number of at least 0';

const capabilityChecks: Readonly<Record<string, Check>> = {
  reads: listOf(parts),
  changes: listOf(parts),
  needs: listOf(contextNames),
  provides: listOf(contextNames),
  stream: (value) =>
    streamModes.includes(value as string) ? undefined : `must be one of ${streamModes.join(', ')}`,
  guardrail: (value) => (value === true ? undefined : 'must be true, or left out'),
  routes: (value) => (value === true ? undefined : 'must be true, or left out'),
  answers: (value) => (typeof value === 'boolean' ? undefined : 'must be true or false'),
  keepsResponseBytes: atLeastZero,
  timeoutMs: atLeastZero,
  breaker: breakerFault,
};

const wholeFrom =
  (least: number): Check =>
  (value) =>
    Number.isInteger(value) && (value as number) >= least
      ? undefined
      : `must be a whole number of at least ${least}`;

const breakerChecks: Readonly<Record<string, Check>> = {
  failureThreshold: wholeFrom(1),
  cooldownMs: wholeFrom(1000),
  whenOpen: (value) =>
    value === 'bypass' || value === 'refuse' ? undefined : 'must be "bypass" or "refuse"',
};

function breakerFault(value: unknown): string | undefined {
  if (value === true) return undefined;
  if (!isObject(value)) return 'must be true, or { failureThreshold, cooldownMs, whenOpen }';
  const [unknown] = unknownMembers('it', value, Object.keys(breakerChecks));
  if (unknown !== undefined) return `is wrong: ${unknown}`;
  for (const [name, check] of Object.entries(breakerChecks)) {
    const fault = value[name] === undefined ? undefined : check(value[name]);
    if (fault !== undefined) return `is wrong: its ${name} ${fault}`;
  }
  return undefined;
}

/**
 * Whether something is a plugin definition: returns it typed, or sentences that say what its author must change.
 * For modules that no type checker has seen.
 */
export function checkDefinition(value: unknown): { definition: AnyPlugin } | { faults: string[] } {
  if (!isObject(value)) {
    const found = value === undefined ? 'has no default export' : `exports ${show(value)} as default`;
    return { faults: [`it ${found}; end it with "export default definePlugin({ name, create })"`] };
  }
  // Members of another contract version would count as mistakes here, so no further faults are reported.
  const otherVersion = versionFault(value['apiVersion']);
  if (otherVersion !== undefined) return { faults: [otherVersion] };
  const faults: string[] = [];
  const { name, schema, capabilities } = value;
  if (typeof name !== 'string' || !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    faults.push(`its name must be kebab-case, like "deny-pattern", not ${show(name)}`);
  }
  if (typeof value['create'] !== 'function') {
    faults.push('it has no create function; add "create(options, scope) { return { … hooks … }; }"');
  }
  const { check } = value;
  if (check !== undefined && typeof check !== 'function')
    faults.push(`its check must be a function, not ${show(check)}`);
  if (schema !== undefined && !isObject(schema))
    faults.push('its schema must be made with Type.Object({ … })');
  faults.push(...unknownMembers('the definition', value, members));
  faults.push(...capabilityFaults(capabilities), ...offersFaults(value['offers']));
  return faults.length === 0 && isDefinition(value) ? { definition: value } : { faults };
}

/** Why a plugin of this version of the contract cannot run here; undefined when it can. */
function versionFault(version: unknown): string | undefined {
  if (version === undefined) return undefined;
  if (typeof version !== 'number' || !Number.isInteger(version))
    return `its apiVersion must be a whole number, ${pluginApi} for this gateway, not ${show(version)}`;
  if (spokenApis.includes(version)) return undefined;
  const wanted = version > pluginApi ? 'gateway' : 'version of the plugin';
  const spoken = spokenApis.join(' and ');
  return `it is written for version ${version} of the plugin contract, and this gateway speaks version ${spoken}; install a newer ${wanted}, or write the plugin for that contract and say "apiVersion: ${pluginApi}"`;
}

function isDefinition(value: object): value is AnyPlugin {
  return 'name' in value && 'create' in value;
}

/** Faults of the hooks that a `create` has returned: sentences that say what its author must change. */
export function checkReturnedHooks(value: unknown): string[] {
  if (!isObject(value)) return [`its create function must return an object of hooks, not ${show(value)}`];
  const faults = isPlain(value) ? unknownMembers('the hooks', value, hookNames) : [];
  for (const hook of hookNames) {
    const found = value[hook];
    if (found === undefined) continue;
    if (hook === 'routes' ? !Array.isArray(found) : typeof found !== 'function') {
      faults.push(
        `its ${hook} hook must be a ${hook === 'routes' ? 'list of routes' : 'function'}, not ${show(found)}`,
      );
    }
  }
  return faults;
}

function capabilityFaults(capabilities: unknown): string[] {
  if (capabilities === undefined) return [];
  if (!isObject(capabilities)) return [`its capabilities must be an object, not ${show(capabilities)}`];
  const known = Object.keys(capabilityChecks);
  const faults = unknownMembers('capabilities', capabilities, known);
  for (const name of known) {
    const value = capabilities[name];
    const fault = value === undefined ? undefined : capabilityChecks[name]?.(value);
    if (fault !== undefined) faults.push(`its capabilities.${name} ${fault}`);
  }
  return faults;
}

/** Faults of the checks that a plugin offers to guardrails. */
function offersFaults(offers: unknown): string[] {
  if (offers === undefined) return [];
  if (!Array.isArray(offers)) return [`its offers must be a list of checks, not ${show(offers)}`];
  return offers.flatMap((check: unknown, index): string[] => {
    if (!isObject(check))
      return [`its offers[${index}] must be made with defineCheck({ … }), not ${show(check)}`];
    const { id, aliases = [] } = check;
    const named = `its check ${typeof id === 'string' ? show(id) : `offers[${index}]`}`;
    const faults = unknownMembers(named, check, Object.keys(checkMembers));
    for (const [name, fault] of Object.entries(checkMembers)) {
      const found = fault(check[name]);
      if (found !== undefined) faults.push(`${named} ${found}`);
    }
    const ids: readonly unknown[] = [id, ...(Array.isArray(aliases) ? (aliases as readonly unknown[]) : [])];
    if (new Set(ids).size < ids.length) faults.push(`${named} has the same id twice`);
    return faults;
  });
}

const idFault: Check = (id) => {
  if (typeof id !== 'string' || id.length > 255 || !/^[a-z][\w-]*(\.[\w-]+)+$/i.test(id))
    return `must have ids like "acme.tone", with a dot, not ${show(id)}`;
  if (!id.startsWith(ownPrefix)) return undefined;
  return `has the id ${show(id)}, and what begins with "${ownPrefix}" comes with the gateway; begin it with a name of your own`;
};
const functionOr =
  (name: string, needed: boolean): Check =>
  (value) =>
    typeof value === 'function' || (!needed && value === undefined)
      ? undefined
      : `must have a function ${name}, not ${show(value)}`;

/** Finds the fault of each member of a check; the words continue a sentence that begins with the member's name. */
const checkMembers: Readonly<Record<string, Check>> = {
  id: idFault,
  aliases: (value) => {
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) return `must have a list of aliases, not ${show(value)}`;
    return value.map(idFault).find((fault) => fault !== undefined);
  },
  description: (value) =>
    typeof value === 'string' && value !== ''
      ? undefined
      : 'needs a description: one sentence for the reference',
  schema: schemaFault,
  phases: (value) =>
    Array.isArray(value) && value.length > 0 && value.every((phase) => phases.includes(phase as string))
      ? undefined
      : 'must have phases: ["input"], ["output"] or both',
  changes: (value) =>
    value === undefined || value === true ? undefined : 'must have changes: true, or leave it out',
  timeoutMs: (value) =>
    value === undefined || (Number.isInteger(value) && Number(value) > 0)
      ? undefined
      : 'must have a timeoutMs of at least 1',
  check: functionOr('check', false),
  reach: functionOr('reach', false),
  create: functionOr('create', true),
};

function schemaFault(schema: unknown): string | undefined {
  if (!isObject(schema) || schema['type'] !== 'object')
    return 'must have a schema of its parameters, made with Type.Object({ … })';
  try {
    compileSchema(schema);
    return undefined;
  } catch (error) {
    return `has a schema that cannot be used: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function unknownMembers(place: string, value: object, known: readonly string[]): string[] {
  return Object.keys(value)
    .filter((name) => !known.includes(name))
    .map(
      (name) =>
        `${place} cannot have a member "${name}"${suggestion(name, known)} (known are ${known.join(', ')})`,
    );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** A module compiled to CommonJS carries its default export one level down. */
export function defaultExport(exports: Readonly<Record<string, unknown>>): unknown {
  const found = exports['default'];
  const isCompiled =
    typeof found === 'object' && found !== null && '__esModule' in found && 'default' in found;
  return isCompiled ? found.default : found;
}
