/** Characters of a text that are looked at: more than are shown, because white space is drawn together. */
const readCharacters = 2000;

/** Words of a message of any wire: `content` or `parts`, a text or a list of texts and blocks. */
function wordsOf(message: string): string {
  const block =
    "if(JSONType(block) = 'String', JSONExtractString(block), if(JSONType(block, 'text') = 'String', JSONExtractString(block, 'text'), ''))";
  const blocks = `arrayConcat(JSONExtractArrayRaw(${message}, 'content'), JSONExtractArrayRaw(${message}, 'parts'))`;
  return [
    `multiIf(JSONType(${message}) = 'String', JSONExtractString(${message})`,
    `JSONType(${message}, 'content') = 'String', JSONExtractString(${message}, 'content')`,
    `arrayStringConcat(arrayFilter(words -> words != '', arrayMap(block -> ${block}, ${blocks})), ' '))`,
  ].join(', ');
}

// An item of responses that is no message has a type and no role.
const byUser =
  "JSONExtractString(message, 'role') = 'user' OR NOT (JSONHas(message, 'role') OR JSONHas(message, 'type'))";
const messages =
  "arrayConcat(JSONExtractArrayRaw(request, 'messages'), JSONExtractArrayRaw(request, 'contents'), JSONExtractArrayRaw(request, 'input'), JSONExtractArrayRaw(request, 'prompt'))";
// Messages that hold results of tools alone say nothing of the user's.
const lastWords = `arrayLast(words -> words != '', arrayMap(message -> ${wordsOf('message')}, arrayFilter(message -> ${byUser}, ${messages})))`;
const alone = "concat(JSONExtractString(request, 'input'), JSONExtractString(request, 'prompt'))";
const found = `if(${lastWords} != '', ${lastWords}, ${alone})`;
const drawnTogether = `trimBoth(replaceRegexpAll(substringUTF8(${found}, 1, ${readCharacters}), '\\\\s+', ' '))`;

/**
 * The first words of the last message of a user, of the request of a body's row: at most `{preview:UInt16}` characters.
 * Empty where there is none, and for a body that was cut off, because it is no JSON any more.
 */
export const previewSql = `if(log_format = 'base64', '', substringUTF8(${drawnTogether}, 1, {preview:UInt16}))`;
