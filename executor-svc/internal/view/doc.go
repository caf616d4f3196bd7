// Package view derives API messages from stored ones. It must not store or decide anything.
package view
