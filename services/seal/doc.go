// Package seal encrypts stored secrets with a key that the operator names, or that the program keeps in a file of its own. A value can be
// decrypted only in its own place of the store. The package does not know what the values mean.
package seal
