// Characters that a reader would not see, or that would reorder what he sees, are spelt out.

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text with control, bidirectional and zero-width characters as escapes; line breaks and tabs stay. */
export function visible(text) {
  return text.replace(ODD, (c) => (c === "\r" ? "" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`));
}
