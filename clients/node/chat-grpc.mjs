// Talks with an agent over gRPC from Node. chat.mjs does the same over REST, without packages.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node clients/node/chat-grpc.mjs 127.0.0.1:7411 helper
//
// It posts each line of standard input to a new topic with the agent and prints the reply while it is streamed. A call that fails on the way is made again: a message
// has an id, and the stream continues after the last event that was read, so nothing is missed or repeated.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, grpc } from "./grpc.mjs";

const { client, metadata, given } = connect("pawl/conversation/v1/topic_service.proto", "pawl.conversation.v1.TopicService", "AGENT");

// again makes a call until it succeeds, as long as its errors are temporary. A call that got on before it failed is made again at once.
async function again(call) {
  for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
    try {
      return await call(() => (pause = 50));
    } catch (error) {
      if (![grpc.status.UNAVAILABLE, grpc.status.RESOURCE_EXHAUSTED].includes(error.code)) throw error;
      console.error(`trying again: ${error.details}`);
    }
    await sleep(pause);
  }
}

const unary = (method, request) =>
  again(() => new Promise((done, failed) => client[method](request, metadata, (error, reply) => (error ? failed(error) : done(reply)))));

async function main() {
  const topic = await unary("createTopic", { topic: { displayName: "gRPC" }, participants: [{ agentId: given[0] }], requestId: randomUUID() });
  let after = topic.lastSeq;
  for await (const text of createInterface({ input: process.stdin })) {
    const id = randomUUID();
    await unary("postMessage", { topicId: topic.id, message: { id, text } });
    await again(async (gotOn) => {
      const stream = client.watchTopic({ topicId: topic.id, afterSeq: after }, metadata);
      try {
        for await (const event of stream) {
          gotOn();
          after = event.seq;
          if (event.messageId !== id) continue;
          if (event.streamChunk) process.stdout.write(event.streamChunk.text);
          if (event.streamDone) process.stdout.write("\n");
          const problem = event.agentSilent?.reason || (!event.streamDone?.restarts && event.streamDone?.error);
          if (problem) console.error(problem);
          if (problem || (event.newMessage && !event.newMessage.ext)) return;
        }
      } finally {
        stream.cancel();
      }
      throw new Error("the stream ended: you no longer take part in the topic");
    });
  }
  client.close();
}

main().catch((error) => {
  console.error(error.details ?? error.message);
  process.exit(1);
});
