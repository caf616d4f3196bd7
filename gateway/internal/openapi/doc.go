// Package openapi serves the OpenAPI document, a page to read it with, and the start page. The document is generated from the protos and
// completed here with parts that the generator does not know: servers, credentials, problems and streams. The page is RapiDoc, an embedded
// viewer. The package must not know how requests are served.
package openapi
