/** Reads what RFC 4180 describes, and nothing else: throws for a lone quote, and where a line does not end in CRLF. */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let at = 0;
  while (at < text.length) {
    const row: string[] = [];
    for (;;) {
      const [cell, next] = text[at] === '"' ? quotedCell(text, at + 1) : plainCell(text, at);
      row.push(cell);
      at = next + 1;
      if (text[next] === ',') continue;
      if (text.slice(next, next + 2) !== '\r\n') throw new Error(`Neither comma nor line end at ${next}.`);
      at = next + 2;
      break;
    }
    rows.push(row);
  }
  return rows;
}

function plainCell(text: string, from: number): [string, number] {
  let end = from;
  while (end < text.length && !/[,\r\n]/.test(text[end] ?? '')) end += 1;
  const cell = text.slice(from, end);
  if (cell.includes('"')) throw new Error(`A quote within a plain cell at ${from}.`);
  return [cell, end];
}

function quotedCell(text: string, from: number): [string, number] {
  let cell = '';
  for (let at = from; ; at++) {
    if (at >= text.length) throw new Error('A quoted cell has no end.');
    if (text[at] !== '"') cell += text[at];
    else if (text[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else return [cell, at + 1];
  }
}
