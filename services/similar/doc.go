// Package similar finds the known names that are most like an unknown one. It must not know what they name.
package similar
