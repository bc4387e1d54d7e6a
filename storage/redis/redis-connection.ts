import type { Redis } from 'ioredis';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';

/** A server that has not answered a call after so many milliseconds is treated as if it were away. */
export const redisBudgetMs = 50;

/** How one call is made. */
export interface RedisCallOptions<Reply> {
  /** Milliseconds until the call is given up. Default 50. */
  readonly budgetMs?: number;
  /** Send it also to a server that is slow: nobody waits for the answer. Default false. */
  readonly unhurried?: boolean;
  /** Gets the answer to a call that was given up before. */
  readonly late?: (reply: Reply) => void;
}

/** One connection to one server, shared by all who use that server. */
export interface RedisConnection {
  /** False while a call would fail at once: not connected, or not answering in time. */
  readonly available: boolean;
  /** Sends at once, or rejects at once; rejects when there is no answer in time. Nothing is ever sent twice. */
  call<Reply>(send: (client: Redis) => Promise<Reply>, options?: RedisCallOptions<Reply>): Promise<Reply>;
  /** The same for one command that is encoded already: for those of which every request needs some. */
  send(command: EncodedCommand, options?: RedisCallOptions<RedisReply>): Promise<RedisReply>;
  /** Resolves when the server answers in time; rejects with the reason otherwise. */
  ping(): Promise<void>;
  /** Ends the connection for good. */
  close(): Promise<void>;
}
