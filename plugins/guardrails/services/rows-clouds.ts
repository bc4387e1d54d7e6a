/** Services of clouds and of providers of models. */
import { Type } from '../../../core/pipeline/plugin.ts';
import { type Finding, Redact, serviceFields, type ServiceRow } from './service.ts';
import type { TProperties } from 'typebox';
import { parseJson } from '../../../core/base/json.ts';
import { Threshold } from '../checks/shared.ts';
import { valueAt, type Values } from './template.ts';

const azureCredentials = {
  resourceName: Type.Optional(serviceFields.setting('Name of the resource: the first part of its host.')),
  azureAuthMode: Type.Optional(
    Type.Union([Type.Literal('apiKey'), Type.Literal('entra'), Type.Literal('managed')], {
      default: 'apiKey',
      description:
        'A key, a client of Microsoft Entra, or the identity of this machine, which only the operator can select.',
    }),
  ),
  apiKey: Type.Optional(serviceFields.secret('Key of the resource.')),
  tenantId: Type.Optional(serviceFields.setting('Tenant of the client.')),
  clientId: Type.Optional(serviceFields.setting('Client, or which managed identity.')),
  clientSecret: Type.Optional(serviceFields.secret('Secret of the client.')),
  customHost: Type.Optional(serviceFields.address('URL that replaces the public host of the resource.')),
};

const azure = {
  credentials: azureCredentials,
  base: ['{credentials.customHost}', 'https://{credentials.resourceName}.cognitiveservices.azure.com'],
  headers: { 'ocp-apim-subscription-key': '{credentials.apiKey}' },
  signs: {
    kind: 'entra',
    when: '{derived.mode}',
    fields: {
      azure_auth_mode: '{derived.mode}',
      azure_entra_tenant_id: '{credentials.tenantId}',
      azure_entra_client_id: '{credentials.clientId}',
      azure_entra_client_secret: '{credentials.clientSecret}',
      azure_managed_client_id: '{credentials.clientId}',
    },
  },
  derives: ({ credentials }) => {
    const { apiKey, azureAuthMode } = Object(credentials) as Readonly<Record<string, unknown>>;
    // A key takes precedence.
    return { mode: apiKey === undefined && azureAuthMode !== 'apiKey' ? azureAuthMode : undefined };
  },
  asks: 'each',
} satisfies Partial<ServiceRow>;

const version = (usual: string) => serviceFields.text('Version of the interface.', { default: usual });
const severities = ['Hate', 'SelfHarm', 'Sexual', 'Violence'] as const;
const mistralCategories = [
  ...([
    'sexual',
    'hate_and_discrimination',
    'violence_and_threats',
    'dangerous_and_criminal_content',
  ] as const),
  ...(['selfharm', 'health', 'financial', 'law', 'pii'] as const),
] as const;

const blocked = (at: string, name: { readonly named: string } | { readonly called: string }) =>
  ({ at: `assessments.*.${at}.*.action`, equals: 'BLOCKED', ...name }) as const;

