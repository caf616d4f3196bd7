// Package docs serves the OpenAPI document and a page to read it by. The document is the one that is generated from the
// contracts, completed here with what the generator cannot know: servers, credentials, problems and streams. It must not
// know how requests are served.
package docs
