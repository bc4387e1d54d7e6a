import { featureVariables, type Feature } from '../../access/features.ts';

/** Facts of the start message. */
interface WelcomeFacts {
  readonly url: string;
  readonly config: string;
  /** This start has written it. */
  readonly isNewConfig: boolean;
  readonly data: string;
  readonly analytics: string;
  readonly basePath: string;
  readonly headerPrefix: string;
  /** Set only when it has just been generated. */
  readonly newOwnerKey: string | undefined;
  /** Features that are switched off. */
  readonly off: readonly Feature[];
  /** Names of configured plugins that do not run because guardrails are off. */
  readonly leftOut: readonly string[];
  /** A pipeline serves the console. */
  readonly hasConsole: boolean;
}

/** Loss from switching off each feature, for the line at start; `docs/features.md` describes it in full. */
const withoutFeature: Readonly<Record<Feature, string>> = {
  guardrails: 'guardrails do not run',
  api_access: 'the administration API refuses every request',
  data_exports: 'nothing is exported',
  usage_limits: 'usage limits are stored and not enforced',
  audit_logs: 'nothing is audited, and the audit trail is not shown',
  scim: 'SCIM is refused',
  policies: 'policies are refused',
};

/** The lines printed at start: where it listens, where its data is, how to send the first request. */
export function welcome(facts: WelcomeFacts): string {
  const base = facts.url + (facts.basePath === '/' ? '' : facts.basePath);
  const key = facts.newOwnerKey ?? '<your key>';
  const keyLines =
    facts.newOwnerKey === undefined
      ? []
      : [
          '',
          `  Owner key   ${facts.newOwnerKey}`,
          '              Shown only this once; only its hash is stored. Keep it safe.',
        ];
  return [
    '',
    `  Weir listens on ${facts.url}`,
    '',
    `  Config      ${facts.config} (${facts.isNewConfig ? 'new; ' : ''}edit it while Weir runs)`,
    `  Data        ${facts.data}`,
    `  Logs        ${facts.analytics}`,
    ...(facts.hasConsole ? [`  Console     ${facts.url}/console (sign in with the owner key)`] : []),
    ...facts.off.map((feature) => `  Off         ${offLine(feature, facts.leftOut)}`),
    ...keyLines,
    '',
    '  First request, answered by the built-in mock provider:',
    '',
    `    curl -s ${base}/chat/completions \\`,
    `      -H '${facts.headerPrefix}-api-key: ${key}' \\`,
    `      -H '${facts.headerPrefix}-provider: mock' \\`,
    `      -H 'content-type: application/json' \\`,
    `      -d '{"model":"mock-gpt","messages":[{"role":"user","content":"Hello"}]}'`,
    '',
    '  Its record: the answer carries its id in the header ' + `${facts.headerPrefix}-request-id:`,
    '',
    `    curl -s ${base}/logs/<request id> -H '${facts.headerPrefix}-api-key: ${key}'`,
    '',
  ].join('\n');
}

function offLine(feature: Feature, leftOut: readonly string[]): string {
  const names = feature === 'guardrails' && leftOut.length > 0 ? ` (${leftOut.join(', ')})` : '';
  return `${featureVariables[feature]}=OFF: ${withoutFeature[feature]}${names}`;
}
