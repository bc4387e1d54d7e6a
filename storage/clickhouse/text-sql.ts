import { inPlace, inWindow } from './visible.ts';

/**
 * The requests whose logged bodies hold a text, without regard to case: `(created_at, id)` of `bodies`, within the window
 * and the place of what `visible` binds. `placeholder` stands for what `textForms` makes of the text. The expressions
 * are those of the index `text_filter`, which finds the granules that can hold texts of four and more characters.
 */
export function textSql(placeholder: string): string {
  const forms = `arrayMap(form -> lowerUTF8(form), ${placeholder})`;
  const holds = ['request', 'response'].map((column) => `multiSearchAny(lowerUTF8(${column}), ${forms})`);
  return `SELECT created_at, id FROM bodies WHERE ${inPlace} AND ${inWindow} AND (${holds.join(' OR ')})`;
}

/**
 * The forms in which a body may hold a text: as it is, and as JSON writes it, with escapes where they are required, or
 * wherever it is not ASCII. A comparison without regard to case cannot see through escapes, hence some cases of those.
 */
export function textForms(text: string): string[] {
  const lower = text.toLowerCase();
  const [first = ''] = lower;
  const cased = [text, lower, text.toUpperCase(), first.toUpperCase() + lower.slice(first.length)];
  const forms = [text, escaped(text), ...cased.map((one) => asciiOnly(escaped(one)))];
  // The case of a final sigma depends on what follows it, which a part of a text does not tell.
  if (/[Σσς]$/.test(text)) forms.push(`${text.slice(0, -1)}σ`, `${text.slice(0, -1)}ς`);
  return [...new Set(forms)];
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Half of a surrogate pair at a time, as JSON does. */
function asciiOnly(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
