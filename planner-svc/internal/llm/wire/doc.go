// Package wire sends requests of language models over HTTP and reads the server-sent events of their answers: with bounds on time and
// size, retries, one classification of errors, and without following redirects, which would carry keys elsewhere. It knows no
// provider's messages.
package wire