export const cloudServices: readonly ServiceRow[] = [
  {
    ...azure,
    id: 'azure.contentSafety',
    description:
      'Asks Azure AI Content Safety how severe hate, self-harm, sexual content and violence are, and for hits of block lists.',
    phases: ['input', 'output'],
    credentialsIn: 'contentSafety',
    parameters: {
      categories: Type.Optional(
        Type.Array(Type.Union(severities.map((name) => Type.Literal(name))), {
          minItems: 1,
          uniqueItems: true,
          default: [...severities],
          description: 'Categories to check.',
        }),
      ),
      severity: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 7, default: 2, description: 'Lowest severity that fails.' }),
      ),
      blocklistNames: Type.Optional(
        Type.Array(Type.String({ maxLength: 255 }), {
          maxItems: 100,
          default: [],
          description: 'Block lists of the resource.',
        }),
      ),
      apiVersion: version('2024-11-01'),
    },
    path: '/contentsafety/text:analyze?api-version={parameters.apiVersion}',
    body: {
      text: '{text}',
      categories: '{parameters.categories}',
      blocklistNames: '{parameters.blocklistNames}',
    },
    mostCharacters: 10_000,
    needs: [{ at: 'categoriesAnalysis.*.severity', is: 'number' }],
    fails: [
      { at: 'categoriesAnalysis.*.severity', atLeast: '{parameters.severity}', named: 'category' },
      { at: 'blocklistsMatch', isNotEmpty: true, called: 'blocklist' },
    ],
    tells: [{ at: 'blocklistsMatch.*.blocklistName', isSet: true, named: 'blocklistName' }],
  },
  {
    ...azure,
    id: 'azure.shieldPrompt',
    description:
      'Asks the prompt shields of Azure AI Content Safety for jailbreaks and injected instructions.',
    phases: ['input'],
    credentialsIn: 'contentSafety',
    parameters: { apiVersion: version('2024-09-01') },
    path: '/contentsafety/text:shieldPrompt?api-version={parameters.apiVersion}',
    body: { userPrompt: '{text}' },
    mostCharacters: 10_000,
    needs: [{ at: 'userPromptAnalysis.attackDetected', is: 'boolean' }],
    fails: [
      { at: 'userPromptAnalysis.attackDetected', equals: true, called: 'attack' },
      { at: 'documentsAnalysis.*.attackDetected', equals: true, called: 'attack' },
    ],
  },
  {
    ...azure,
    id: 'azure.protectedMaterial',
    description: 'Asks Azure AI Content Safety whether an answer repeats protected texts.',
    phases: ['output'],
    credentialsIn: 'contentSafety',
    parameters: { apiVersion: version('2024-09-01') },
    path: '/contentsafety/text:detectProtectedMaterial?api-version={parameters.apiVersion}',
    body: { text: '{text}' },
    mostCharacters: 10_000,
    needs: [{ at: 'protectedMaterialAnalysis.detected', is: 'boolean' }],
    fails: [{ at: 'protectedMaterialAnalysis.detected', equals: true, called: 'protected material' }],
  },
  {
    ...azure,
    id: 'azure.pii',
    description: 'Asks Azure AI Language for personal data.',
    phases: ['input', 'output'],
    credentialsIn: 'pii',
    parameters: {
      domain: serviceFields.text('`phi` for health information alone.', { default: 'none' }),
      modelVersion: serviceFields.text('Version of the model.', { default: 'latest' }),
      apiVersion: version('2024-11-01'),
      language: serviceFields.text('Language of the texts.', { default: 'en' }),
      piiCategories: Type.Optional(
        Type.Array(Type.String({ maxLength: 100 }), {
          maxItems: 200,
          description: 'Categories to look for. Default: all.',
        }),
      ),
      redact: Redact,
    },
    path: '/language/:analyze-text?api-version={parameters.apiVersion}',
    body: {
      kind: 'PiiEntityRecognition',
      parameters: {
        domain: '{parameters.domain}',
        modelVersion: '{parameters.modelVersion}',
        piiCategories: '{parameters.piiCategories}',
      },
      analysisInput: { documents: [{ id: '0', language: '{parameters.language}', text: '{text}' }] },
    },
    mostCharacters: 5120,
    needs: [{ at: 'results.documents.0.entities', is: 'list' }],
    fails: [{ at: 'results.documents.0.entities.*.category', isSet: true, named: 'category', mended: true }],
    replaces: { kind: 'text', at: ['results.documents.0.redactedText'] },
  },
  {
    id: 'bedrock.guard',
    description: 'Asks a guardrail of Amazon Bedrock.',
    phases: ['input', 'output'],
    parameters: {
      guardrailId: Type.String({ minLength: 1, maxLength: 2048, description: 'Id or ARN of the guardrail.' }),
      guardrailVersion: Type.String({ minLength: 1, maxLength: 64, description: 'A number, or `DRAFT`.' }),
      redact: Redact,
    },
    credentials: {
      awsRegion: Type.String({
        pattern: '^[a-z0-9-]{1,40}$',
        description: 'Region of the guardrail: `us-east-1`.',
      }),
      awsAuthType: Type.Optional(
        Type.Union([Type.Literal('accessKey'), Type.Literal('assumedRole')], {
          default: 'accessKey',
          description: 'Keys, or a role that they assume.',
        }),
      ),
      awsAccessKeyId: Type.Optional(serviceFields.setting('Id of the key.')),
      awsSecretAccessKey: Type.Optional(serviceFields.secret('The key.')),
      awsSessionToken: Type.Optional(serviceFields.secret('Session token of a temporary key.')),
      awsRoleArn: Type.Optional(serviceFields.setting('Role that is assumed.')),
      awsExternalId: Type.Optional(serviceFields.secret('External id of the role.')),
    },
    base: ['https://bedrock-runtime.{credentials.awsRegion}.amazonaws.com'],
    path: '/guardrail/{parameters.guardrailId}/version/{parameters.guardrailVersion}/apply',
    headers: {},
    signs: {
      kind: 'sigv4',
      when: '{credentials.awsRegion}',
      fields: {
        aws_service: 'bedrock',
        aws_auth_type: '{credentials.awsAuthType}',
        aws_region: '{credentials.awsRegion}',
        aws_access_key_id: '{credentials.awsAccessKeyId}',
        aws_secret_access_key: '{credentials.awsSecretAccessKey}',
        aws_session_token: '{credentials.awsSessionToken}',
        aws_role_arn: '{credentials.awsRoleArn}',
        aws_external_id: '{credentials.awsExternalId}',
      },
    },
    body: {
      source: { byPhase: { input: 'INPUT', output: 'OUTPUT' } },
      content: [{ text: { text: '{text}' } }],
    },
    asks: 'each',
    mostCharacters: 25_000,
    needs: [{ at: 'action', is: 'string', oneOf: ['NONE', 'GUARDRAIL_INTERVENED'] }],
    fails: [
      { at: 'action', equals: 'GUARDRAIL_INTERVENED', called: 'guardrail', mended: true },
      blocked('topicPolicy.topics', { named: 'name' }),
      blocked('contentPolicy.filters', { named: 'type' }),
      blocked('wordPolicy.customWords', { called: 'words' }),
      blocked('wordPolicy.managedWordLists', { named: 'type' }),
      blocked('sensitiveInformationPolicy.piiEntities', { named: 'type' }),
      blocked('sensitiveInformationPolicy.regexes', { named: 'name' }),
      blocked('contextualGroundingPolicy.filters', { named: 'type' }),
    ],
    tells: [
      {
        at: 'assessments.*.sensitiveInformationPolicy.piiEntities.*.action',
        equals: 'ANONYMIZED',
        named: 'type',
      },
      {
        at: 'assessments.*.sensitiveInformationPolicy.regexes.*.action',
        equals: 'ANONYMIZED',
        named: 'name',
      },
    ],
    replaces: { kind: 'text', at: ['outputs.0.text', 'output.0.text'] },
  },
  {
    id: 'mistral.moderateContent',
    description: 'Asks the moderation of Mistral.',
    phases: ['input', 'output'],
    parameters: {
      categories: Type.Array(Type.Union(mistralCategories.map((name) => Type.Literal(name))), {
        minItems: 1,
        uniqueItems: true,
        description: 'Categories that fail the check.',
      }),
      model: serviceFields.text('The model that moderates.', { default: 'mistral-moderation-latest' }),
    },
    credentials: { apiKey: serviceFields.secret('Key of Mistral.') },
    base: ['https://api.mistral.ai'],
    path: '/v1/moderations',
    headers: { authorization: 'Bearer {credentials.apiKey}' },
    body: { model: '{parameters.model}', input: '{texts}' },
    needs: [{ at: 'results.*.categories', is: 'object', with: '{parameters.categories}' }],
    fails: [{ at: 'results.*.categories.*', equals: true, among: '{parameters.categories}' }],
  },
];

// Acuvity: a parameter for each of its detectors.
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
  language_values: serviceFields.text('The language.', { default: 'english' }),
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
    credentials: {
      apiKey: serviceFields.secret('App token of Acuvity, which holds the address of your tenant.'),
    },
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
