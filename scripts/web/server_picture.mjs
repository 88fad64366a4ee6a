// A picture of the page of `edgespec serve`, with the most probable answer to a question:
//   node scripts/web/server_picture.mjs http://127.0.0.1:8080 docs/images/server-page.png "Why is the sky blue?"
import { createRequire } from "node:module";

const required = createRequire(new URL("../../runtimes/js/package.json", import.meta.url));
const { chromium } = required("playwright-core");
const [url, file, question] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const page = await browser.newPage({ viewport: { width: 800, height: 480 }, colorScheme: "light" });
page.setDefaultTimeout(300_000);
await page.route("**/v1/chat/completions", (route) =>
  route.continue({ postData: { ...route.request().postDataJSON(), temperature: 0, max_tokens: 96 } }),
);
await page.goto(url);
await page.getByRole("option").first().waitFor({ state: "attached" });
await page.getByLabel("Message").fill(question);
await page.keyboard.press("Enter");
await page.locator("article.assistant footer span").filter({ hasText: "tokens/s" }).waitFor();
await page.screenshot({ path: file });
await browser.close();
