// Package schema validates exact JSON by JSON Schema and reads objects that come as text or google.protobuf.Struct. It keeps
// numbers as they were written, loads nothing from anywhere, and reports problems in words for people and models. It
// knows no tool and no service.
package schema
