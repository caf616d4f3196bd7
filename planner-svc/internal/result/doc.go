// Package result reads the outputs of tools into a few shapes: found files, found lines, a folder's entries, a file's
// content, a file's description. It takes structured results where a tool gives them and reads plain text where not, and
// knows neither goals nor languages.
package result
