// Package prompt asks a person at a terminal: for approval of a step and for missing parameters, line by line. It
// returns the answer as a request and sends nothing. It must only be used where someone is there to answer.
package prompt
