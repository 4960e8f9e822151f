// Every text of the portal in every language: `npm run texts`.
// It refuses a text in the sources that is not translated, a key without its German (or, where it counts, without its
// English forms), a key that nothing uses, and a translation that lost or gained a {{placeholder}}.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The plural forms that both languages have. */
const FORMS = ["one", "other"];
/** Attributes that people read or hear. */
const SPOKEN = /^(title|label|placeholder|description|alt|action|keep|heading|subtitle|legend|hint|note|empty|error|caption|header|summary|nothingFoundMessage|what|data-label|aria-(label|description|valuetext|roledescription))$/;
/** Elements whose `name` is shown. */
const NAMED = new Set(["DetailRow", "Tile", "Field", "Fact"]);
/** What looks the same in every language: units, names of things, what is typed. */
const VERBATIM = /^(CPUs?|GPUs?|API|CSV|YAML|JSON|SSH|Slurm|QOS|[Cc]onda|venv|English|Deutsch|Python|Docker|Apptainer|SHA-256|JupyterLab|TensorBoard|GitHub|PyPI|Debian|CUDA|OIDC|LDAP|URL|ID|UTC|Aitne|KiB|MiB|GiB|TiB|min|ms|µs|[a-z]|[A-Z])$/;
/** Elements whose text is typed or read by machines. */
const CODE = new Set(["code", "kbd", "Code", "Kbd", "pre", "samp", "Trans", "style"]);

const wanted = new Map();
const faults = [];
for (const path of sources(join(ROOT, "src"))) readTexts(path);
for (const key of JSON.parse(readFileSync(join(ROOT, "src/i18n/server.json"), "utf8"))) wanted.set(`false ${key}`, { key, counts: false, where: "src/i18n/server.json" });
compare();
for (const fault of faults) console.error(fault);
if (faults.length > 0) {
  console.error(`${faults.length} faults in the texts. English texts are keys: t("Launch"); German is in src/i18n/de.json.`);
  process.exit(1);
}
console.log(`${wanted.size} texts, all of them in English and German.`);

function sources(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /\.tsx?$/.test(entry.name) && !/(\.test\.tsx?|schema\.d\.ts)$|^test-/.test(entry.name) ? [path] : [];
  });
}

function readTexts(path) {
  const file = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  const say = (node, text) => {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    faults.push(`${relative(ROOT, path)}:${line + 1}: ${text}`);
  };
  const want = (key, node, options) => {
    const named = (name) =>
      options?.properties?.find((property) => ts.isShorthandPropertyAssignment(property) || ts.isPropertyAssignment(property) ? property.name.text === name : false);
    const counts = named("count") !== undefined;
    wanted.set(`${counts} ${key}`, { key, counts, where: `${relative(ROOT, path)}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}` });
  };
  const keyOf = (node, options) => {
    if (ts.isStringLiteralLike(node)) want(node.text, node, options);
    else if (ts.isConditionalExpression(node)) {
      keyOf(node.whenTrue, options);
      keyOf(node.whenFalse, options);
    } else if (ts.isParenthesizedExpression(node)) keyOf(node.expression, options);
    else if (ts.isTemplateExpression(node)) say(node, "a key with ${…} is no key: use {{placeholders}}");
  };
  const visit = (node) => {
    if (ts.isCallExpression(node)) {
      const name = ts.isPropertyAccessExpression(node.expression) ? node.expression.name.text : node.expression.getText();
      if ((name === "t" || name === "msg") && node.arguments.length > 0) keyOf(node.arguments[0], node.arguments[1]);
    } else if (isElement(node) && tagOf(node) === "Trans") readTrans(node);
    else if (ts.isJsxText(node) && readable(node.text) && !inCode(node)) say(node, `not translated: ${JSON.stringify(node.text.trim().replace(/\s+/g, " "))}`);
    else if (ts.isJsxAttribute(node) && isSpoken(node) && !inTrans(node)) literalsOf(node.initializer).forEach((each) => say(each, `not translated: ${node.name.getText()}=${each.getText()}`));
    else if (ts.isPropertyAssignment(node) && SPOKEN.test(node.name.getText()) && !inCode(node)) literalsOf(node.initializer).forEach((each) => say(each, `not translated: ${node.name.getText()}: ${each.getText()}`));
    else if (ts.isJsxExpression(node) && (ts.isJsxElement(node.parent) || ts.isJsxFragment(node.parent)) && !inCode(node)) literalsOf(node.expression).forEach((each) => say(each, `not translated: ${each.getText()}`));
    else if ((ts.isStringLiteralLike(node) || ts.isTemplateHead(node)) && isSentence(node.text) && !excused(node)) say(node, `not translated: ${JSON.stringify(node.text)}`);
    ts.forEachChild(node, visit);
  };
  const readTrans = (node) => {
    const attributes = (ts.isJsxElement(node) ? node.openingElement : node).attributes.properties;
    const key = attributes.find((each) => each.name?.getText() === "i18nKey")?.initializer;
    const literal = key !== undefined && ts.isJsxExpression(key) ? key.expression : key;
    const counts = attributes.some((each) => each.name?.getText() === "count");
    if (literal === undefined) say(node, "<Trans> needs its text in i18nKey");
    else keyOf(literal, counts ? { properties: [{ ...ts.factory.createPropertyAssignment("count", ts.factory.createNull()) }] } : undefined);
  };
  visit(file);
}

