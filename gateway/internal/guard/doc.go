// Package guard keeps web pages away from a gateway that trusts every caller: it checks the Host (DNS rebinding),
// the Origin and Sec-Fetch-Site (pages of other origins) and the Content-Type (forms, which browsers send without
// asking) of every request, on every path, and answers CORS preflights for the origins that the operator allowed. It
// must not know paths or users.
package guard
