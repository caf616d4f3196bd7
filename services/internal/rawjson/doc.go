// Package rawjson reads JSON as text, so that numbers, the order of members and the spelling of strings stay exactly as
// they were written. Check goes over a whole document; everything else takes text that Check has passed and looks at one
// level. It knows no schema and no message.
package rawjson
