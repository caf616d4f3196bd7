// Package ledger knows the calls of a pool, from their beginning until they are forgotten: who follows a running one, what
// a finished one came to until somebody keeps that elsewhere, and which ids must not be called (again). It says of an id
// that nothing was executed only where that is certain. Everything in it is bounded in number and in bytes. It does not
// make calls, and knows neither connections nor tools.
package ledger
