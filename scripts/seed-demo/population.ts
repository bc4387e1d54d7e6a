import { createHash } from 'node:crypto';
import { chanceOf, urnOf } from './chance.ts';

/** Organisation and workspace of the rows. */
export interface Home {
  readonly organisationId: string;
  /** The existing workspace; it gets the largest share. */
  readonly workspaceId: string;
}

/** Callers and models, as lists for the generator. */
export interface Population {
  readonly organisation: string;
  /** By key: its id, workspace, user and environment. */
  readonly keys: readonly string[];
  readonly keyWorkspaces: readonly string[];
  readonly keyTeams: readonly string[];
  readonly keyEnvironments: readonly string[];
  /** Indexes of keys, repeated in proportion to their use. */
  readonly keyUrn: readonly number[];
  /** Ten per key. */
  readonly users: readonly string[];
  readonly userNames: readonly string[];
  readonly services: readonly string[];
  readonly hosts: readonly string[];
  readonly models: readonly string[];
  /**
   * By model: index of its service; prices in 10⁻¹² US dollars per token; milliseconds until the first token, and per
   * token.
   */
  readonly modelServices: readonly number[];
  readonly inputPrices: readonly number[];
  readonly outputPrices: readonly number[];
  readonly firstTokenMs: readonly number[];
  readonly tokenMs: readonly number[];
  readonly modelUrn: readonly number[];
}

const workspaceCount = 12;
const keyCount = 60;
const usersPerKey = 10;

const urnSize = 1000;
const teams = ['search', 'support', 'research', 'billing', 'mobile', 'platform', 'sales', 'data'] as const;
const environments = ['production', 'production', 'production', 'staging', 'development'] as const;
const given = [
  'ada',
  'alan',
  'barbara',
  'claude',
  'dennis',
  'edsger',
  'emmy',
  'fei',
  'grace',
  'hedy',
  'ida',
  'ivan',
];
const given2 = [
  'jean',
  'john',
  'katherine',
  'ken',
  'leslie',
  'lin',
  'margaret',
  'niklaus',
  'radia',
  'tony',
  'yukihiro',
  'zuse',
  'maryam',
];
const family = [
  'abbott',
  'becker',
  'costa',
  'dubois',
  'eriksen',
  'ferrari',
  'garcia',
  'haddad',
  'ito',
  'jensen',
  'kumar',
  'li',
];
const family2 = [
  'moreau',
  'nowak',
  'okafor',
  'petrov',
  'quinn',
  'rossi',
  'silva',
  'tanaka',
  'usman',
  'vogel',
  'weber',
  'yilmaz',
];

/**
 * US dollars per million tokens in and out, ms until the first token and for each further one, share of the requests.
 */
const catalogue: Readonly<
  Record<string, readonly (readonly [string, number, number, number, number, number])[]>
> = {
  openai: [
    ['gpt-4o', 2.5, 10, 420, 14, 14],
    ['gpt-4o-mini', 0.15, 0.6, 330, 10, 20],
    ['gpt-4.1', 2, 8, 450, 14, 7],
    ['gpt-4.1-mini', 0.4, 1.6, 340, 10, 8],
    ['o4-mini', 1.1, 4.4, 2600, 9, 3],
    ['text-embedding-3-small', 0.02, 0, 90, 0, 9],
    ['text-embedding-3-large', 0.13, 0, 130, 0, 2],
  ],
  anthropic: [
    ['claude-sonnet-4-5', 3, 15, 610, 15, 9],
    ['claude-haiku-4-5', 1, 5, 380, 8, 6],
    ['claude-opus-4-1', 15, 75, 1100, 24, 1],
  ],
  google: [
    ['gemini-2.5-pro', 1.25, 10, 1400, 9, 3],
    ['gemini-2.5-flash', 0.3, 2.5, 380, 5, 6],
    ['gemini-2.5-flash-lite', 0.1, 0.4, 250, 4, 3],
  ],
  'azure-openai': [
    ['gpt-4o', 2.5, 10, 480, 16, 4],
    ['gpt-4o-mini', 0.15, 0.6, 360, 11, 4],
  ],
  bedrock: [
    ['anthropic.claude-sonnet-4-5-v1', 3, 15, 700, 17, 2],
    ['amazon.nova-pro-v1', 0.8, 3.2, 420, 11, 1],
    ['amazon.nova-lite-v1', 0.06, 0.24, 300, 7, 1],
  ],
  'mistral-ai': [
    ['mistral-large-latest', 2, 6, 440, 13, 1.5],
    ['mistral-small-latest', 0.1, 0.3, 260, 7, 2],
    ['codestral-latest', 0.3, 0.9, 250, 6, 1.5],
  ],
  groq: [
    ['llama-3.3-70b-versatile', 0.59, 0.79, 180, 3, 2],
    ['llama-3.1-8b-instant', 0.05, 0.08, 110, 1.3, 2],
  ],
  deepseek: [
    ['deepseek-chat', 0.27, 1.1, 900, 18, 1.5],
    ['deepseek-reasoner', 0.55, 2.19, 5200, 19, 0.5],
  ],
};
/** 10⁻¹² dollars per token for one dollar per million tokens. */
const perMillion = 1_000_000;

/** Twelve workspaces of different size, their keys and users, and models in use; equal for equal seed and home. */
export function populate({ organisationId, workspaceId }: Home, seed: number): Population {
  const chance = chanceOf(seed ^ 0x5eed);
  const id = (name: string, number: number): string => uuidOf(`${organisationId} ${seed} ${name} ${number}`);
  const workspaces = [
    workspaceId,
    ...Array.from({ length: workspaceCount - 1 }, (_, number) => id('workspace', number)),
  ];
  const keyNumbers = Array.from({ length: keyCount }, (_, number) => number);
  // Each workspace has the same number of keys, but a third of the traffic of the whole goes to the first one.
  const weights = keyNumbers.map((key) => (0.5 + chance()) / (1 + (key % workspaceCount)));
  const names = [...given, ...given2].flatMap((first) =>
    [...family, ...family2].map((last) => `${first}.${last}`),
  );
  const rows = Object.entries(catalogue).flatMap(([service, models]) =>
    models.map((model) => ({ service: Object.keys(catalogue).indexOf(service), model })),
  );
  return {
    organisation: organisationId,
    keys: keyNumbers.map((key) => id('key', key)),
    keyWorkspaces: keyNumbers.map((key) => workspaces[key % workspaceCount] as string),
    keyTeams: keyNumbers.map((key) => teams[(key * 5) % teams.length] as string),
    keyEnvironments: keyNumbers.map(() => environments[Math.floor(chance() * environments.length)] as string),
    keyUrn: urnOf(weights, urnSize),
    users: Array.from({ length: keyCount * usersPerKey }, (_, user) => id('user', user)),
    userNames: names.slice(0, keyCount * usersPerKey),
    services: Object.keys(catalogue),
    hosts: Object.keys(catalogue).map((service) => `api.${service}.example.com`),
    models: rows.map(({ model }) => model[0]),
    modelServices: rows.map(({ service }) => service),
    inputPrices: rows.map(({ model }) => Math.round(model[1] * perMillion)),
    outputPrices: rows.map(({ model }) => Math.round(model[2] * perMillion)),
    firstTokenMs: rows.map(({ model }) => model[3]),
    tokenMs: rows.map(({ model }) => model[4]),
    modelUrn: urnOf(
      rows.map(({ model }) => model[5]),
      urnSize,
    ),
  };
}

/** A constant UUID per name. */
function uuidOf(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
