/** Acuvity: a parameter for each of its detectors. */
import type { TProperties } from 'typebox';
import { parseJson } from '../../../core/base/json.ts';
import { Type } from '../../../core/pipeline/plugin.ts';
import { Threshold } from '../checks/shared.ts';
import { type Finding, secret, type ServiceRow, text } from './service.ts';
import { type Values, valueAt } from './template.ts';

const names = (description: string, usual?: readonly string[]) =>
  Type.Optional(
    Type.Array(Type.String({ maxLength: 100 }), {
      maxItems: 500,
      description,
      ...(usual !== undefined && { default: [...usual] }),
    }),
  );
const toggle = (description: string, usual = true) =>
  Type.Optional(Type.Boolean({ default: usual, description }));

/** Parameters of Acuvity that switch its detectors, with their names in its answers. */
const acuvityGuards = [
  ['prompt_injection', 'exploits', 'prompt_injection'],
  ['jail_break', 'exploits', 'jailbreak'],
  ['malicious_url', 'exploits', 'malicious_url'],
  ['toxic', 'malcontents', 'toxic'],
  ['biased', 'malcontents', 'biased'],
  ['harmful', 'malcontents', 'harmful'],
] as const;

const acuvityParameters: TProperties = {
  ...Object.fromEntries(
    acuvityGuards.flatMap(([name, , kind]): [string, TProperties[string]][] => [
      [name, toggle(`Look for ${kind}.`)],
      [`${name}_threshold`, Threshold(`From which score on it counts as ${kind}.`, 0.5)],
    ]),
  ),
  language: toggle('Look for a language.', false),
  language_values: text('The language.', { default: 'english' }),
  pii: toggle('Look for personal data.'),
  pii_redact: toggle('Replace personal data, and pass.', false),
  pii_categories: names('Kinds of personal data: `email_address`, `ssn`. Default: none.', []),
  secrets: toggle('Look for secrets.'),
  secrets_redact: toggle('Replace secrets, and pass.', false),
  secrets_categories: names('Kinds of secrets: `github`, `aws_secret_key`. Default: none.', []),
};

/** The tenant's address, which the token contains. */
function acuvityBase({ apiKey }: Values): string | undefined {
  const [, payload = ''] = typeof apiKey === 'string' ? apiKey.split('.') : [];
  const base = valueAt(parseJson(Buffer.from(payload, 'base64url').toString('utf8')), 'opaque.apex-url');
  return typeof base === 'string' && /^https?:\/\/[^\s?#]+$/i.test(base) ? base : undefined;
}

function acuvityRedactions({ parameters }: Values): Values {
  const of = (kind: string): readonly unknown[] => {
    const listed = valueAt(parameters, `${kind}_categories`);
    const isOn = valueAt(parameters, kind) === true && valueAt(parameters, `${kind}_redact`) === true;
    return isOn && Array.isArray(listed) ? listed : [];
  };
  return { redactions: [...of('pii'), ...of('secrets')] };
}

const acuvityFindings: readonly Finding[] = [
  ...acuvityGuards.map(([name, group, kind]) => ({
    at: `extractions.*.${group}.${kind}`,
    atLeast: `{parameters.${name}_threshold}`,
    when: `parameters.${name}`,
    called: kind,
  })),
  {
    at: 'extractions.*.languages.*',
    atLeast: 0.5,
    when: 'parameters.language',
    among: '{parameters.language_values}',
  },
  ...(['pii', 'secrets'] as const).map((kind) => ({
    at: `extractions.*.${kind === 'pii' ? 'PIIs' : 'secrets'}.*`,
    isSet: true as const,
    when: `parameters.${kind}`,
    among: `{parameters.${kind}_categories}`,
    mended: `parameters.${kind}_redact`,
  })),
  {
    at: 'extractions.*.piIs.*',
    isSet: true,
    when: 'parameters.pii',
    among: '{parameters.pii_categories}',
    mended: 'parameters.pii_redact',
  },
];

export const acuvityServices: readonly ServiceRow[] = [
  {
    id: 'acuvity.scan',
    aliases: ['acuvity.Acuvity'],
    description: 'Asks Acuvity for attacks, malicious content, personal data and secrets.',
    phases: ['input', 'output'],
    parameters: acuvityParameters,
    credentials: { apiKey: secret('App token of Acuvity, which holds the address of your tenant.') },
    base: [acuvityBase],
    path: '/_acuvity/scan',
    headers: { authorization: 'Bearer {credentials.apiKey}' },
    derives: acuvityRedactions,
    body: {
      anonymization: 'FixedSize',
      messages: '{texts}',
      redactions: '{derived.redactions}',
      type: { byPhase: { input: 'Input', output: 'Output' } },
    },
    needs: [{ at: 'extractions.*', is: 'object' }],
    fails: acuvityFindings,
    replaces: { kind: 'texts', at: ['extractions.*.data'], when: ['pii_redact', 'secrets_redact'] },
  },
];
