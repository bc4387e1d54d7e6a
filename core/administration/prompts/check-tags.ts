import { TemplateError } from './template-error.ts';

const maxTagLength = 512;
const maxTags = 5_000;

/**
 * Refuses, before a template is parsed, tags that do not end, that have no name, that are longer than 512 characters, or
 * that would change the delimiters; and templates with more than 5,000 tags. What passes is parsed in linear time.
 * Throws `TemplateError`.
 */
export function checkTags(source: string): void {
  let tags = 0;
  for (let at = source.indexOf('{{'); at !== -1;) {
    const isTriple = source[at + 2] === '{';
    const begin = at + (isTriple ? 3 : 2);
    const closing = isTriple ? '}}}' : '}}';
    const end = source.indexOf(closing, begin);
    if (end === -1) throw new TemplateError(`the tag is never closed with "${closing}"`, source, at);
    if (end - begin > maxTagLength)
      throw new TemplateError(`the tag is longer than ${maxTagLength} characters`, source, at);
    if (++tags > maxTags)
      throw new TemplateError(`this is tag ${tags}, and ${maxTags} are the most`, source, at);
    checkTag(source.slice(begin, end).trim(), source, at);
    at = source.indexOf('{{', end + closing.length);
  }
}

function checkTag(content: string, source: string, at: number): void {
  if (content.startsWith('!')) return;
  if (content.startsWith('='))
    throw new TemplateError('delimiters cannot be changed; write {{ and }}', source, at);
  const name = content.replace(/^[#^/>&]/, '').trim();
  if (name === '') throw new TemplateError('the tag names nothing', source, at);
  if (/[{}\s]/.test(name))
    throw new TemplateError(`"${name}" is no name: names have no spaces and no braces`, source, at);
}