function isSpoken(attribute) {
  const name = attribute.name.getText();
  return SPOKEN.test(name) || (name === "name" && NAMED.has(attribute.parent.parent.tagName.getText()));
}

function isElement(node) {
  return ts.isJsxElement(node) || ts.isJsxSelfClosingElement(node);
}

function tagOf(node) {
  return (ts.isJsxElement(node) ? node.openingElement : node).tagName.getText();
}

function inCode(node) {
  for (let up = node.parent; up !== undefined; up = up.parent) if (isElement(up) && CODE.has(tagOf(up))) return true;
  return false;
}

function inTrans(node) {
  for (let up = node.parent; up !== undefined; up = up.parent) if (isElement(up) && tagOf(up) === "Trans") return true;
  return false;
}

function readable(text) {
  // Entities, paths and expressions that are typed are no words.
  const words = text.replace(/&\w+;|\S*[~/&=$:]\S+|\w+ \S+\.py/g, " ").match(/[\p{L}][\p{L}-]*/gu) ?? [];
  return words.some((word) => !VERBATIM.test(word));
}

/** The literals that an expression may become, without those that are arguments or compared. */
function literalsOf(node) {
  if (node === undefined) return [];
  if (ts.isStringLiteralLike(node)) return readable(node.text) ? [node] : [];
  if (ts.isTemplateExpression(node)) return readable([node.head, ...node.templateSpans.map((span) => span.literal)].map((each) => each.text).join(" ")) ? [node] : [];
  if (ts.isConditionalExpression(node)) return [...literalsOf(node.whenTrue), ...literalsOf(node.whenFalse)];
  if (ts.isParenthesizedExpression(node) || ts.isJsxExpression(node)) return literalsOf(node.expression);
  if (ts.isBinaryExpression(node)) return /^(&&|\|\||\?\?|\+)$/.test(node.operatorToken.getText()) ? [...literalsOf(node.left), ...literalsOf(node.right)] : [];
  return [];
}

/** Outside of elements only what is a sentence or a title beyond doubt. */
function isSentence(text) {
  return /^\p{Lu}?\p{Ll}+('\p{L}+)?,? \p{L}/u.test(text) && !/[<>{}=;#|]|--|: \d|^(aitne|pip|python|from|import|srun|sbatch) /.test(text) && / \p{Ll}/u.test(text) && /^\p{Lu}|[.!?…]$/u.test(text);
}

function excused(node) {
  for (let up = node.parent, under = node; up !== undefined; under = up, up = up.parent) {
    if (ts.isCallExpression(up) && up.expression !== under) {
      const name = ts.isPropertyAccessExpression(up.expression) ? up.expression.name.text : up.expression.getText();
      if (name === "t" || name === "msg") return true;
    }
    if (ts.isNewExpression(up) && up.expression.getText() === "Error") return true;
    if (ts.isJsxAttribute(up) || (isElement(up) && tagOf(up) === "Trans")) return true;
    if (ts.isLiteralTypeNode(up)) return true;
  }
  return false;
}

function compare() {
  const [en, de] = ["en", "de"].map((name) => JSON.parse(readFileSync(join(ROOT, `src/i18n/${name}.json`), "utf8")));
  const used = { en: new Set(), de: new Set() };
  for (const { key, counts, where } of wanted.values()) {
    for (const [name, texts] of [["en", en], ["de", de]]) {
      const names = counts ? FORMS.map((form) => `${key}_${form}`) : [key];
      for (const each of names) {
        used[name].add(each);
        const text = texts[each];
        if (text === undefined) {
          if (name === "de" || counts) faults.push(`${where}: ${name}.json has no ${JSON.stringify(each)}`);
        } else if (placeholders(text) !== placeholders(key) && !(counts && !placeholders(text).includes("count") && placeholders(`${text}{{count}}`) === placeholders(key))) faults.push(`${where}: other placeholders in ${name}.json for ${JSON.stringify(each)}`);
      }
    }
  }
  for (const [name, texts] of [["en", en], ["de", de]]) {
    for (const key of Object.keys(texts)) if (!used[name].has(key)) faults.push(`src/i18n/${name}.json: nothing uses ${JSON.stringify(key)}`);
  }
}

function placeholders(text) {
  return [...new Set(text.match(/\{\{\s*\w+/g) ?? [])].map((each) => each.replace(/\W/g, "")).sort().join(",");
}
