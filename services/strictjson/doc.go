// Package strictjson reads JSON that all programs read in the same way: no key comes twice in an object, nesting is bounded, and
// numbers, the order of members and the spelling of strings stay as they were written. Check, Scan,
// Parse and ParseObject validate text; the other functions that read JSON take validated text. The package knows no schema and no message.
package strictjson
