import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { BodyEdits } from '../../../core/dialects/upstream-plan.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { wordFor } from './encode-request.ts';
import { outputLimitName } from './model-kind.ts';

type Edit = (body: BodyEdits, report?: EncodeReport) => void;

/**
 * What a passed-through chat request must say otherwise for this host: the row's renames, omissions, roles and words, and
 * `max_completion_tokens` for models that refuse `max_tokens`. Each is made only where the member is there. Undefined
 * when the host wants everything as it is.
 */
export function chatEdits(host: HostFacts): Edit | undefined {
  const { rename, drop, roles, values } = host.quirks;
  const limit = outputLimitName(host);
  const plain = rename === undefined && drop === undefined && roles === undefined && values === undefined;
  if (plain && limit === 'max_tokens') return undefined;
  return (body, report) => {
    const request = asObject(body.json);
    if (request === undefined) return;
    const given = Object.keys(request);
    if (roles !== undefined) editRoles(body, request, roles);
    for (const name of given) {
      if (drop?.includes(name) === true) {
        body.remove([name]);
        report?.drop(name);
      } else editMember(body, name, request[name], host, limit);
    }
  };
}

function editMember(body: BodyEdits, name: string, value: unknown, host: HostFacts, limit: string): void {
  const { values } = host.quirks;
  const word = wordFor(values?.[name], value);
  const wanted = nameFor(name, host, limit);
  if (wanted === name) {
    if (word !== value) body.set([name], word);
    return;
  }
  if (asObject(body.json)?.[wanted] === undefined) body.set([wanted], word);
  body.remove([name]);
}

function nameFor(name: string, { quirks }: HostFacts, limit: string): string {
  if (name === 'max_tokens') return limit;
  return quirks.rename?.[name] ?? name;
}

function editRoles(body: BodyEdits, request: JsonObject, roles: Readonly<Record<string, string>>): void {
  asArray(request.messages).forEach((message, i) => {
    const role = asObject(message)?.role;
    const wanted = wordFor(roles, role);
    if (typeof wanted === 'string' && wanted !== role) body.set(['messages', i, 'role'], wanted);
  });
}
