// The peer's worker in TypeScript's SDK: ten durable steps, each giving the text back; and ten that take their time and
// write a line to a file, so that one sees what ran.
import { appendFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import * as restate from "@restatedev/restate-sdk";

const steps = 10;

const bench = restate.service({
  name: "BenchTS",
  handlers: {
    Run: async (ctx, text) => {
      let said = text;
      for (let i = 0; i < steps; i++) {
        const now = said;
        said = await ctx.run(`echo-${i}`, () => now);
      }
      return said;
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
