// Package wire is how adapters of language models reach their providers: over HTTP with bounds on time and size, without following
// redirects, which would carry keys elsewhere. It knows no provider.
package wire
