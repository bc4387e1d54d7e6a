import type { Redis } from 'ioredis';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';

/** Milliseconds in which a server has to answer a call, unless the configuration says otherwise. */
export const defaultBudgetMs = 50;

/** How one call is made. */
export interface RedisCallOptions {
  /** Milliseconds until the call is given up. Default: those of the connection. */
  readonly budgetMs?: number;
  /** Send it also to a server that is slow: nobody waits for the answer. Default false. */
  readonly unhurried?: boolean;
}

/** What is made of an answer, or of none. */
export interface ReplyHandling<Result> extends RedisCallOptions {
  read(reply: RedisReply): Result;
  /** When there is none in time. */
  without(error: Error): Result | Promise<Result>;
  /** Gets the answer to a call that was given up before. */
  readonly late?: (reply: RedisReply) => void;
}

/** One connection to one server, shared by all who use that server. */
export interface RedisConnection {
  /** False while a call would fail at once: not connected, or not answering in time. */
  readonly available: boolean;
  /** Milliseconds that a call waits for its answer when it says nothing else. */
  readonly budgetMs: number;
  /** Sends at once, or rejects at once; rejects when there is no answer in time. Nothing is ever sent twice. */
  call<Reply>(send: (client: Redis) => Promise<Reply>, options?: RedisCallOptions): Promise<Reply>;
  /**
   * The same for one command that is encoded already: for those of which every request needs some. Resolves with what
   * the handling makes of the answer, or of the want of one; rejects only as that does.
   */
  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result>;
  /** Resolves when the server answers in time; rejects with the reason otherwise. */
  ping(): Promise<void>;
  /** Ends the connection for good. */
  close(): Promise<void>;
}
