/** A tiny model for text classification, made here: no words but a few are known to it. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ProtobufWriter } from './protobuf-writer.ts';

/** What a model is made of. */
interface TinyModel {
  /** By word: the logit of the second label. Others have none of it. */
  readonly words: Readonly<Record<string, number>>;
  readonly labels: readonly [string, string];
  /** Labels each token instead of the whole text. Default false. */
  readonly ofTokens?: boolean;
  readonly config?: object;
}

const specials = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'];
/** The logit that the first label has whatever is said. */
const first = 4;

/** Writes `model.onnx`, `tokenizer.json` and `config.json`. */
export async function writeTinyModel(folder: string, model: TinyModel): Promise<void> {
  await mkdir(folder, { recursive: true });
  const words = Object.keys(model.words);
  const vocab = Object.fromEntries([...specials, ...words].map((word, id) => [word, id]));
  const table = [...specials.map(() => 0), ...Object.values(model.words)].flatMap((logit) => [first, logit]);
  await writeFile(path.join(folder, 'model.onnx'), onnx(table, model.ofTokens ?? false));
  await writeFile(path.join(folder, 'tokenizer.json'), JSON.stringify(tokenizer(vocab)));
  const config = {
    id2label: Object.fromEntries(model.labels.entries()),
    max_position_embeddings: 64,
    ...model.config,
  };
  await writeFile(path.join(folder, 'config.json'), JSON.stringify(config));
}

function tokenizer(vocab: Readonly<Record<string, number>>): object {
  const special = (content: string) => ({ id: vocab[content], content, special: true, ...flags });
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const around = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const template = (id: string) => ({ id, ids: [vocab[id]], tokens: [id] });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specials.map(special),
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [around('[CLS]'), { Sequence: { id: 'A', type_id: 0 } }, around('[SEP]')],
      pair: [],
      special_tokens: { '[CLS]': template('[CLS]'), '[SEP]': template('[SEP]') },
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab,
    },
  };
}

const floats = 1;
const integers = 7;

/** Looks up the logits of each token, and takes the highest of the text. Field numbers are those of `onnx.proto`. */
function onnx(table: readonly number[], ofTokens: boolean): Buffer {
  const raw = Buffer.alloc(table.length * 4);
  table.forEach((value, index) => raw.writeFloatLE(value, index * 4));
  const tensor = new ProtobufWriter()
    .varint(1, BigInt(table.length / 2))
    .varint(1, 2n)
    .varint(2, BigInt(floats))
    .text(8, 'table')
    .bytes(9, raw);
  const found = ofTokens ? 'logits' : 'of_tokens';
  const gather = new ProtobufWriter().text(1, 'table').text(1, 'input_ids').text(2, found).text(4, 'Gather');
  const axes = new ProtobufWriter().text(1, 'axes').varint(8, 1n).varint(20, 7n);
  const keep = new ProtobufWriter().text(1, 'keepdims').varint(3, 0n).varint(20, 2n);
  const highest = new ProtobufWriter()
    .text(1, found)
    .text(2, 'logits')
    .text(4, 'ReduceMax')
    .message(5, axes)
    .message(5, keep);
  const graph = new ProtobufWriter().message(1, gather);
  if (!ofTokens) graph.message(1, highest);
  graph
    .text(2, 'tiny')
    .message(5, tensor)
    .message(11, value('input_ids', integers, ['batch', 'tokens']))
    .message(11, value('attention_mask', integers, ['batch', 'tokens']))
    .message(12, value('logits', floats, ofTokens ? ['batch', 'tokens', 2] : ['batch', 2]));
  return new ProtobufWriter()
    .varint(1, 8n)
    .message(7, graph)
    .message(8, new ProtobufWriter().text(1, '').varint(2, 13n)).result;
}

function value(name: string, type: number, dims: readonly (string | number)[]): ProtobufWriter {
  const shape = new ProtobufWriter();
  for (const dim of dims) {
    const one = new ProtobufWriter();
    shape.message(1, typeof dim === 'string' ? one.text(2, dim) : one.varint(1, BigInt(dim)));
  }
  const tensor = new ProtobufWriter().varint(1, BigInt(type)).message(2, shape);
  return new ProtobufWriter().text(1, name).message(2, new ProtobufWriter().message(1, tensor));
}
