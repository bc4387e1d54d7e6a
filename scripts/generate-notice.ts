// Writes NOTICE: the packages that Weir is installed with, or that its built files hold, and their licences, from the lock
// files. With --check it only compares, and fails when they differ.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Type } from 'typebox';
import { Value } from 'typebox/value';

const target = fileURLToPath(new URL('../NOTICE', import.meta.url));
const command = 'node --import tsx scripts/generate-notice.ts';

const Lock = Type.Object({
  packages: Type.Record(
    Type.String(),
    Type.Object({
      version: Type.Optional(Type.String()),
      license: Type.Optional(Type.String()),
      dev: Type.Optional(Type.Boolean()),
      os: Type.Optional(Type.Array(Type.String())),
    }),
  ),
});

/** A line for each package of a lock file that users get. Builds for one platform belong to the package that wants them. */
async function linesOf(file: string): Promise<readonly string[]> {
  const { packages } = Value.Parse(Lock, JSON.parse(await readFile(new URL(file, import.meta.url), 'utf8')));
  return Object.entries(packages)
    .filter(([place, { dev, os }]) => place !== '' && dev !== true && os === undefined)
    .map(([place, { version, license }]) => {
      const name = place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length);
      if (license === undefined)
        throw new Error(`${name} says no licence in ${file}. Look into it before it is installed.`);
      return `${name} ${version ?? ''}: ${license}`;
    });
}

async function notice(): Promise<string> {
  const lines = await Promise.all(
    ['../package-lock.json', '../plugins/console/app/package-lock.json'].map(linesOf),
  );
  const sorted = [...new Set(lines.flat())].sort((one, other) => (one < other ? -1 : 1));
  return `Weir
Copyright The Weir Authors

Licensed under the Apache License, Version 2.0; see LICENSE.

Weir is installed with these packages, or contains parts of them in built form (their texts: dist/LICENSES.txt of the
package). Written by \`${command}\`.

${sorted.join('\n')}
`;
}

const text = await notice();
if (!process.argv.includes('--check')) await writeFile(target, text);
else if ((await readFile(target, 'utf8').catch(() => '')) !== text) {
  console.error(`NOTICE is not what the lock files say; run \`${command}\`.`);
  process.exitCode = 1;
}
