// Package wire writes messages as the JSON that clients see, the same in answers and streams: lowerCamel names, enums by
// name, fields at their default left out. It must not know any message.
package wire
