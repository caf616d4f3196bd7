// Package page makes page tokens: opaque to clients, and bound to the query that they continue, so that the token of one
// list cannot be used for another. It knows no list and no store.
package page
