import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { checkCompose } from './check-compose.ts';
import { checkDeploy, neededFiles } from './check-deploy.ts';
import { checkDockerfile, checkImage } from './check-dockerfile.ts';
import { checkUnit } from './check-unit.ts';
import { isIgnored, readDockerfile } from './dockerfile.ts';
import { readSources } from './read-sources.ts';

const nodeFlags = ['--flag=1'];

/** Of a digest. */
const digits = '0'.repeat(64);

describe('the files of this project', () => {
  test('have no problem', () => assert.deepEqual(checkDeploy(readSources()), []));

  test('the processes that main.ts starts by name are among what the image needs', () => {
    const needed = neededFiles(readSources());
    for (const file of ['storage/embedded/chdb-child.ts', 'core/http/gateway.ts', 'plugins/auth/index.ts']) {
      assert.ok(needed.includes(file), file);
    }
    assert.ok(!needed.some((file) => file.endsWith('.test.ts')));
  });
});

/** A change to a good file, and the problem that has to be found in what comes of it. */
type Broken = [what: string, from: string, to: string, problem: RegExp];

function findsBroken(
  good: string,
  check: (text: string) => readonly string[],
  broken: readonly Broken[],
): void {
  for (const [what, from, to, problem] of broken) {
    test(`found: ${what}`, () => {
      assert.ok(good.includes(from), 'the case must change something');
      const problems = check(good.replace(from, to));
      assert.ok(
        problems.some((text) => problem.test(text)),
        problems.join('\n') || 'nothing was found',
      );
    });
  }
}

describe('Dockerfile', () => {
  const good = [
    `ARG BASE=node:20.1.0-slim@sha256:${digits}`,
    'FROM ${BASE} AS build',
    'COPY package.json ./',
    'RUN a \\',
    '  && b',
    `FROM node:20.1.0-slim@sha256:${digits}`,
    'COPY --from=build /x /x',
    'COPY core ./core',
    'EXPOSE 1',
    'USER 1000:1000',
    'HEALTHCHECK --interval=1s CMD ["node", "h"]',
    'CMD ["node", "--flag=1", "main.ts"]',
  ].join('\n');
  const files = ['package.json', 'core/a.ts', 'core/a.test.ts', 'secret.txt'];
  const ignore = '*\n!package.json\n!core\n**/*.test.ts';
  const check = (dockerfile: string, needed = ['core/a.ts']): string[] =>
    checkDockerfile({ dockerfile, ignore, files, needed, nodeFlags });

  test('a good one has no problem', () => assert.deepEqual(check(good), []));

  const broken: Broken[] = [
    ['an unknown instruction', 'EXPOSE 1', 'EXPOS 1', /:9: Unknown instruction: EXPOS/],
    ['an unknown flag', 'COPY --from=build', 'COPY --form=build', /:7: Unknown flag: form/],
    [
      'a moving tag in an argument',
      `BASE=node:20.1.0-slim@sha256:${digits}`,
      'BASE=node:latest',
      /:2: the tag of node:latest moves/,
    ],
    [
      'no digest',
      `BASE=node:20.1.0-slim@sha256:${digits}`,
      'BASE=node:20.1.0',
      /:2: the image node:20.1.0 has no digest/,
    ],
    ['no tag', `FROM node:20.1.0-slim@sha256:${digits}`, 'FROM node', /:6: the image node has no tag/],
    [
      'a stage that does not exist',
      '--from=build',
      '--from=built',
      /:7: COPY --from=built names no earlier stage/,
    ],
    ['a source that does not exist', 'COPY core', 'COPY cores', /:8: COPY cores: there is no such file/],
    [
      'a source that is ignored',
      'COPY core ./core',
      'COPY core secret.txt ./',
      /COPY secret\.txt: \.dockerignore/,
    ],
    ['a file that is needed', 'COPY core ./core\n', '', /core\/a\.ts is needed at run time/],
    ['root', 'USER 1000:1000', 'USER root', /last USER .* found "root"/],
    ['no user', 'USER 1000:1000\n', '', /last USER/],
    ['user 0', 'USER 1000:1000', 'USER 0', /last USER/],
    ['no health check', /HEALTHCHECK.*\n/.exec(good)?.[0] ?? '', '', /HEALTHCHECK/],
    ['a shell', '["node", "--flag=1", "main.ts"]', 'node --flag=1 main.ts', /CMD must be in exec form/],
    ['a flag of Node that is forgotten', '"--flag=1", ', '', /lacks --flag=1/],
    ['a port that is not named', 'EXPOSE 1\n', '', /EXPOSE/],
  ];
  findsBroken(good, check, broken);

  test('continued lines are one instruction, with the line where it begins', () => {
    const run = readDockerfile(good).find(({ keyword }) => keyword === 'RUN');
    assert.deepEqual([run?.line, run?.rest.replace(/\s+/g, ' ')], [4, 'a && b']);
  });

  for (const [path, expected] of [
    ['package.json', false],
    ['core/a.ts', false],
    ['core/deep/b.test.ts', true],
    ['secret.txt', true],
  ] as const) {
    test(`.dockerignore: ${path} ${expected ? 'stays out' : 'is sent'}`, () =>
      assert.equal(isIgnored(ignore, path), expected));
  }

  for (const image of [
    ...['a:latest', 'a', 'host:5000/a', 'a:bookworm', 'a:latest-slim', ''],
    ...['a:1', 'redis:7.4-bookworm', 'clickhouse/clickhouse-server:25.8', 'postgres:17', 'a@sha256:12'],
    ...['a:1.2.3', 'a:1.2.3@sha256:12', `a@sha256:${digits}`, `a:1@sha256:${digits}`],
  ])
    test(`image "${image}" is refused`, () => assert.equal(checkImage(image).length, 1));
  for (const image of [
    `a:1.2.3@sha256:${digits}`,
    `host:5000/a:1.2.3-slim@sha256:${digits}`,
    `postgres:17.6-bookworm@sha256:${digits}`,
  ])
    test(`image "${image}" is taken`, () => assert.deepEqual(checkImage(image), []));
});

