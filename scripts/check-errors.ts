// docs/errors.md lists exactly the codes of the table, with their status, and names an existing test for each that
// mentions the code.
import { existsSync, readFileSync } from 'node:fs';
import { errorTable } from '../core/errors/codes.ts';

/** Form of a row: `| \`code\` | 400 | when | remedy | \`path/to/test.ts\` |` */
const row = /^\|\s*`([a-z_]+)`\s*\|\s*(\d+)\s*\|.*\|\s*`([^`]+\.test\.ts)`\s*\|$/;

/** Every difference between the documentation and the table. */
export function checkErrorDocs(file = 'docs/errors.md'): readonly string[] {
  if (!existsSync(file)) return [`${file} is missing`];
  const documented = new Map<string, { status: number; test: string }>();
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const match = row.exec(line);
    if (match) documented.set(match[1] as string, { status: Number(match[2]), test: match[3] as string });
  }
  const problems: string[] = [];
  for (const [code, { status }] of Object.entries(errorTable)) {
    const found = documented.get(code);
    if (!found) problems.push(`${file} does not list ${code}`);
    else if (found.status !== status)
      problems.push(`${file}: ${code} has status ${status}, not ${found.status}`);
    else if (!existsSync(found.test))
      problems.push(`${file}: the test of ${code} does not exist: ${found.test}`);
    else if (!readFileSync(found.test, 'utf8').includes(code))
      problems.push(`${file}: ${found.test} does not mention ${code}`);
  }
  for (const code of documented.keys()) {
    if (!(code in errorTable)) problems.push(`${file} lists ${code}, which is no error code`);
  }
  return problems;
}
