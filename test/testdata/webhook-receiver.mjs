// Receives webhooks, which it verifies with the package standardwebhooks. Its lines of output are JSON: first {port}, then one per post: {id, event} if the post is
// verified, or {id, refused}. Each line of input is the secret from then on. PAWL_NODE_MODULES names the folder that holds node_modules.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const { Webhook } = createRequire(join(process.env.PAWL_NODE_MODULES, "index.js"))("standardwebhooks");
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

let webhook;
createInterface({ input: process.stdin })
  .on("line", (secret) => {
    webhook = new Webhook(secret);
    say({ secret });
  })
  .on("close", () => process.exit());

const server = createServer(async (request, response) => {
  const id = request.headers["webhook-id"];
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const event = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
    response.writeHead(204).end();
    say({ id, event });
  } catch (error) {
    response.writeHead(401).end();
    say({ id, refused: error.message });
  }
});
server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));