describe('compose', () => {
  const good = `services:
  app:
    build: .
    image: app:1.0.0
    stop_grace_period: 60s
    depends_on: { db: { condition: service_healthy } }
    environment: { DB_PASSWORD: "\${DB_PASSWORD:?set it}" }
    ports: ["127.0.0.1:1:1"]
    volumes: ["./there:/x", "kept:/y"]
  db:
    image: \${DB_IMAGE:-db:1.0.0@sha256:${digits}}
    healthcheck: { test: [CMD, ok] }
volumes: { kept: {} }
`;
  const check = (text: string): string[] =>
    checkCompose({
      text,
      example: 'DB_PASSWORD=\nDB_IMAGE=\n',
      exists: (file) => file === './there',
      stopSeconds: 50,
    });

  test('a good one has no problem', () => assert.deepEqual(check(good), []));

  const broken: Broken[] = [
    ['no YAML', 'services:', 'services: [', /compose\.yaml: /],
    ['no services', 'services:', 'service:', /no services/],
    ['a moving tag', 'db:1.0.0', 'db:latest', /service db: the tag/],
    ['a moving tag of a line', 'db:1.0.0', 'db:1.0', /service db: the tag of db:1\.0 moves/],
    ['no health check', '    healthcheck: { test: [CMD, ok] }\n', '', /db: it has no healthcheck/],
    ['a password in clear', '"${DB_PASSWORD:?set it}"', 'hunter2', /DB_PASSWORD is written in clear/],
    ['a password with a default', ':?set it', ':-hunter2', /must be \$\{DB_PASSWORD:\?why\}/],
    [
      'a variable that the example lacks',
      '${DB_PASSWORD:?',
      '${DB2_PASSWORD:?',
      /not in deploy\/\.env\.example/,
    ],
    ['an unknown dependency', '{ db: {', '{ dbs: {', /depends on dbs/],
    ['a dependency that is only started', 'service_healthy', 'service_started', /until db is healthy/],
    ['a mount that is not there', './there', './gone', /\.\/gone is mounted/],
    ['an undeclared volume', 'kept: {}', 'lost: {}', /volume kept is not declared/],
    ['an open port', '127.0.0.1:1:1', '1:1', /open to every network/],
    ['too little time to end', '60s', '30s', /stop_grace_period must be 50s/],
  ];
  findsBroken(good, check, broken);
});

describe('systemd unit', () => {
  const good = readFileSync('deploy/weir.service', 'utf8');
  const flags = ['--max-semi-space-size=64'];
  const check = (text: string): string[] => checkUnit({ text, stopSeconds: 50, nodeFlags: flags });

  const broken: Broken[] = [
    ['root', 'User=weir', 'User=root', /User=root/],
    ['a section that does not exist', '[Install]', '[Installation]', /no section \[Installation\]/],
    ['a line that is none', 'RestartSec=2', 'RestartSec 2', /:\d+: this is neither/],
    ['a file system that can be written', 'ProtectSystem=strict', 'ProtectSystem=full', /ProtectSystem/],
    ['no state', 'StateDirectory=weir\n', '', /StateDirectory= is missing/],
    ['memory that V8 cannot use', 'WriteExecute=no', 'WriteExecute=yes', /MemoryDenyWriteExecute/],
    ['too little time to end', 'TimeoutStopSec=60', 'TimeoutStopSec=30', /TimeoutStopSec must be 50/],
    ['no time to end', 'TimeoutStopSec=60\n', '', /TimeoutStopSec/],
    ['a signal to all', 'KillMode=mixed', 'KillMode=control-group', /KillMode/],
    ['a relative program', 'ExecStart=/usr/bin/node', 'ExecStart=node', /ExecStart/],
    ['a flag that is forgotten', ' --max-semi-space-size=64', '', /lacks --max-semi-space-size=64/],
  ];
  findsBroken(good, check, broken);
});

describe('package-lock.json', () => {
  /** The engine for systems on which no lock file was made yet: npm takes these without looking at a digest. */
  const unseen = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu'].map(
    (system) => `node_modules/@chdb/lib-${system}`,
  );

  test('has the digest of every package that is fetched, but for three that could not be looked up', () => {
    const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
      packages: Record<string, { resolved?: string; integrity?: string; link?: boolean }>;
    };
    const fetched = Object.entries(lock.packages).filter(([name, { link }]) => name !== '' && link !== true);
    assert.ok(fetched.length > 100);
    const without = fetched.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''));
    assert.deepEqual(
      without.map(([name]) => name),
      unseen,
    );
  });
});
