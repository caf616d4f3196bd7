// Package seal encrypts what the pool stores: logins, and the registrations of servers. A value can be decrypted only in its own place of the
// store. The package opens the key, and does not know what the values mean.
package seal
