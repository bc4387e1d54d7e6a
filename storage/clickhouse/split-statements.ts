const piece =
  /'(?:[^'\\]|\\[^]|'')*(?:'|$)|"(?:[^"\\]|\\[^]|"")*(?:"|$)|`(?:[^`\\]|\\[^]|``)*(?:`|$)|--[^\n]*|\/\*[^]*?(?:\*\/|$)|;|[^'"`;/-]+|[/-]/gy;

/**
 * Cuts a migration into its statements at the semicolons that stand outside strings, quoted names and comments.
 * Comments are left out; what holds nothing else is no statement.
 */
export function splitStatements(sql: string): string[] {
  const statements: string[] = [];
  let current = '';
  for (const [text] of sql.matchAll(piece)) {
    if (text === ';') {
      statements.push(current.trim());
      current = '';
    } else if (text.startsWith('--') || text.startsWith('/*')) current += ' ';
    else current += text;
  }
  statements.push(current.trim());
  return statements.filter((statement) => statement !== '');
}
