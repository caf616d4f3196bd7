// Package jsondoc edits JSON objects without losing anything: members keep their order and numbers their digits. It knows
// JSON only.
package jsondoc
