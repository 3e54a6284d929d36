// Colours for Python and for the C++ in its strings. One pass, each character looked at a bounded number of times: the
// text is a candidate's own, and no text must make a reader's browser hang.

const PYTHON = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda match nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const CPP = new Set(
  (
    "__constant__ __device__ __forceinline__ __global__ __host__ __launch_bounds__ __restrict__ __shared__ __syncthreads " +
    "auto bool break case char class const constexpr continue default delete do double else enum extern false float float2 float4 for half " +
    "if inline int int64_t long namespace new nullptr operator private public return short signed sizeof static static_cast struct " +
    "switch template this true typedef typename uint32_t union unsigned using virtual void volatile while"
  ).split(" "),
);
const LOOKS_CPP = /#include|__global__|torch::Tensor|at::Tensor|PYBIND11_MODULE|TORCH_LIBRARY/;

const word = /[A-Za-z_]\w*/y;
const number = /\d[\w.]*/y;
const spaces = /[^\w"'#@/]+/y;

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? null;
}

const lineEnd = (text, at) => {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
};

/** Where a string ends that opens at `at` with `quote`: behind the closing one, or, of one line, at the line's end. */
function stringEnd(text, at, quote) {
  const one = quote.length === 1;
  for (let i = at + quote.length; i < text.length; i += 1) {
    if (text[i] === "\\") i += 1;
    else if (one && text[i] === "\n") return i;
    else if (text.startsWith(quote, i)) return i + quote.length;
  }
  return text.length;
}

/** Tokens [kind, text] of a Python source; kinds are classes of the style sheet, "" for plain text. */
export function tokens(source) {
  const found = [];
  let at = 0;
  let before = "";
  while (at < source.length) {
    const c = source[at];
    let kind = "";
    let end = at + 1;
    const name = match(word, source, at);
    if (name !== null) {
      const quote = name.length <= 2 && /^[rbufRBUF]+$/.test(name) ? quoteAt(source, at + name.length) : null;
      if (quote) {
        at = string(source, at, at + name.length, quote, found);
        before = "";
        continue;
      }
      end = at + name.length;
      kind = PYTHON.has(name) ? "k" : before === "def" || before === "class" ? "f" : "";
      before = name;
    } else if (quoteAt(source, at)) {
      at = string(source, at, at, quoteAt(source, at), found);
      before = "";
      continue;
    } else if (c === "#") {
      kind = "c";
      end = lineEnd(source, at);
    } else if (c === "@") {
      const rest = match(word, source, at + 1);
      kind = "f";
      end = at + 1 + (rest ?? "").length;
    } else end = at + (match(number, source, at) ?? match(spaces, source, at) ?? c).length;
    if (kind === "" && name === null && c >= "0" && c <= "9") kind = "n";
    found.push([kind, source.slice(at, end)]);
    at = end;
  }
  return found;
}

function quoteAt(text, at) {
  const c = text[at];
  if (c !== '"' && c !== "'") return null;
  return text.startsWith(c.repeat(3), at) ? c.repeat(3) : c;
}

function string(source, from, at, quote, found) {
  const end = stringEnd(source, at, quote);
  const text = source.slice(from, end);
  if (quote.length === 3 && LOOKS_CPP.test(text)) cpp(text, found);
  else found.push(["s", text]);
  return end;
}

function cpp(text, found) {
  let at = 0;
  while (at < text.length) {
    const c = text[at];
    let kind = "";
    let end = at + 1;
    const name = match(word, text, at);
    if (name !== null) {
      end = at + name.length;
      kind = CPP.has(name) ? "k" : "";
    } else if (text.startsWith("//", at)) {
      kind = "c";
      end = lineEnd(text, at);
    } else if (text.startsWith("/*", at)) {
      kind = "c";
      const close = text.indexOf("*/", at + 2);
      end = close < 0 ? text.length : close + 2;
    } else if (c === "#") {
      kind = "p";
      end = lineEnd(text, at);
    } else if (text.startsWith('"""', at) || text.startsWith("'''", at)) {
      kind = "s";
      end = at + 3;
    } else if (c === '"' || c === "'") {
      kind = "s";
      end = stringEnd(text, at, c);
    } else if (c >= "0" && c <= "9") {
      kind = "n";
      end = at + match(number, text, at).length;
    } else end = at + (match(spaces, text, at) ?? c).length;
    found.push([kind, text.slice(at, end)]);
    at = end;
  }
}
