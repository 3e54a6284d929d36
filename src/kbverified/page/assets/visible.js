// Characters that a reader would not see, that would reorder what he sees or paint over it, are spelt out.

const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]|[\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]|\p{M}(?<=\p{M}{5})/gu;

/** The text with control, bidirectional and invisible characters as escapes, and with the marks of a letter beyond its
 * fourth, which would pile up over the lines beside it; line breaks and tabs stay. */
export function visible(text) {
  return text.replace(ODD, (c) => (c === "\r" ? "" : escape(c.codePointAt(0).toString(16))));
}

const escape = (hex) => (hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`);
