// Package route says which RPC an HTTP method and path belong to, read from the contracts' own HTTP annotations. It is
// what makes an unknown path a 404, a wrong method a 405 with Allow, and a stream's path known before any generated
// handler sees it. It must not know what the RPCs do.
package route
