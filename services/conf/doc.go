// Package conf fills one struct from flags, the environment (PAWL_…) and a YAML file, in that order of precedence, and
// prints help and usage errors. It is kong with one set of rules for every program of the suite, and knows no setting.
package conf
