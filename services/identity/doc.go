// Package identity authenticates callers. Authenticate turns the caller's credential into a Principal in the context;
// handlers read it with FromContext and never see a token. Without configuration everyone is the user `local`; with a
// key file, hashed API keys identify callers, and with an issuer file, signed tokens of OpenID Connect issuers do. A service may act on behalf of a user. The package knows no object that
// users own and decides nothing about them.
package identity
