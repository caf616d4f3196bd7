// Package pack turns stored messages into few bytes and back, without losing one.
//
// It works on the wire form, so that a field that it does not know is kept as it is. Ranges of a message are cut out
// where their bytes are kept elsewhere: large strings by their SHA-256, a string that stands in the same message already,
// and the input and description of a step, which a record holds, and digits of hashes. The checkpoint is split into what each commit changes and what hardly
// ever changes.
//
// It must not know keys, transactions or files.
package pack
