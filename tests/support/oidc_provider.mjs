// A certified OpenID provider on a loopback port, with one page on which a person says who they are.
// node oidc_provider.mjs PORT REDIRECT_URI [FAULT]; it prints "ready" when it listens.
import { createRequire } from "node:module";
import { generateKeyPairSync } from "node:crypto";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { default: Provider, errors } = await import(require.resolve("oidc-provider"));
const [port, redirectUri] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const PEOPLE = {
  "id-ada": { preferred_username: "ada", name: "Ada Lovelace", email: "ada@example.org", email_verified: true, groups: ["vision", "operators"] },
  "id-bob": { preferred_username: "bob", name: "Bob Babbage", email: "bob@example.org", email_verified: false, groups: ["vision"] },
  "id-eve": { preferred_username: "eve", name: "Eve", groups: [] },
  "id-other-ada": { preferred_username: "ada", name: "Another Ada", groups: ["vision"] },
  "id-odd": { preferred_username: "Not A Name!", name: "Odd", groups: ["vision"] },
};
const key = () => ({ ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" });

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "aitne",
      client_secret: "shared with the provider",
      redirect_uris: [redirectUri],
      response_types: ["code"],
      grant_types: ["authorization_code"],
    },
  ],
  jwks: { keys: [{ ...key(), kid: "one" }] },
  cookies: { keys: ["for tests only"] },
  pkce: { required: () => true },
  scopes: ["openid", "profile", "email", "groups"],
  claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/who/${interaction.uid}` },
  findAccount: (_, id) => (id in PEOPLE ? { accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) } : undefined),
});
provider.use(async (ctx, next) => {
  const uid = /^\/who\/([\w-]+)$/.exec(ctx.path)?.[1];
  if (uid === undefined) return next();
  if (ctx.method === "GET") {
    ctx.type = "html";
    ctx.body = `<!doctype html><title>Provider</title><form method="post"><label>Who? <input name="id" autofocus></label><button>Log in</button></form>`;
    return undefined;
  }
  const chunks = [];
  for await (const chunk of ctx.req) chunks.push(chunk);
  const id = new URLSearchParams(Buffer.concat(chunks).toString()).get("id");
  const details = await provider.interactionDetails(ctx.req, ctx.res);
  if (!(id in PEOPLE)) {
    return provider.interactionFinished(ctx.req, ctx.res, { error: "access_denied", error_description: "<b>No</b>" });
  }
  const grant = new provider.Grant({ accountId: id, clientId: details.params.client_id });
  grant.addOIDCScope("openid profile email groups");
  return provider.interactionFinished(ctx.req, ctx.res, {
    login: { accountId: id },
    consent: { grantId: await grant.save() },
  });
});
provider.on("server_error", (_, error) => console.error(error));
if (errors === undefined) throw new Error("this is no oidc-provider");
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
