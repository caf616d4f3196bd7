// The peer's worker in its TypeScript SDK. Run has ten durable steps, each of which returns the text. Work has ten that take
// their time and append a line to a file, which shows what ran.
import { appendFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import * as restate from "@restatedev/restate-sdk";

const steps = 10;

const bench = restate.service({
  name: "BenchTS",
  handlers: {
    Run: async (ctx, text) => {
      let output = text;
      for (let i = 0; i < steps; i++) {
        const input = output;
        output = await ctx.run(`echo-${i}`, () => input);
      }
      return output;
    },
    Work: async (ctx, { path, name, milliseconds }) => {
      for (let i = 0; i < steps; i++) {
        await ctx.run(`work-${i}`, async () => {
          await appendFile(path, `${name}-step-${i}\n`);
          await setTimeout(milliseconds);
        });
      }
      return name;
    },
  },
});

await restate.serve({ services: [bench], port: Number(process.env.PORT) });
