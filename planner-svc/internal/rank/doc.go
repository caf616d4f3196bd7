// Package rank orders tools by how well their names, descriptions and parameters match a text, in English and Chinese, with BM25. It knows
// words and no grammar.
package rank
