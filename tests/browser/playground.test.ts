import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, markup, openWindow, signIn, useConsole } from './console-kit.ts';

const run = promisify(execFile);

/** A picture of four pixels. */
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==',
  'base64',
);

describe('the playground', () => {
  const gateway = useConsole();

  test('streams answers of two columns side by side, and tells what they took', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByLabel('Text 1').fill('Hello <img src=x onerror=alert(1)>');
    await page.getByLabel('Model').fill('mock-gpt');
    await page.getByRole('button', { name: 'Add a column' }).click();
    const [one, two] = [1, 2].map((number) => page.getByRole('region', { name: `Column ${number}` }));
    assert.ok(one && two);
    await two.getByLabel('Model').fill('mock-large');
    await page.keyboard.press('Control+Enter');
    for (const column of [one, two]) {
      await column.getByText('Status').waitFor();
      await column.getByText('Tokens in, out').waitFor();
      await column.getByText('Log entry', { exact: true }).waitFor();
      await column.getByRole('button', { name: 'Go on with this answer' }).waitFor();
    }
    await one.getByRole('button', { name: 'Go on with this answer' }).click();
    await page.getByLabel('Text 3').waitFor();
    for (const look of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: look });
      await assertAccessible(page);
    }
  });

  test('markup in an answer stays text', async (t) => {
    const page = await openWindow(t, gateway);
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.message());
      void dialog.dismiss();
    });
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill(markup);
    await page.getByLabel('Model').fill('mock-gpt');
    await page.getByRole('button', { name: 'Run' }).click();
    const column = page.getByRole('region', { name: 'Column 1' });
    await column.getByText(`You said: "${markup}".`).waitFor();
    await column.getByText('Log entry', { exact: true }).waitFor();
    assert.equal(await page.locator('img[src="x"], main script').count(), 0);
    assert.notEqual(await page.title(), 'owned');
    assert.deepEqual(asked, []);
  });

  test('stops an answer, and shows a refusal in the words of the gateway', async (t) => {
    const page = await openWindow(t, gateway, { expected: /40\d/ });
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill('Count');
    await page.getByLabel('Model').fill('mock:chunk_latency_ms=50,tokens=5000');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped').waitFor();
    await page.getByLabel('Provider').fill('@nobody');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').filter({ hasText: 'nobody' }).waitFor();
  });

  test('runs a saved config, replays a logged request, and saves what was tried', async (t) => {
    const body = { name: 'Tried', config: { provider: 'mock', override_params: { model: 'mock-gpt' } } };
    const { data } = await gateway.api('POST', '/configs', { ...body, workspace_id: gateway.workspace });
    const own = { type: 'function', function: { name: 'find', parameters: { type: 'object' } } };
    const answer = await gateway.chat('From the log', {
      headers: { 'x-service-config': data.slug },
      body: { temperature: 0.5, max_tokens: 70, top_p: 0.9, tools: [own], tool_choice: 'none' },
    });
    await answer.text();
    const id = answer.headers.get('x-service-request-id') ?? '';
    await eventually(async () => {
      const { data: rows } = await gateway.api('GET', '/logs');
      return rows.some((one: { id: string }) => one.id === id) || undefined;
    });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/playground?log=${id}`);
    await page.getByText('This conversation comes from a log entry.').waitFor();
    assert.equal(await page.getByLabel('Text 1').inputValue(), 'From the log');
    assert.equal(await page.getByLabel('Config').inputValue(), data.slug);
    assert.equal(await page.getByLabel('Temperature').inputValue(), '0.5');
    assert.equal(await page.getByLabel('Most tokens').inputValue(), '70');
    const others = page.getByLabel('Other parameters as JSON');
    assert.deepEqual(JSON.parse(await others.inputValue()), { top_p: 0.9, tool_choice: 'none' });
    await others.fill('{ "top_p": ');
    await page.getByRole('alert').getByText('This is no JSON object.').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Run' }).isDisabled());
    await others.fill('{ "top_p": 0.8, "tool_choice": "none" }');
    await page.getByRole('button', { name: 'Copy as code' }).click();
    await page.getByRole('region', { name: 'curl' }).getByText('"top_p": 0.8').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('button', { name: 'Go on with this answer' }).waitFor();
    await page.getByRole('button', { name: 'Save as a prompt' }).click();
    const dialog = page.getByRole('dialog', { name: 'Save as a prompt' });
    await dialog.getByLabel('Name', { exact: true }).fill('From the playground');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The prompt is saved.').first().waitFor();
    const prompts = await gateway.api('GET', '/prompts');
    const saved = prompts.data.find((one: { name: string }) => one.name === 'From the playground');
    const prompt = await gateway.api('GET', `/prompts/${saved.slug}`);
    assert.deepEqual(prompt.parameters, { top_p: 0.8, temperature: 0.5, max_tokens: 70 });
    assert.deepEqual(prompt.tools, [own]);
    assert.equal(prompt.tool_choice, 'none');
    await page.getByText('Log entry', { exact: true }).waitFor();
    const again = await eventually(async () => {
      const { data: sent } = await gateway.api('GET', '/logs?include=bodies&page_size=50');
      return sent.find(
        (one: { request: { body: { top_p?: unknown } | null } }) => one.request.body?.top_p === 0.8,
      );
    });
    const { temperature, max_tokens, tool_choice, tools } = again.request.body;
    assert.deepEqual([temperature, max_tokens, tool_choice, tools], [0.5, 70, 'none', [own]]);
    const trail = await gateway.api('GET', '/audit-logs');
    assert.ok(trail.records.some((one: any) => one.method === 'POST' && one.uri === '/v1/prompts'));
  });

  test('a request of another format is replayed with temperature and most tokens, and the page says so', async (t) => {
    const answer = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-service-api-key': gateway.ownerKey, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'mock-gpt', max_tokens: 60, temperature: 0.25, top_k: 5 },
        messages: [{ role: 'user', content: 'Another format' }],
      }),
    });
    await answer.text();
    const id = answer.headers.get('x-service-request-id') ?? '';
    await eventually(async () => {
      const { data } = await gateway.api('GET', '/logs');
      return data.some((one: { id: string }) => one.id === id) || undefined;
    });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/playground?log=${id}`);
    await page.getByText('only temperature and most tokens are taken over').waitFor();
    assert.equal(await page.getByLabel('Temperature').inputValue(), '0.25');
    assert.equal(await page.getByLabel('Most tokens').inputValue(), '60');
    assert.equal(await page.getByLabel('Other parameters as JSON').inputValue(), '');
  });

  test('a request is sent with Explain, and its log entry shows why its target was taken', async (t) => {
    const targets = [
      { provider: 'mock', override_params: { model: 'mock:status=503' } },
      { provider: 'mock' },
    ];
    const { data } = await gateway.api('POST', '/configs', {
      ...{ name: 'Explained', workspace_id: gateway.workspace },
      config: { strategy: { mode: 'fallback' }, targets },
    });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/playground?config=${data.slug}`);
    await page.getByLabel('Text 1').fill('Explain yourself');
    await page.getByLabel('Model').fill('mock-gpt');
    const explain = page.getByLabel('Explain', { exact: true });
    assert.ok(!(await explain.isChecked()));
    await explain.check();
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('Log entry', { exact: true }).waitFor();
    await page.getByRole('definition').getByRole('link').click();
    await page.getByRole('tab', { name: /Attempts/ }).click();
    await page.getByRole('heading', { name: 'Decisions' }).waitFor();
    await page.getByText('fallback').first().waitFor();
    // It is on for what is sent again from there.
    await page.getByRole('link', { name: 'Open in the playground' }).click();
    await page.getByText('This conversation comes from a log entry.').waitFor();
    assert.ok(await explain.isChecked());
    await page.getByRole('button', { name: 'Copy as code' }).click();
    await page.getByRole('region', { name: 'curl' }).getByText('x-service-explain: true').waitFor();
  });

  test('tools are defined with their faults shown; a call is answered with a typed result, and the model goes on', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill('How warm is it in Kiel?');
    await page.getByLabel('Model').fill('mock:tool_calls=1');
    await page.getByText('Tools as JSON').click();
    await page.getByRole('button', { name: 'Insert an example' }).click();
    const tools = page.getByRole('textbox', { name: 'Tools as JSON' });
    const example = await tools.inputValue();
    await tools.fill(example.replace('"string"', '"text"'));
    await page.getByRole('alert').getByText('properties.city.type: Expected one of object,').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Run' }).isDisabled());
    await assertAccessible(page);
    await tools.fill(example);
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Run' }).click();
    const column = page.getByRole('region', { name: 'Column 1' });
    await column.getByText('Calls the tool get_weather').waitFor();
    await column.getByLabel('Result of get_weather, call 1').fill('14 °C <b>');
    await assertAccessible(page);
    await page.getByLabel('Model').fill('mock-gpt');
    await column.getByRole('button', { name: 'Send the results and go on' }).click();
    await column.getByText('The tool returned: "14 °C <b>"').waitFor();
    await page.getByText('Result of get_weather', { exact: true }).waitFor();
    assert.equal(await page.getByLabel('Text 3').inputValue(), '14 °C <b>');
    await column.getByText('Log entry', { exact: true }).waitFor();
    const id = await eventually(async () => {
      const { data } = await gateway.api('GET', '/logs?ai_model=mock-gpt&include=bodies&page_size=50');
      return data.find((one: { request: { body: { messages?: unknown[] } } }) =>
        JSON.stringify(one.request.body).includes('14 °C'),
      )?.id as string | undefined;
    });
    // The whole of it is replayed from the log: the call, its result and the tools.
    await page.goto(`/console/playground?log=${id}`);
    await page.getByText('Result of get_weather', { exact: true }).waitFor();
    assert.equal(await page.getByLabel('Text 1').inputValue(), 'How warm is it in Kiel?');
    assert.deepEqual(JSON.parse(await tools.inputValue()), JSON.parse(example));
  });

  test('images are chosen, pasted and taken away, sent with the text, and replayed from the log', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    await page.getByLabel('Text 1', { exact: true }).fill('Which colour is this?');
    await page.getByLabel('Model').fill('mock-sees');
    const files = page.locator('input[type=file]').first();
    const file = (name: string, mimeType: string, buffer = png) => ({ name, mimeType, buffer });
    await files.setInputFiles(file('notes.txt', 'text/plain'));
    await page.getByRole('alert').getByText('notes.txt is no PNG, JPEG, GIF or WebP image.').waitFor();
    await files.setInputFiles(file('large.png', 'image/png', Buffer.alloc(5_242_881)));
    await page.getByRole('alert').getByText('large.png is larger than 5 MiB.').waitFor();
    const images = page.getByRole('list', { name: 'Images of message 1' }).getByRole('img');
    assert.equal(await images.count(), 0);
    await files.setInputFiles([file('one.png', 'image/png'), file('two.png', 'image/png')]);
    await images.nth(1).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Take image 2 away' }).click();
    await images.nth(1).waitFor({ state: 'detached' });
    await page.evaluate(`{
      const bytes = Uint8Array.from(atob('${png.toString('base64')}'), (letter) => letter.charCodeAt(0));
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File([bytes], 'pasted.png', { type: 'image/png' }));
      const text = document.querySelector('[aria-label="Text 1"]');
      text.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    }`);
    await images.nth(1).waitFor();
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('Log entry', { exact: true }).waitFor();
    const entry = await eventually(async () => {
      const { data } = await gateway.api('GET', '/logs?ai_model=mock-sees&include=bodies');
      return data[0] as { id: string; request: { body: { messages: unknown } } } | undefined;
    });
    const image = {
      type: 'image_url',
      image_url: { url: `data:image/png;base64,${png.toString('base64')}` },
    };
    assert.deepEqual(entry.request.body.messages, [
      { role: 'user', content: [{ type: 'text', text: 'Which colour is this?' }, image, image] },
    ]);
    await page.goto(`/console/playground?log=${entry.id}`);
    await page.getByText('This conversation comes from a log entry.').waitFor();
    await images.nth(1).waitFor();
  });

  test('images are dropped on a message, two at once; what is no image is refused, in words that are read out', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    const text = page.getByLabel('Text 1', { exact: true });
    await text.fill('Which colours are these?');
    const drop = (names: readonly string[], type: string): Promise<unknown> =>
      page.evaluate(`(() => {
        const text = document.querySelector('[aria-label="Text 1"]');
        const bytes = Uint8Array.from(atob('${png.toString('base64')}'), (letter) => letter.charCodeAt(0));
        const dataTransfer = new DataTransfer();
        for (const name of ${JSON.stringify(names)})
          dataTransfer.items.add(new File([bytes], name, { type: '${type}' }));
        const over = new DragEvent('dragover', { dataTransfer, bubbles: true, cancelable: true });
        text.dispatchEvent(over);
        text.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
        return over.defaultPrevented;
      })()`);
    const images = page.getByRole('list', { name: 'Images of message 1' }).getByRole('img');
    await drop(['notes.txt'], 'text/plain');
    await page.getByRole('alert').getByText('notes.txt is no PNG, JPEG, GIF or WebP image.').waitFor();
    assert.equal(await images.count(), 0);
    // The browser would open the file in the place of the page, unless the field takes it.
    assert.equal(await drop(['one.png', 'two.png'], 'image/png'), true);
    await images.nth(1).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.equal(await text.inputValue(), 'Which colours are these?');
    await assertAccessible(page);
  });

  test('a conversation is there again after a reload and another page, and nobody else sees it', async (t) => {
    const page = await openWindow(t, gateway);
    const text = page.getByLabel('Text 1', { exact: true });
    const model = page.getByRole('region', { name: 'Column 1' }).getByLabel('Model');
    const answer = page.getByRole('region', { name: 'Column 1' }).getByText('You said: "Keep me".');
    await page.goto('/console/playground');
    await text.fill('Keep me');
    await model.fill('mock-gpt');
    await page.getByRole('button', { name: 'Run' }).click();
    await answer.waitFor();
    await page.getByRole('button', { name: 'Add a column' }).click();
    await page.reload();
    await answer.waitFor();
    assert.deepEqual([await text.inputValue(), await model.inputValue()], ['Keep me', 'mock-gpt']);
    await page.getByRole('region', { name: 'Column 2' }).waitFor();
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByRole('heading', { name: 'Health', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Playground' }).click();
    await answer.waitFor();

    // A link begins with what it names.
    await page.goto('/console/playground?config=other');
    await text.waitFor();
    assert.equal(await text.inputValue(), '');
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByRole('link', { name: 'Playground' }).click();
    assert.equal(await text.inputValue(), '');

    // An answer that was coming is kept as far as it came.
    await text.fill('Count');
    await page.getByLabel('Answered by').selectOption('A provider and model');
    await model.fill('mock:chunk_latency_ms=50,tokens=5000');
    await page.getByRole('button', { name: 'Run' }).click();
    await page
      .getByRole('region', { name: 'Answer' })
      .getByText(/\w+ \w+/)
      .first()
      .waitFor();
    await page.reload();
    await page.getByText('Cut off: the page was left while this answer came.').waitFor();
    await assertAccessible(page);

    await page.getByRole('button', { name: 'New conversation' }).click();
    assert.equal(await text.inputValue(), '');
    await page.getByRole('button', { name: 'Undo' }).click();
    assert.equal(await text.inputValue(), 'Count');

    // The last event of a page: it writes over what the playground keeps then.
    await page.evaluate(`document.addEventListener('visibilitychange', () => {
      const [owner] = sessionStorage.getItem('weir-playground').split('\\n');
      sessionStorage.setItem('weir-playground', owner + '\\n{"version":1,"messages":[{"role":"user"}]}');
    })`);
    await page.reload();
    await text.waitFor();
    assert.equal(await text.inputValue(), '');

    await text.fill('Of the owner');
    await page.getByRole('button', { name: /Appearance/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    assert.equal(await page.evaluate('sessionStorage.getItem("weir-playground")'), null);
    const other = await gateway.makeKey('another', ['completions.write', 'logs.list', 'logs.view']);
    await signIn(page, other.key);
    await page.goto('/console/playground');
    await text.waitFor();
    assert.equal(await text.inputValue(), '');
  });

  test('four columns have their own provider, config and prompt, and tell time and cost of each', async (t) => {
    const config = { provider: 'mock', override_params: { model: 'mock-config' } };
    const { data } = await gateway.api('POST', '/configs', {
      name: 'Four',
      config,
      workspace_id: gateway.workspace,
    });
    const prompt = await gateway.api('POST', '/prompts', {
      ...{ name: 'Greeting', string: JSON.stringify([{ role: 'user', content: 'Hello {{name}}' }]) },
      ...{ parameters: {}, model: 'mock-gpt', workspace_id: gateway.workspace },
    });
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill('Compare');
    for (let number = 2; number <= 4; number += 1)
      await page.getByRole('button', { name: 'Add a column' }).click();
    assert.equal(await page.getByRole('button', { name: 'Add a column' }).count(), 0);
    const column = (number: number) => page.getByRole('region', { name: `Column ${number}` });
    await column(1).getByLabel('Model').fill('gpt-4o-mini');
    await column(2).getByLabel('Provider').fill('mock');
    await column(2).getByLabel('Model').fill('mock-two');
    await column(3).getByLabel('Answered by').selectOption('A saved config');
    await column(3).getByLabel('Config').selectOption(data.slug);
    await column(4).getByLabel('Answered by').selectOption('A saved prompt');
    await column(4).getByLabel('Prompt').selectOption(prompt.slug);
    await column(4).getByLabel('Variables as JSON').fill('{"name":"Ann"}');
    await page.getByRole('button', { name: 'Run' }).click();
    for (const number of [1, 2, 3]) await column(number).getByText('You said: "Compare".').waitFor();
    await column(4).getByText('You said: "Hello Ann".').waitFor();
    for (const number of [1, 2, 3, 4])
      for (const fact of ['First byte', 'Total', 'Log entry']) await column(number).getByText(fact).waitFor();
    await column(1).getByText('Cost').waitFor();
    await column(3).getByText('mock-config').waitFor();
    await assertAccessible(page);
  });

  test('the request as code holds a placeholder, never a key, and its choices are saved as a config', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill("It's");
    const list = await page.getByLabel('Provider').getAttribute('list');
    await page.locator(`datalist[id="${list}"] option[value="mock"]`).waitFor({ state: 'attached' });
    await page.getByLabel('Model').fill('mock-gpt');
    await page.getByRole('button', { name: 'Copy as code' }).click();
    const dialog = page.getByRole('dialog', { name: 'Copy as code' });
    for (const language of ['curl', 'Python', 'TypeScript'])
      for (const part of ['YOUR_KEY', `${new URL(page.url()).origin}/v1/chat/completions`])
        await dialog.getByRole('region', { name: language }).getByText(part).waitFor();
    assert.ok(!(await page.content()).includes(gateway.ownerKey));
    await page.keyboard.press('Escape');
    // It runs as it is copied, with a key in the place of the placeholder.
    await page.getByLabel('Text 1').fill('It\'s "all"\n`of` it: $HOME, 30 °C\\');
    await page.getByLabel('Stream').uncheck();
    await page.getByRole('button', { name: 'Copy as code' }).click();
    for (const [language, ...command] of [
      ['curl', 'sh', '-c'],
      ['Python', 'python3', '-c'],
      ['TypeScript', process.execPath, '--input-type=module', '-e'],
    ] as const) {
      await dialog.getByRole('region', { name: language }).getByRole('button', { name: 'Copy' }).click();
      const copied = String(await page.evaluate('navigator.clipboard.readText()'));
      const [program, ...args] = command;
      const { stdout, stderr } = await run(program, [...args, copied.replace('YOUR_KEY', gateway.ownerKey)]);
      const { choices } = JSON.parse(stdout);
      assert.ok(
        choices[0].message.content.startsWith('You said: "It\'s "all"\n`of` it: $HOME, 30 °C\\".'),
        `${language}: ${stdout} ${stderr}`,
      );
    }
    await page.keyboard.press('Escape');
    const before = await gateway.audited('configs', 'create');
    await page.getByRole('button', { name: 'Save as a config' }).click();
    const saving = page.getByRole('dialog', { name: 'Save as a config' });
    await saving.getByLabel('Name', { exact: true }).fill('Tried here');
    await saving.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The config is saved.').first().waitFor();
    assert.equal((await gateway.audited('configs', 'create')) - before, 1);
    const { data } = await gateway.api('GET', '/configs');
    assert.ok(data.some((one: { name: string }) => one.name === 'Tried here'));
  });
});
