// Package sealed is a store that encrypts the values of some buckets: the registrations of servers. It does not know what the values mean.
package sealed

// KeyFile is the name of the key's file in the data folder, used if no other key is configured.
const KeyFile = "mcp-logins.key"
