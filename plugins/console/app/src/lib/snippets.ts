import { facts } from '@/api/facts';

/** A chat request to show in several languages. */
interface SnippetFacts {
  /** Address of the API: `http://…/v1`. */
  readonly base: string;
  /** Value of the header `{prefix}-provider`. */
  readonly provider: string;
  readonly model: string;
  /** The service key, or a placeholder for it. */
  readonly secret: string;
}

/** The same request for programs that people have. */
export function snippetsFor({ base, provider, model, secret }: SnippetFacts) {
  const header = `${facts.prefix}-provider`;
  return {
    curl: `curl ${base}/chat/completions \\
  -H 'authorization: Bearer ${secret}' \\
  -H '${header}: ${provider}' \\
  -H 'content-type: application/json' \\
  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`,
    Python: `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
    default_headers={"${header}": "${provider}"},
)
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`,
    TypeScript: `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: '${base}',
  apiKey: '${secret}',
  defaultHeaders: { '${header}': '${provider}' },
});
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer.choices[0]?.message.content);`,
  };
}
