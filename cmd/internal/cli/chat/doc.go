// Package chat holds the commands about conversations: pawl chat and pawl topics.
package chat
